"""Two ticks of a config, as a run would take them, and that nothing in them is odd."""

import jax
import numpy as np

from agentic_grpo.ops.reductions import Mean
from agentic_grpo.training import compiling, devices
from experiments.config import build


def prepared(config):
    experiment = build.build(config)
    return experiment, build.build_layout(config, experiment.program)


def run(config):
    """Dispatches two ticks from random parameters and looks at what they leave."""
    experiment, layout = prepared(config)
    program = experiment.program
    base = jax.jit(program.policy.init)(experiment.init_key)
    params = experiment.starting_params(base)
    state = devices.first_state(layout, program, params, experiment.run_key)
    dispatch, _ = compiling.compile_dispatch(layout, program, state, num_ticks=2)
    state, metrics, _ = dispatch(state)
    assert int(state.tick) == 2
    for leaf in jax.tree.leaves(state.learner.params):
        assert np.isfinite(np.asarray(leaf, np.float32)).all()
    for name, value in jax.device_get(metrics).items():
        parts = value if isinstance(value, Mean) else (value,)
        assert all(np.isfinite(part).all() for part in parts), name
    assert float(np.sum(metrics["not_finite"].total)) == 0
