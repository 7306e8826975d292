"""Everything that ``torture.py`` may do to a run."""

import dataclasses
import random
from collections.abc import Callable

from scripts.fault_injection import damages, disturbances
from scripts.fault_injection.subjects import Subject


@dataclasses.dataclass(frozen=True, kw_only=True)
class Disturbance:
    """Something that may happen to a run.

    Attributes:
      name: for the summary.
      apply: (subject, choose) -> what was done, in a few words.
      needs_small_disk: the subject's folder must be on one.
    """

    name: str
    apply: Callable[[Subject, random.Random], str]
    needs_small_disk: bool = False


_ALL = {
    "kill at some moment": disturbances.kill_at_some_moment,
    "kill in the warm start": disturbances.kill_in_the_warm_start,
    "kill in the first evaluation": disturbances.kill_in_the_first_evaluation,
    "kill at some tick": disturbances.kill_at_some_tick,
    "kill in a save": disturbances.kill_in_a_save,
    "SIGTERM": disturbances.ask_to_stop,
    "SIGTERM in the warm start": disturbances.ask_in_the_warm_start,
    "SIGTERM in the first evaluation": disturbances.ask_in_the_first_evaluation,
    "full disk": disturbances.fill_the_disk,
    "failing writes": disturbances.forbid_large_files,
    "newest checkpoint damaged": damages.damage_the_newest,
    "newest checkpoint removed": damages.remove_the_newest,
    "newest checkpoint renamed": damages.rename_the_newest,
    "newest checkpoint swapped": damages.swap_the_newest,
    "all checkpoints damaged": damages.damage_all,
    "folder moved": damages.move_the_folder,
    "folder deleted": damages.delete_the_folder,
}

ALL = tuple(
    Disturbance(name=name, apply=apply, needs_small_disk=name == "full disk")
    for name, apply in _ALL.items()
)
