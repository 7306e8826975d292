"""The kinds of runs that ``torture.py`` disturbs; and one that belongs to nobody."""

import dataclasses

from experiments.config import command_line, fields

CONFIG = "experiments/configs/smoke.py"
NUM_TICKS = 24

#: A run of many dispatches, each with a checkpoint, in which every tick learns; its
#: warm start has enough dispatches to be hit in one of them.
CHANGES = (
    f"num_ticks={NUM_TICKS}",
    "checkpoint.every=2",
    "evaluation.every=4",
    "env.code_execution.stages=('code',)",
    "env.code_execution.hidden_rate=0.0",
    "env.code_execution.verdict_latency.minimum=5",
    "rollout.group_size=4",
    "warm_start.num_steps=8",
    "learner.entropy_weight=0.01",
    "learner.kl_weight=0.01",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """A kind of run.

    Attributes:
      name: for the summary.
      seeds: one run each; several are trained by one process.
      changes: of the config, beside ``CHANGES``.
    """

    name: str
    seeds: tuple[int, ...] = (0,)
    changes: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Of ``experiments.train``."""
        changes = (*CHANGES, *self.changes)
        return (f"--config={CONFIG}", *(f"--config.{change}" for change in changes))

    def config(self, seed: int):
        """Of one of its runs."""
        config = command_line.read_config(CONFIG, (*CHANGES, *self.changes))
        return fields.change(config, {"seed": seed})


ONE = Variant(name="one run")
TOGETHER = Variant(name="seeds together", seeds=(0, 1))

#: The first steps blow the weights up; then no gradient is finite, and none is taken.
REFUSED_STEPS = Variant(
    name="refused steps",
    changes=(
        "learner.learning_rate=10",
        "learner.weight_decay=1e5",
        "learner.max_skipped=1000",
    ),
)

ALL = (ONE, TOGETHER, REFUSED_STEPS)

#: Whose checkpoints are laid into the folders of others; keeps all of them.
FOREIGN = Variant(name="another run", changes=("seed=7", "checkpoint.keep=100"))
