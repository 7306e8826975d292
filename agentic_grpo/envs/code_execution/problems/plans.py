"""Plans: classes of programs, each with the instructions that it may use.

The algorithm stage names one of them, and it binds every later program of the episode.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution.vm.instructions import NUM_OPS, Op

_LOOPS = {Op.SUM, Op.ITERATE, Op.CLOSE, Op.INDEX, Op.OUTER_INDEX}
_CLOSED_FORM_ONLY = {Op.FLOORDIV, Op.SELECT}

#: Class -> the instructions that it forbids, narrowest first. Programs that loop have
#: no use for division and selection, which belong to closed forms: to plan a loop is to
#: give most of them up.
PLANS: dict[str, frozenset[Op]] = {
    "closed": frozenset(_LOOPS),
    "summing": frozenset({Op.ITERATE} | _CLOSED_FORM_ONLY),
    "iterating": frozenset({Op.SUM} | _CLOSED_FORM_ONLY),
    "looping": frozenset(_CLOSED_FORM_ONLY),
}

#: What may be written after a plan that names no class: nothing that computes.
UNPLANNED = len(PLANS)

#: Before any plan, everything may be written.
UNBOUND = -1


def class_of(opcodes: Iterable[int]) -> int:
    """The narrowest plan that allows a program.

    Raises:
      ValueError: no plan allows it.
    """
    used = {Op(int(opcode)) for opcode in opcodes}
    for plan, forbidden in enumerate(PLANS.values()):
        if not used & forbidden:
            return plan
    raise ValueError(f"opcodes has {sorted(used)}, which no plan allows together")


def obeys(programs: jax.Array, plans: jax.Array) -> jax.Array:
    """bool [...]: does each program [..., L] keep to its plan [...]?

    Unknown opcodes do not count: they are faults of their own.
    """
    forbidden = _forbidden_bits()
    bits = jnp.zeros(plans.shape, jnp.uint32)
    for plan in range(len(PLANS) + 1):
        bits = jnp.where(plans == plan, forbidden[plan], bits)
    known = (programs >= 0) & (programs < NUM_OPS)
    shift = jnp.where(known, programs, 0).astype(jnp.uint32)
    hits = (bits[..., None] >> shift) & 1
    return ~jnp.any(known & (hits == 1), axis=-1)


def _forbidden_bits() -> np.ndarray:
    """uint32 [len(PLANS) + 1]: a set of opcodes per plan; the last is UNPLANNED."""
    everything = frozenset(Op) - {Op.HALT}
    sets = [*PLANS.values(), everything]
    return np.array([sum(1 << op for op in ops) for ops in sets], np.uint32)
