"""Everything static that the steps share: the config and what was built from it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs.code_execution.config import CodeExecutionConfig
from agentic_grpo.envs.code_execution.problems import (
    measurements,
    mutants,
)
from agentic_grpo.envs.code_execution.problems import (
    table as problem_table,
)
from agentic_grpo.envs.code_execution.stages import workflow
from agentic_grpo.layout import EpisodeLayout


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """A config with its tables, as NumPy arrays.

    Attributes:
      config: the settings.
      table: the problems, I rows.
      layout: the columns of an episode.
      facts: what a summary should keep.
      fidelity: float32 [F]; visible fidelity per family of the table.
      brute_fuel: int32 [D], laid out as ``table.truth``; None where no score asks.
      mutants: the mutants of every problem; None in a workflow without a tests stage.
    """

    config: CodeExecutionConfig
    table: problem_table.ProblemTable
    layout: EpisodeLayout
    facts: tuple[str, ...]
    fidelity: np.ndarray
    brute_fuel: np.ndarray | None
    mutants: mutants.MutantTable | None

    def at(self, stage: jax.Array, *names: str) -> jax.Array:
        """bool [N, 1]: lanes at a stage of one of these names."""
        here = jnp.zeros(stage.shape, bool)
        for index, name in enumerate(self.config.stages):
            if name in names:
                here |= stage == index
        return here[:, None]


def build(config: CodeExecutionConfig) -> Setting:
    """Builds the tables that a config needs, and only those."""
    table = problem_table.build(config.families)
    asks_for_speed = config.speed_score or config.fidelity_mode == "deceptive"
    fidelity = config.fidelity_of_family
    return Setting(
        config=config,
        table=table,
        layout=workflow.layout(
            config,
            prompt_width=table.prompt_width,
            program_width=table.program_width,
        ),
        facts=workflow.facts_of(config.stages),
        fidelity=np.array([fidelity[name] for name in config.families], np.float32),
        brute_fuel=(
            measurements.brute_fuel(config.families, config.loose_fuel)
            if asks_for_speed
            else None
        ),
        mutants=(
            mutants.build(config.families, config.num_mutants, config.strict_fuel)
            if "tests" in config.stages
            else None
        ),
    )
