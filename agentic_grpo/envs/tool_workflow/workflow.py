"""The stages as the rest of the house sees them: names, kinds, widths."""

import numpy as np

from agentic_grpo.envs.tool_workflow import problems, texts, vocabulary
from agentic_grpo.envs.tool_workflow.config import ToolWorkflowConfig
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible

_KINDS = {
    "plan": StageKind.ESTIMATE,
    "call": StageKind.ESTIMATE,
    "check": StageKind.SKILL,
    "revise": StageKind.ESTIMATE,
}

#: Digits that a check predicts.
CHECK_WIDTH = 2

#: Tokens of the longest sensible text; one that fills its stage needs no END.
_ACTION_WIDTHS = {
    "plan": 1,
    "call": texts.PART_WIDTH,
    "check": CHECK_WIDTH,
    "revise": 1 + texts.PART_WIDTH,
}


def layout(config: ToolWorkflowConfig) -> EpisodeLayout:
    """The columns of an episode; repeated stages are ``call``, ``call_2``, ..."""
    last = len(config.stages) - 1
    stages = tuple(
        StageSpec(
            name=_unique_name(config.stages, index),
            kind=_KINDS[name],
            action_width=_ACTION_WIDTHS[name],
            observation_width=int(index < last),  # nobody reads what follows the last
            max_latency=config.latency_of(name).maximum,
            marker=vocabulary.TOKENS[f"<{name}>"],
        )
        for index, name in enumerate(config.stages)
    )
    return EpisodeLayout(
        prompt_width=problems.prompt_width(config),
        stages=stages,
        visibility=fully_visible(len(stages)),
    )


def min_stages(stages: tuple[str, ...]) -> int:
    """Fewest stages after which a member can end by itself: it submits."""
    return 1 + stages.index("revise") if "revise" in stages else len(stages)


def parts_after(stages: tuple[str, ...]) -> np.ndarray:
    """int32 [S]: how many parts have been written once a stage is over."""
    return np.cumsum([name == "call" for name in stages]).astype(np.int32)


def _unique_name(stages, index) -> str:
    earlier = stages[:index].count(stages[index])
    return stages[index] if earlier == 0 else f"{stages[index]}_{earlier + 1}"
