"""A scripted agent: it knows the reference programs, and only what it was told.

It is the teacher of warm starts and a measuring instrument: ``efficient_share`` says
how often it writes efficient programs, ``competence`` how often each stage's text is
what it meant. It uses a hidden parameter only after its own hypothesis has revealed it,
and only while its own summary has kept it.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.envs import scripted_text
from agentic_grpo.envs.code_execution import lookup
from agentic_grpo.envs.code_execution.environment import CodeExecution
from agentic_grpo.envs.code_execution.judging import TestStatus
from agentic_grpo.envs.code_execution.problems import plans, vocabulary
from agentic_grpo.envs.code_execution.problems.family import NUM_M
from agentic_grpo.envs.code_execution.problems.table import NUM_DIGITS
from agentic_grpo.envs.code_execution.stages import (
    feedback,
    hypothesis,
    suites,
    summary,
)
from agentic_grpo.envs.code_execution.state import CodeState
from agentic_grpo.envs.code_execution.vm.instructions import Op
from agentic_grpo.errors import require, require_choice

_BRUTE_FORCE, _EFFICIENT = 0, 1


@records.record
class Dials:
    """How well a scripted agent works; arrays, so that turning them compiles nothing.

    Attributes:
      efficient_share, repair_share: float [].
      competence: float [S].
    """

    efficient_share: jax.Array | np.ndarray
    repair_share: jax.Array | np.ndarray
    competence: jax.Array | np.ndarray


class ScriptedAgent:
    """Implements ``envs.base.ScriptedAgent``.

    Per stage:

    * hypothesis: the right answers; of a guessed problem where a parameter is hidden.
    * algorithm: the plan of the program that it means to write.
    * code: that program: the efficient one in ``efficient_share`` of the episodes, else
      the brute force.
    * tests: large and small inputs in turn.
    * summary: the facts, as it believes them.
    * debug: ``submit`` if it knows of no failure, else another program: the efficient
      one with probability ``repair_share``, if its plan allows it.

    Args:
      environment: whose state it reads.
      efficient_share: in [0, 1].
      repair_share: in [0, 1]; ``efficient_share`` if None.
      competence: stage name -> probability, 1 where not named, that the text is what
        the agent meant; otherwise random tokens stand in its place.
    """

    def __init__(
        self,
        environment: CodeExecution,
        *,
        efficient_share: float,
        repair_share: float | None = None,
        competence: Mapping[str, float] | None = None,
    ):
        repair_share = efficient_share if repair_share is None else repair_share
        competence = dict(competence or {})
        shares = {"efficient_share": efficient_share, "repair_share": repair_share}
        for name, share in {**shares, **competence}.items():
            require(0.0 <= share <= 1.0, name, share, "in [0, 1]")
        for name in competence:
            require_choice("competence", name, vocabulary.STAGE_NAMES)
        self._setting = environment.setting
        self._layout = environment.spec.layout
        stages = environment.config.stages
        self.dials = Dials(
            efficient_share=np.array(efficient_share, np.float32),
            repair_share=np.array(repair_share, np.float32),
            competence=np.array(
                [competence.get(name, 1.0) for name in stages], np.float32
            ),
        )

    def __call__(
        self, state: CodeState, stage: jax.Array, keys: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Writes a stage: tokens int32 [N, G, A] and their mask bool [N, G, A]."""
        return self.write(state, stage, keys, self.dials)

    def write(
        self, state: CodeState, stage: jax.Array, keys: jax.Array, dials: Dials
    ) -> tuple[jax.Array, jax.Array]:
        """Writes a stage as an agent with other dials would."""
        width, num_members = self._layout.max_action_width, state.members.seed.shape[1]
        num_own = self._setting.config.num_own_tests
        uniform = jax.vmap(
            lambda key: jax.random.uniform(key, (num_members, 3 + 2 * num_own + width))
        )(keys)
        dice, for_tests, for_noise = jnp.split(uniform, [3, 3 + 2 * num_own], axis=-1)
        tokens, length = self._text(state, stage, dials, dice, for_tests)

        noise = suites.below(for_noise, vocabulary.VOCABULARY_SIZE)
        competence = lookup.rows(dials.competence, stage)[:, None]
        return scripted_text.finish(
            tokens,
            length,
            noise=noise,
            fails=dice[..., 0] >= competence,
            limit=lookup.rows(self._layout.action_widths, stage),
            end=vocabulary.END,
            pad=vocabulary.PAD,
        )

    def _text(self, state, stage, dials, dice, for_tests):
        """What the agent means: tokens [N, G, A] without END, and their number."""
        setting, members = self._setting, state.members
        believed = self._believed_problem(state, stage, dice[..., 1])
        status = self._known_status(members)
        submits = setting.at(stage, "debug") & (status == TestStatus.PASSED)
        kind = self._intention(members, believed, stage, dials, status, dice[..., 2])

        table = setting.table
        program = jnp.where(
            (kind == _EFFICIENT)[..., None],
            lookup.rows(table.efficient, believed),
            lookup.rows(table.brute_force, believed),
        )
        tokens = vocabulary.FIRST_OPCODE + program
        length = jnp.sum(program != Op.HALT, axis=-1, dtype=jnp.int32)
        tokens = jnp.where(submits[..., None], vocabulary.SUBMIT, tokens)
        tokens, length = self._widen(tokens), jnp.where(submits, 1, length)
        for name, text in (
            ("hypothesis", lambda: self._hypothesis(believed)),
            ("algorithm", lambda: self._plan(believed, kind)),
            ("tests", lambda: self._own_tests(state.problem, for_tests)),
            ("summary", lambda: self._summary(members, believed, status)),
        ):
            if name in setting.config.stages:
                here, other = setting.at(stage, name), text()
                tokens = jnp.where(here[..., None], self._widen(other), tokens)
                length = jnp.where(here, other.shape[-1], length)
        return tokens, length

    def _widen(self, tokens):
        missing = self._layout.max_action_width - tokens.shape[-1]
        return jnp.pad(tokens, [(0, 0), (0, 0), (0, missing)])

    def _believed_problem(self, state, stage, uniform):
        """int32 [N, G]: the problem itself, or a guess at what is hidden.

        The guess is the same throughout an episode, but for a fresh one in debugging.
        """
        members = state.members
        knows = ~state.hidden[:, None] | (members.revealed & members.keeps_digit)
        same = members.seed * 1024 % 1.0  # independent of how the seed compares
        guess = suites.below(
            jnp.where(self._setting.at(stage, "debug"), uniform, same), NUM_DIGITS
        )
        siblings = lookup.rows(self._setting.table.siblings, state.problem)
        guessed = lookup.pick(siblings[:, None], guess)
        return jnp.where(knows, state.problem[:, None], guessed)

    def _known_status(self, members):
        """int32 [N, G] TestStatus: the worst that the agent has been told."""
        visible, _ = feedback.first_failure(members.visible_status)
        own, _ = feedback.first_failure(members.own_status, members.own_valid)
        passed = visible == TestStatus.PASSED
        own_failed = (own != TestStatus.PASSED) & (own != TestStatus.NOT_RUN)
        status = jnp.where(passed & own_failed, own, visible)
        return jnp.where(members.keeps_status, status, int(TestStatus.NOT_RUN))

    def _intention(self, members, believed, stage, dials, status, uniform):
        """int32 [N, G]: which program the agent means to write."""
        repairs = self._setting.at(stage, "debug") & (status != TestStatus.NOT_RUN)
        efficient = lookup.rows(self._setting.table.efficient, believed)
        allowed = plans.obeys(efficient, members.plan)
        wants = jnp.where(
            repairs,
            allowed & (uniform < dials.repair_share),
            members.seed < dials.efficient_share,
        )
        return jnp.where(wants, _EFFICIENT, _BRUTE_FORCE)

    def _hypothesis(self, believed):
        shape, num_cases = believed.shape, self._setting.config.num_cases
        answers = hypothesis.case_answers(
            self._setting.table, believed.reshape(-1), num_cases
        )
        digits = jnp.stack(feedback.two_digits(answers), axis=-1)
        return digits.reshape(*shape, -1)

    def _plan(self, believed, kind):
        plan = lookup.rows(self._setting.table.plan, believed)
        return (vocabulary.FIRST_PLAN + lookup.pick(plan, kind))[..., None]

    def _own_tests(self, problem, uniform):
        """Large and small inputs in turn: for slow programs, and for wrong ones."""
        table = self._setting.table
        for_n, for_m = jnp.split(uniform, 2, axis=-1)
        large, small = (
            lookup.rows(bounds, problem)[:, None, None]
            for bounds in (table.large_n, table.small_n)
        )
        is_large = lookup.numbers(for_n.shape[-1]) % 2 == 0
        low = jnp.where(is_large, large[..., 0], small[..., 0])
        high = jnp.where(is_large, large[..., 1], small[..., 1])
        n = low + suites.below(for_n, high - low + 1)
        m = 1 + suites.below(for_m, NUM_M - 1)
        digits = jnp.stack([*feedback.two_digits(n), feedback.digit(m)], axis=-1)
        return digits.reshape(*digits.shape[:2], -1)

    def _summary(self, members, believed, status):
        digit = lookup.rows(self._setting.table.digit, believed)
        return summary.facts(self._setting.facts, digit, members.plan, status)
