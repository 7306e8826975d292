"""Checkpoints without the published weights that an adapter leaves as they are.

They can be read again from where they came from; a checkpoint holds their digest.
"""

import dataclasses
from collections.abc import Callable

import jax

from agentic_grpo.errors import require

#: Among the notes of a checkpoint.
DIGEST = "base"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    """Frozen parameters that a checkpoint leaves out.

    Attributes:
      field: the setting that names where they are.
      place: what it says.
      digest: a name for what is there, by the contents.
      read: () -> the parameters.
    """

    field: str
    place: str
    digest: str
    read: Callable[[], dict]


def without_base(state):
    """A ``tick.TrainState`` without its frozen parameters."""
    learner = dataclasses.replace(state.learner, frozen=None)
    return dataclasses.replace(state, learner=learner)


def require_unchanged(base: Base | None, notes: dict) -> None:
    """Raises a ValueError unless the base is the one that a checkpoint left out."""
    if base is not None:
        rule = "what the run started from; since then its files have changed"
        require(notes[DIGEST] == base.digest, base.field, base.place, rule)


def restore(checkpoints, base: Base | None, target, step=None, *, check):
    """As ``Checkpoints.restore``, whether or not the checkpoints are without a base.

    Args:
      checkpoints: a ``checkpoints.Checkpoints``.
      base: what they leave out; None: nothing.
      target, step, check: as of ``Checkpoints.restore``; the target is whole.

    Raises:
      ValueError: the base is not that of the run any more.
      CheckpointError: as ``Checkpoints.restore``.
    """
    if base is None:
        return checkpoints.restore(target, step, check=check)

    def check_base(notes):
        check(notes)
        require_unchanged(base, notes)

    state, notes = checkpoints.restore(without_base(target), step, check=check_base)
    frozen = jax.tree.map(_place, base.read(), target.learner.frozen)
    learner = dataclasses.replace(state.learner, frozen=frozen)
    return dataclasses.replace(state, learner=learner), notes


def _place(array, like):
    return jax.device_put(array, getattr(like, "sharding", None))
