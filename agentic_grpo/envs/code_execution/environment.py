"""The simulated code-execution environment: its specification, and the code."""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo.envs import base
from agentic_grpo.envs.code_execution import (
    answers,
    execution,
    latency,
    rewards,
    suites,
    texts,
    vocabulary,
    writing,
)
from agentic_grpo.envs.code_execution import setting as setting_lib
from agentic_grpo.envs.code_execution.config import CodeExecutionConfig
from agentic_grpo.envs.code_execution.family import NUM_LEVELS
from agentic_grpo.envs.code_execution.state import CodeState
from agentic_grpo.records import EndReason


class CodeExecution:
    """Groups of agents that write programs for a simulated machine."""

    def __init__(self, config: CodeExecutionConfig):
        self.config = config
        self.setting = setting_lib.build(config)
        self.spec = base.EnvironmentSpec(
            vocabulary_size=vocabulary.VOCABULARY_SIZE,
            pad_token=vocabulary.PAD,
            end_token=vocabulary.END,
            layout=self.setting.layout,
            levels=tuple(f"level {1 + level}" for level in range(NUM_LEVELS)),
            max_verdict_latency=config.verdict_latency.maximum,
        )

    def start(self, keys: jax.Array, *, split: str, num_members: int) -> base.Start:
        """Draws one problem per key [N], with its suites; see ``envs.base``.

        Raises:
          ValueError: the split is unknown, or empty for the configured families.
        """
        config, table = self.config, self.setting.table
        rows = table.rows_of_split(split)
        num_tests = config.num_visible_tests + config.num_hidden_tests
        num_uniforms = 3 + 3 * num_tests + num_members
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (num_uniforms,)))(keys)
        for_problem, for_tests, seed = jnp.split(uniform, [3, 3 + 3 * num_tests], axis=1)

        problem = suites.draw_problem(for_problem[:, :2], rows)
        hidden = for_problem[:, 2] < config.hidden_rate
        statement = jnp.asarray(table.statement)[problem, hidden.astype(jnp.int32)]
        state = CodeState(
            problem=problem,
            hidden=hidden,
            suites=suites.draw_suites(
                for_tests.reshape(-1, 3, num_tests), problem, self.setting
            ),
            members=writing.newcomers(self.setting, seed),
        )
        return base.Start(
            state=state,
            prompt_tokens=statement,
            prompt_mask=statement != vocabulary.PAD,
            level=jnp.asarray(table.level)[problem],
        )

    def step(
        self,
        state: CodeState,
        stage: jax.Array,
        action_tokens: jax.Array,
        action_mask: jax.Array,
        acting: jax.Array,
        keys: jax.Array,
    ) -> base.StageResult:
        """Executes one stage of each lane; see ``envs.base`` for the arguments."""
        setting, layout = self.setting, self.spec.layout
        old, acting = state.members, acting & ~state.members.ended
        widths = jnp.asarray(layout.action_widths)[stage]
        text = texts.read(action_tokens, action_mask, widths)
        submits = setting.at(stage, "debug") & texts.is_submission(text)
        ends = acting & (submits | (stage == layout.num_stages - 1)[:, None])

        members = writing.write(setting, old, stage, text, submits)
        executed = execution.execute(setting, state, members, stage, acting, ends)
        members = answers.note(setting, members, stage, executed)
        reward, told, members = answers.answer(
            setting, state, members, stage, text, executed
        )
        verdict, solved = answers.verdict(setting, state, members, executed)
        members = writing.keep(
            acting, dataclasses.replace(members, ended=old.ended | ends), old
        )

        uniform = jax.vmap(lambda key: jax.random.uniform(key, (4, acting.shape[1])))(
            keys
        )
        ended_by = jnp.where(submits, EndReason.SUBMITTED, EndReason.OUT_OF_STAGES)
        return base.StageResult(
            state=dataclasses.replace(state, members=members),
            observation_tokens=told.tokens,
            observation_mask=self._observed(stage, told, acting & ~submits),
            reward=jnp.where(acting, reward, 0.0),
            reward_mask=acting,
            latency=latency.draw(
                uniform[:, :2],
                [self.config.latency_of(name) for name in self.config.stages],
                stage,
            ),
            end_reason=jnp.where(ends, ended_by, EndReason.RUNNING).astype(jnp.int32),
            verdict=jnp.where(ends, verdict, 0.0),
            verdict_latency=latency.draw(
                uniform[:, 2:], [self.config.verdict_latency], jnp.zeros_like(stage)
            ),
            solved=solved & ends,
            state_id=rewards.state_id(members.visible_status),
        )

    def _observed(self, stage, told, reads):
        """bool [N, G, O]: the columns that a member reads."""
        layout = self.spec.layout
        width = jnp.asarray([spec.observation_width for spec in layout.stages])[stage]
        length = jnp.minimum(told.length, width[:, None])
        columns = jnp.arange(layout.max_observation_width, dtype=jnp.int32)
        return (columns < length[..., None]) & reads[..., None]
