"""The stages as the rest of the house sees them: names, kinds, widths, visibility."""

from agentic_grpo.envs.code_execution.config import PROGRAM_STAGES, CodeExecutionConfig
from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec

_KINDS = {
    "hypothesis": StageKind.SKILL,
    "algorithm": StageKind.ESTIMATE,
    "code": StageKind.ESTIMATE,
    "tests": StageKind.SKILL,
    "debug": StageKind.ESTIMATE,
    "summary": StageKind.SKILL,
}
assert tuple(_KINDS) == vocabulary.STAGE_NAMES

#: Digits of an answer in hypothesis and feedback; answers are told modulo 100.
ANSWER_DIGITS = 2

#: Digits of an input: two of n, one of m.
INPUT_DIGITS = 3


def layout(
    config: CodeExecutionConfig, *, prompt_width: int, program_width: int
) -> EpisodeLayout:
    """The columns of an episode; repeated stages are ``debug``, ``debug_2``, ..."""
    actions = _action_widths(config, program_width)
    observations = _observation_widths(config)
    last = len(config.stages) - 1
    stages = tuple(
        StageSpec(
            name=_unique_name(config.stages, index),
            kind=(StageKind.NONE if name in config.unrewarded_stages else _KINDS[name]),
            action_width=actions[name],
            # Nobody reads what comes back from the last stage.
            observation_width=0 if index == last else observations[name],
            max_latency=config.latency_of(name).maximum,
            marker=vocabulary.TOKENS[f"<{name}>"],
        )
        for index, name in enumerate(config.stages)
    )
    return EpisodeLayout(
        prompt_width=prompt_width, stages=stages, visibility=_visibility(config.stages)
    )


def min_stages(stages: tuple[str, ...]) -> int:
    """Fewest stages after which a member can end by itself: it submits in debug."""
    return 1 + stages.index("debug") if "debug" in stages else len(stages)


def facts_of(stages: tuple[str, ...]) -> tuple[str, ...]:
    """What a summary should keep: the facts that stages before the first one make."""
    end = stages.index("summary") if "summary" in stages else len(stages)
    facts = ["digit"]
    if "algorithm" in stages[:end]:
        facts.append("plan")
    if any(name in PROGRAM_STAGES for name in stages[:end]):
        facts.append("status")
    return tuple(facts)


def _action_widths(config, program_width) -> dict[str, int]:
    """Tokens of the longest sensible text of each stage, and END."""
    return {
        "hypothesis": ANSWER_DIGITS * config.num_cases + 1,
        "algorithm": 1 + 1,
        "code": program_width + 1,
        "tests": INPUT_DIGITS * config.num_own_tests + 1,
        "debug": program_width + 1,
        "summary": len(facts_of(config.stages)) + 1,
    }


def _observation_widths(config) -> dict[str, int]:
    # status, number passed, the own tests' status; the first failing input
    program = 2 + ("tests" in config.stages) + INPUT_DIGITS
    return {
        "hypothesis": 2 + ANSWER_DIGITS,  # answer, case, the truth
        "algorithm": 2,
        "code": program,
        "tests": 2,  # mutants killed, status of the own program
        "debug": program,
        "summary": 1,
    }


def _unique_name(stages, index) -> str:
    earlier = stages[:index].count(stages[index])
    return stages[index] if earlier == 0 else f"{stages[index]}_{earlier + 1}"


def _visibility(stages) -> tuple[tuple[bool, ...], ...]:
    """After a summary only the statement, the summary and what follows are seen."""
    rows = []
    for segment in range(len(stages) + 1):
        summaries = [
            1 + index
            for index, name in enumerate(stages[: max(segment - 1, 0)])
            if name == "summary"
        ]
        first = max(summaries, default=0)
        rows.append(tuple(k == 0 or k >= first for k in range(len(stages) + 1)))
    return tuple(rows)
