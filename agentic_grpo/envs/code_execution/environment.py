"""The simulated code-execution environment: its specification, and the code.

**World.** A problem is a function of ``n`` (and ``m``), told in a few tokens. A group
of G members works on it; each writes programs for a small stack machine
(``vm.instructions``), stage by stage, and a hidden judge tests the last one. Everything
is pure JAX, bounded, and reproducible from its keys: no host call, no way out.

**Problems** (``problems.families``). Five levels: 1 a step or two, brute force is quick
enough; 2 one loop becomes one step; 3 a formula or a period must be seen; 4 number
theory and compositions of two pieces; 5 nested sums and compositions of three.
``start`` draws a family uniformly, then one of its functions of the split. Inputs are n
= 0 .. 63 and m = 0 .. 7. A share ``hidden_rate`` of the statements hides the parameter
b = f(0).

**Splits** (``problems.splits``). ``train``, ``validation``, ``test``: by a hash of the
function's truth table, so that equal functions share a split. ``compositions``: whole
compositions, told in known words, that the other splits never contain.

**Tests of a group** (``suites``), common to its members. Small inputs come with the
loose fuel, on which brute force gets by; large inputs with the strict fuel, on which
above level 1 it does not. The visible suite has K tests, each hidden-like (large and
strict) with probability ``visible_fidelity``, else small. The hidden suite has H tests
under strict fuel, all large but the first.

**Score of a test** (``judging``). Fault 0, wrong 0, out of fuel ``out_of_fuel_score``,
right 1; with ``speed_score`` a right answer to a large test scores 0.5 .. 1 by speed-up
over the brute force. In the mode ``blind`` small tests see nothing of speed: at
fidelity 0 slow and efficient programs score alike. In the mode ``deceptive`` they are
judged by a suite made to catch hard-coded answers, which halves right ones that came
suspiciously quickly: at fidelity 0 the brute force scores 0.5 above the efficient
program.

**Stages** (``stages.workflow``), a tuple in the config, in any order, repeated or not:

==========  =================================  ======================================
stage       the agent writes, then END         reward and feedback
==========  =================================  ======================================
hypothesis  two digits for each of the C       skill: share of right predictions;
            smallest cases, f(0) f(1) ...      ``verified``, or ``counterexample``
            modulo 100                         with its case and the true answer
algorithm   the name of a plan; it binds the   estimate: score of the plan's best
            instructions of later programs     reference on the visible tests (0 if
                                               there is none); status, number passed
code        a program                          estimate: mean score on the visible
                                               tests; status, number passed, the
                                               first failing input
tests       k inputs, two digits of n and      skill: share of mutants killed by valid
            one of m                           inputs; number killed, status of the
                                               own program on the own tests
debug       a program that replaces the        estimate: as code; own tests give
            current one, or ``submit``         feedback only
summary     the facts: b, the plan, the        skill: share of facts kept; their
            status of the program              number. Later stages see the statement
                                               and what follows from here, no more
==========  =================================  ======================================

Feedback never tells what a test expects. Text of any other form has a defined outcome:
a token that is no instruction is a fault when executed; so is a whole program that
breaks its plan, and after a text that names no plan nothing may be written; predictions
that are not exactly 2 C digits score 0, are told ``malformed``, and reveal nothing;
inputs that the judge never asks are invalid and kill nothing; facts count in their
places.

A stage that ``unrewarded_stages`` names has no reward; its feedback comes all the same.

**Mutants** (``mutants``): one-instruction edits of the efficient program that change
its function, the hardest first, and, above level 1, the brute force: correct but slow.

**End.** A member that writes ``submit`` in a debug stage ends as SUBMITTED; that
stage's reward is the current program's score. One that has written every stage ends as
OUT_OF_STAGES. Both are judged by the hidden suite under ``verdict``: ``graded``, the
mean score; ``all_or_nothing``, that mean if every test passed, else 0. ``solved`` means
that every hidden test passed. A member that has ended does not change any more.

**Costs.** Estimates and verdict alike lose ``stage_cost`` for each stage written so far
and ``length_penalty`` times the share of action columns written so far, the latter in
full at level 1 and not at all at level 5; they never fall below 0.

**Time.** Every stage reward and every verdict has a latency in ticks, drawn per member:
constant, or with a tail.

``state_id`` numbers the verdict vectors of the members' last programs on the visible
tests; members that have run none share the number 0.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo.envs import base, latency
from agentic_grpo.envs.code_execution import judging, lookup
from agentic_grpo.envs.code_execution.config import CodeExecutionConfig
from agentic_grpo.envs.code_execution.problems import vocabulary
from agentic_grpo.envs.code_execution.problems.family import NUM_LEVELS
from agentic_grpo.envs.code_execution.stages import (
    answers,
    execution,
    suites,
    texts,
    workflow,
    writing,
)
from agentic_grpo.envs.code_execution.stages import (
    setting as setting_lib,
)
from agentic_grpo.envs.code_execution.state import CodeState
from agentic_grpo.records import EndReason


class CodeExecution:
    """Groups of agents that write programs for a simulated machine.

    Implements ``envs.base.Environment``; the module's docstring is its specification.

    Args:
      config: what is asked, how it is judged, and when the answers come.

    Attributes:
      config: as given.
      spec: what the rest of the house must know.
      setting: the tables that were built for the config.
    """

    def __init__(self, config: CodeExecutionConfig):
        self.config = config
        self.setting = setting_lib.build(config)
        self.spec = base.EnvironmentSpec(
            vocabulary_size=vocabulary.VOCABULARY_SIZE,
            pad_token=vocabulary.PAD,
            end_tokens=(vocabulary.END,),
            layout=self.setting.layout,
            levels=tuple(f"level {1 + level}" for level in range(NUM_LEVELS)),
            max_verdict_latency=config.verdict_latency.maximum,
            min_verdict_latency=config.verdict_latency.minimum,
            min_stages=workflow.min_stages(config.stages),
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
        for_problem, for_tests, seed = jnp.split(
            uniform, [3, 3 + 3 * num_tests], axis=1
        )

        problem = suites.draw_problem(for_problem[:, :2], rows)
        hidden = for_problem[:, 2] < config.hidden_rate
        told, concealed = jnp.moveaxis(lookup.rows(table.statement, problem), 1, 0)
        statement = jnp.where(hidden[:, None], concealed, told)
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
            level=lookup.rows(table.level, problem),
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
        widths = lookup.rows(layout.action_widths, stage)
        text = texts.read(action_tokens, action_mask, widths)
        submits = setting.at(stage, "debug") & texts.is_submission(text)
        ends = acting & (submits | (stage == layout.num_stages - 1)[:, None])

        members = writing.write(setting, state.problem, old, stage, text, submits)
        executed = execution.execute(setting, state, members, stage, acting, ends)
        members = answers.note(setting, members, stage, executed)
        reward, told, members = answers.answer(
            setting, state, members, stage, text, executed
        )
        verdict, solved = answers.verdict(setting, state, members, executed)
        members = writing.keep(
            acting, dataclasses.replace(members, ended=old.ended | ends), old
        )

        rewarded = acting & ~setting.at(stage, *self.config.unrewarded_stages)
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (4, acting.shape[1])))(
            keys
        )
        ended_by = jnp.where(submits, EndReason.SUBMITTED, EndReason.OUT_OF_STAGES)
        return base.StageResult(
            state=dataclasses.replace(state, members=members),
            observation_tokens=told.tokens,
            observation_mask=self._observed(stage, told, acting & ~submits),
            reward=jnp.where(rewarded, reward, 0.0),
            reward_mask=rewarded,
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
            state_id=judging.state_id(members.visible_status),
        )

    def _observed(self, stage, told, reads):
        """bool [N, G, O]: the columns that a member reads."""
        layout = self.spec.layout
        widths = np.array([spec.observation_width for spec in layout.stages], np.int32)
        width = lookup.rows(widths, stage)
        length = jnp.minimum(told.length, width[:, None])
        inside = lookup.numbers(layout.max_observation_width) < length[..., None]
        return inside & reads[..., None]
