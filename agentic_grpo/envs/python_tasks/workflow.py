"""The stages as the rest of the house sees them: columns, markers, prompts."""

import collections
from collections.abc import Sequence

import numpy as np

from agentic_grpo.envs import base, host
from agentic_grpo.envs.python_tasks.config import PythonTasksConfig
from agentic_grpo.envs.python_tasks.problem import (
    SPLITS,
    Problem,
    content_key,
)
from agentic_grpo.envs.python_tasks.protocols import Tokenizer
from agentic_grpo.envs.python_tasks.statements import Form
from agentic_grpo.errors import require
from agentic_grpo.layout import EpisodeLayout, StageKind, StageSpec, fully_visible


def check(problems: Sequence[Problem], config: PythonTasksConfig) -> None:
    """Whether problems can be asked in a workflow.

    Raises:
      Refused: ids repeat; two splits share a function; a hypothesis has nothing to be
        about; names the problem.
    """
    require(len(problems) > 0, "problems", (), "one problem at least")
    repeated = [
        id for id, n in collections.Counter(one.id for one in problems).items() if n > 1
    ]
    require(not repeated, "problems", repeated, "of different ids; these repeat")
    owners: dict[bytes, Problem] = {}
    for one in problems:
        if one.checker is None:
            owner = owners.setdefault(content_key(one.visible + one.hidden), one)
            rule = f"{owner.split}, as of problems[{owner.id!r}] with the same calls"
            same = owner.split == one.split
            require(same, f"problems[{one.id!r}].split", one.split, rule)
        if "hypothesis" in config.stages:
            rule = "one call at least, for the hypothesis to be about"
            holds = len(one.visible) > 0
            require(holds, f"problems[{one.id!r}].visible", one.visible, rule)


def build(
    problems: Sequence[Problem],
    config: PythonTasksConfig,
    form: Form,
    tokenizer: Tokenizer,
    *,
    pad_token: int | None,
    vocabulary_size: int | None,
) -> tuple[base.EnvironmentSpec, host.ProblemTable]:
    """The specification and the table of prompts.

    Raises:
      Refused: a statement is longer than the prompt; openings end with different
        tokens; there is no token to pad with.
    """
    prompts, markers, widths = _openings(problems, config, form)
    prompt_width = config.prompt_width or max(map(len, prompts))
    if vocabulary_size is None:
        vocabulary_size = tokenizer.vocabulary_size
    rule = f"at least the {tokenizer.vocabulary_size} tokens of the tokenizer"
    holds = vocabulary_size >= tokenizer.vocabulary_size
    require(holds, "vocabulary_size", vocabulary_size, rule)
    taken = {*form.end_tokens, *markers}
    if pad_token is None:
        free = [
            id for id in sorted(tokenizer.special_tokens.values()) if id not in taken
        ]
        rule = "given: every special token of this tokenizer ends or opens a stage"
        require(len(free) > 0, "pad_token", None, rule)
        pad_token = free[0]
    rule = f"a token that neither ends nor opens a stage, as {sorted(taken)} do"
    holds = 0 <= pad_token < vocabulary_size and pad_token not in taken
    require(holds, "pad_token", pad_token, rule)
    spec = base.EnvironmentSpec(
        vocabulary_size=vocabulary_size,
        pad_token=pad_token,
        end_tokens=form.end_tokens,
        layout=_layout(config, prompt_width, markers, widths),
        levels=tuple(
            f"level {1 + n}" for n in range(max(one.level for one in problems))
        ),
        max_verdict_latency=0,
        min_stages=_min_stages(config.stages),
    )
    return spec, _table(problems, prompts, prompt_width, pad_token)


def observe(
    form: Form,
    tokenizer: Tokenizer,
    problem: Problem,
    told: str,
    action: tuple[int, ...],
    stage: str,
    *,
    width: int,
) -> tuple[int, ...]:
    """What a member reads before a stage; of ``told`` as much as there is room for."""
    while True:
        tokens = form.observation(problem, told, action, stage).tokens
        excess = len(tokens) - width
        if excess <= 0 or not told:
            return tuple(tokens)
        kept = tokenizer.encode(told)[:-excess]
        told = tokenizer.decode(kept).rstrip("\ufffd")


def _openings(problems, config, form) -> tuple[list, list[int], list[int]]:
    """The prompts, the marker of each stage, and the width of each observation."""
    stages = config.stages
    prompts, widths = [], [0] * len(stages)
    seen: list[dict[int, str]] = [{} for _ in stages]
    for one in problems:
        tokens, marker = form.prompt(one, stages[0])
        rule = f"at most prompt_width={config.prompt_width} tokens; it is {len(tokens)}"
        holds = not config.prompt_width or len(tokens) <= config.prompt_width
        require(holds, f"problems[{one.id!r}].statement", one.statement, rule)
        prompts.append(tokens)
        seen[0].setdefault(marker, one.id)
        for index, name in enumerate(stages[1:]):
            tokens, marker = form.observation(one, "", (), name)
            widths[index] = max(widths[index], len(tokens) + config.feedback_width)
            seen[index + 1].setdefault(marker, one.id)
    for name, markers in zip(stages, seen, strict=True):
        rule = "problems whose statements open a stage with the same token"
        require(len(markers) == 1, f"problems ({name})", list(markers.values()), rule)
    return prompts, [next(iter(markers)) for markers in seen], widths


def _layout(config, prompt_width, markers, widths):
    is_hypothesis = [name == "hypothesis" for name in config.stages]
    stages = tuple(
        StageSpec(
            name=_unique_name(config.stages, index),
            kind=StageKind.SKILL if is_hypothesis[index] else StageKind.ESTIMATE,
            action_width=(
                config.answer_width if is_hypothesis[index] else config.program_width
            ),
            observation_width=widths[index],  # 0 of the last: nobody reads it
            max_latency=0,
            marker=markers[index],
        )
        for index in range(len(config.stages))
    )
    return EpisodeLayout(
        prompt_width=prompt_width,
        stages=stages,
        visibility=fully_visible(len(stages)),
    )


def _unique_name(stages, index):
    earlier = stages[:index].count(stages[index])
    return stages[index] if earlier == 0 else f"{stages[index]}_{earlier + 1}"


def _min_stages(stages):
    """Nobody submits before the first debug stage."""
    return 1 + stages.index("debug") if "debug" in stages else len(stages)


def _table(problems, prompts, width, pad_token):
    tokens = np.full((len(problems), width), pad_token, np.int32)
    mask = np.zeros((len(problems), width), bool)
    for number, prompt in enumerate(prompts):
        tokens[number, : len(prompt)] = prompt
        mask[number, : len(prompt)] = True
    splits = np.array([one.split for one in problems])
    return host.ProblemTable(
        prompt_tokens=tokens,
        prompt_mask=mask,
        level=np.array([one.level - 1 for one in problems], np.int32),
        of_split={
            split: np.flatnonzero(splits == split).astype(np.int32) for split in SPLITS
        },
    )
