"""Problems: chains of requests, the records they are asked of, and the statement.

Splits are by the chain: kinds, slots and digits of all requests. A hash of everything
but the last digit, plus that digit, modulo 10 is the chain's class, and a class belongs
to one split. So a problem of a split is drawn without rejection, and no chain of the
test split was ever trained on, whatever records it is asked of.
"""

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.tool_workflow import requests, tools, vocabulary
from agentic_grpo.envs.tool_workflow.config import ToolWorkflowConfig
from agentic_grpo.envs.tool_workflow.state import Problem
from agentic_grpo.errors import require_choice

#: Split -> its classes of chains.
SPLITS = {"train": tuple(range(7)), "validation": (7,), "test": (8, 9)}

#: Tokens of one request in the statement: kind, x, y, digit, what x and y are left as.
REQUEST_WIDTH = 6

#: What the routes cost.
ROUTE_COSTS = np.array([0, 2], np.int32)


def prompt_width(config: ToolWorkflowConfig) -> int:
    """Columns of the statement: source, budget, the example, the requests."""
    return 2 + tools.NUM_SLOTS + REQUEST_WIDTH * config.num_parts


def num_uniforms(config: ToolWorkflowConfig) -> int:
    """Uniform numbers that ``draw`` makes a problem of."""
    return sum(_sizes(config))


def draw(uniform: jax.Array, split: str, config: ToolWorkflowConfig) -> Problem:
    """One problem of the split from each row of float [N, num_uniforms] in [0, 1).

    Raises:
      ValueError: the split is unknown.
    """
    require_choice("split", split, SPLITS)
    return jax.vmap(lambda row: _draw_one(row, SPLITS[split], config))(uniform)


def chain_class(
    kind: jax.Array, x: jax.Array, y: jax.Array, digit: jax.Array
) -> jax.Array:
    """int32 [...]: the class of chains whose requests are int32 [..., P]."""
    return (_hash(kind, x, y, digit[..., :-1]) + digit[..., -1]) % tools.NUM_DIGITS


def statement(problem: Problem) -> jax.Array:
    """int32 [N, prompt_width]: what the agents are told."""
    last = np.arange(problem.kind.shape[1]) == problem.kind.shape[1] - 1
    conceal = problem.hidden[:, None] & last[None, :]
    numbers = jnp.concatenate([problem.digit[..., None], problem.left], axis=-1)
    numbers = jnp.where(
        conceal[..., None], vocabulary.HIDDEN, vocabulary.FIRST_NUMBER + numbers
    )
    slots = vocabulary.FIRST_SLOT + jnp.stack([problem.x, problem.y], axis=-1)
    kind = vocabulary.FIRST_KIND + problem.kind
    asked = jnp.concatenate([kind[..., None], slots, numbers], axis=-1)
    head = [
        vocabulary.FIRST_SOURCE + problem.moving[:, None].astype(jnp.int32),
        vocabulary.FIRST_NUMBER + problem.budget[:, None],
        vocabulary.FIRST_NUMBER + problem.origin[:, 0],
    ]
    return jnp.concatenate([*head, asked.reshape(asked.shape[0], -1)], axis=1)


def reference(problem: Problem) -> jax.Array:
    """int32 [N, P, 2, 3]: the calls that answer the requests."""
    return requests.calls_for(problem.kind, problem.x, problem.y, problem.digit)


def reference_cost(problem: Problem, parts_written: jax.Array) -> jax.Array:
    """int32 [N, G]: cost of the right route and of the first parts int32 [N, G]."""
    parts = jnp.arange(problem.kind.shape[1], dtype=jnp.int32)[None, None]
    per_part = tools.cost(reference(problem))[:, None]
    written = jnp.where(parts < parts_written[..., None], per_part, 0)
    route = jnp.asarray(ROUTE_COSTS)[problem.moving.astype(jnp.int32)]
    return route[:, None] + jnp.sum(written, axis=-1, dtype=jnp.int32)


def level(problem: Problem) -> jax.Array:
    """int32 [N]: how many requests move something from one slot to another."""
    return jnp.sum(jnp.asarray(requests.LINKS)[problem.kind], axis=1, dtype=jnp.int32)


def _sizes(config) -> tuple[int, ...]:
    """Uniform numbers of the chain, of the records, of their drift, of the dials."""
    num_records = 1 + config.num_checks + config.num_audited
    num_values = num_records * tools.NUM_SLOTS
    return 3 * config.num_parts + 1, num_values, num_values, 2 + config.num_checks


def _draw_one(uniform, classes, config) -> Problem:
    ends = np.cumsum(_sizes(config))[:-1]
    for_chain, for_origin, for_drift, for_dials = jnp.split(uniform, ends)
    kind, x, y, digit = _draw_chain(for_chain, classes, config)
    calls = requests.calls_for(kind, x, y, digit)
    moving = for_dials[0] < config.moving_rate

    origin = _below(for_origin, tools.NUM_DIGITS).reshape(-1, tools.NUM_SLOTS)
    drift = 1 + _below(for_drift, tools.NUM_DIGITS - 1).reshape(origin.shape)
    drifts = moving & (jnp.arange(len(origin)) > 0)  # the example is as it is shown
    cached = (origin + jnp.where(drifts[:, None], drift, 0)) % tools.NUM_DIGITS

    def answer(records, part):
        calls, x, y = part
        records = tools.run(calls, records)
        return records, jnp.stack([records[0, x], records[0, y]])

    goal, left = jax.lax.scan(answer, origin, (calls, x, y))
    route = jnp.asarray(ROUTE_COSTS)[moving.astype(jnp.int32)]
    cost = jnp.sum(tools.cost(calls), dtype=jnp.int32) + route
    return Problem(
        moving=moving,
        hidden=for_dials[1] < config.hidden_rate,
        kind=kind,
        x=x,
        y=y,
        digit=digit,
        origin=origin,
        cached=cached,
        goal=goal,
        left=left,
        hidden_like=for_dials[2:] < config.visible_fidelity,
        budget=cost + config.budget_slack,
    )


def _draw_chain(uniform, classes, config):
    """Requests int32 [P] each, of a class of the split."""
    for_kind, for_pair, for_digit = uniform[:-1].reshape(3, -1)
    allowed = [tuple(requests.KINDS).index(name) for name in config.kinds]
    kind = jnp.asarray(allowed, jnp.int32)[_below(for_kind, len(allowed))]
    pair = _below(for_pair, len(requests.PAIRS))
    x, y = jnp.moveaxis(jnp.asarray(requests.PAIRS)[pair], -1, 0)
    digit = _below(for_digit, tools.NUM_DIGITS)
    wanted = jnp.asarray(classes, jnp.int32)[_below(uniform[-1], len(classes))]
    last = (wanted - _hash(kind, x, y, digit[:-1])) % tools.NUM_DIGITS
    return kind, x, y, digit.at[-1].set(last)


def _below(uniform, count) -> jax.Array:
    """int32 [...] in 0 .. count - 1 from float [...] in [0, 1)."""
    whole = jnp.floor(uniform * count).astype(jnp.int32)
    return jnp.minimum(whole, count - 1)  # a product may round up to count


def _hash(*numbers) -> jax.Array:
    """int32 [...] in 0 .. 9: FNV-1a over the last axes, with a final mixing."""
    value = jnp.uint32(2166136261)
    for each in numbers:
        for index in range(each.shape[-1]):
            value = (value ^ each[..., index].astype(jnp.uint32)) * jnp.uint32(16777619)
    value = (value ^ (value >> 15)) * jnp.uint32(0x2C1B3C6D)
    value = value ^ (value >> 13)
    return (value % jnp.uint32(tools.NUM_DIGITS)).astype(jnp.int32)
