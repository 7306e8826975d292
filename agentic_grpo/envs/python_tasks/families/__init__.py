"""Families of one-function tasks, in graded levels; hundreds of different functions."""

from collections.abc import Collection

from agentic_grpo.envs.python_tasks.families import (
    arithmetic,
    sequences,
    slow_or_quick_lists,
    slow_or_quick_numbers,
    texts,
    windows,
)
from agentic_grpo.envs.python_tasks.families.family import NUM_LEVELS, Family
from agentic_grpo.envs.python_tasks.problem import Problem
from agentic_grpo.errors import require, require_choice

_MODULES = (
    arithmetic,
    sequences,
    windows,
    texts,
    slow_or_quick_numbers,
    slow_or_quick_lists,
)

#: name -> Family; those of ``slow_or_quick`` have a slow right answer too.
FAMILIES: dict[str, Family] = {
    family.name: family for module in _MODULES for family in module.FAMILIES
}


def generate(
    families: Collection[str] = tuple(FAMILIES),
    *,
    levels: Collection[int] = tuple(range(1, NUM_LEVELS + 1)),
    large_visible: bool = False,
) -> tuple[Problem, ...]:
    """All functions of some families.

    Args:
      families: names of ``FAMILIES``.
      levels: only families of these.
      large_visible: the visible calls have large ones among them, as the hidden ones
        have: a slow program is then seen through at once.

    Raises:
      Refused: a name is unknown, or nothing is left.
    """
    for name in families:
        require_choice("families", name, FAMILIES)
    chosen = [FAMILIES[name] for name in families if FAMILIES[name].level in levels]
    rule = f"levels, 1 to {NUM_LEVELS}, of some of the families {tuple(families)}"
    require(len(chosen) > 0, "levels", tuple(levels), rule)
    return tuple(
        problem
        for family in chosen
        for problem in family.problems(large_visible=large_visible)
    )
