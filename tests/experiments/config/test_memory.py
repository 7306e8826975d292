"""Memory is estimated near what XLA asks for, and parts follow from it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo.models import decoding
from agentic_grpo.models.transformer import Transformer, TransformerConfig
from experiments.config import build, fields, memory
from experiments.configs import smoke

ROWS, COLUMNS = 32, 64
DECODER = TransformerConfig(
    vocabulary_size=64,
    num_layers=8,
    hidden_size=64,
    num_heads=4,
    num_kv_heads=2,
    head_size=16,
    mlp_size=192,
)


@pytest.mark.parametrize("layers", ["unrolled", "scanned"])
def test_activations_are_those_that_a_backward_pass_keeps(layers):
    config = dataclasses.replace(DECODER, layers=layers)
    model = Transformer(config)
    visible = np.tril(np.ones((COLUMNS, COLUMNS), bool))

    def loss(params, tokens, mask):
        return jnp.sum(decoding.score(model, params, tokens, mask, visible)[0])

    compiled = (
        jax.jit(jax.grad(loss))
        .lower(
            jax.eval_shape(model.init, jax.random.key(0)),
            jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.int32),
            jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.bool_),
        )
        .compile()
    )
    asked = compiled.memory_analysis().temp_size_in_bytes
    estimated = memory.activation_bytes(config, rows=ROWS, columns=COLUMNS)
    assert 0.7 * asked < estimated < 1.1 * asked


def test_a_step_is_taken_in_as_few_equal_parts_as_fit():
    def parts(limit, rows=12):
        return memory.fewest_parts(DECODER, rows=rows, columns=COLUMNS, limit=limit)

    of_row = memory.activation_bytes(DECODER, rows=1, columns=COLUMNS)
    assert parts(12 * of_row) == 1
    assert parts(11.9 * of_row) == 2
    assert parts(2.5 * of_row) == 6  # of 2 rows: 12 / 5 rows are no equal parts
    assert parts(0.5 * of_row) == 12  # one row is all there is to give up


def test_parts_that_nobody_names_follow_from_the_memory():
    changes = {"learner.num_microbatches": 0, "learner.activation_gigabytes": 1e-4}
    config = fields.change(smoke.get_config(), changes)
    experiment = build.build(config)
    program = experiment.program
    batch = program.update_slots * program.rollout.num_members
    parts = program.learner.num_microbatches
    columns = program.environment.spec.layout.num_columns
    assert 1 < parts <= batch and batch % parts == 0
    needed = build.memory_of(config, experiment)
    own = experiment.decoder.config
    assert needed.activations == memory.activation_bytes(
        own, rows=batch // parts, columns=columns
    )
    params = jax.eval_shape(program.policy.init, experiment.init_key)
    size = sum(4 * leaf.size for leaf in jax.tree.leaves(params))
    assert needed.parameters == size and needed.gradients == 2 * size
    assert 2 * size <= needed.optimizer < 2 * size + 100  # two moments and a count
    assert str(needed).startswith("memory, estimated in GB: parameters 0.0, optimizer")
