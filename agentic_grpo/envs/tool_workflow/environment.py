"""The tool-workflow environment: its specification, and the code.

**World.** An agent drafts a workflow, a chain of 6 to 12 calls of typed tools, that
turns records into what was asked. It is shown one record as an example; the workflow
will run on a whole batch, and an audit of other records decides, late. There is no code
in it: the tools are seven arithmetic operations on four slots that hold digits
(``tools``). Everything is pure JAX, bounded, and reproducible from its keys.

**Problems** (``problems``). A chain of P requests (``requests``), one for each ``call``
stage, each answered by two calls: ``exchange a c 4`` by ``swap a c add a 4``. The
statement shows whether the cached copies of the records are ``settled`` or ``moving``,
the budget, the example as it starts (slots a b c d), and of each request its kind, two
slots, its digit, and what the example holds in the two slots afterwards. In a share
``hidden_rate`` of the problems the last request hides its digit and what it leaves. The
level of a problem is the number of requests that link two slots.

**Splits**: ``train``, ``validation``, ``test``, decided by a hash of the chain.

**Ways of being wrong that the example does not show.**

* ``set a 7 set c 2`` leaves the example right and every other record wrong; it is also
  free, while other calls cost 1. What a later part reads from there is wrong as well.
* The route ``cache`` reads copies that are out of date where the source is ``moving``
  (all but the example's). ``origin`` is always right and costs 2.
* The budget is the cost of the right calls on the right route plus ``budget_slack``:
  where the source is settled, ``origin`` overspends it, and so do needless revisions,
  which cost 1.

**Stages** (``workflow``), a tuple in the config, in any order, repeated or left out:

======  ================================  ==========================================
stage   the agent writes                  reward and feedback
======  ================================  ==========================================
plan    a route                           estimate: score of the right chain on this
                                          route; number of checks passed
call    two calls: tool, slot, argument   estimate: score of the draft, its missing
                                          parts answered (and paid) rightly; number
                                          of checks passed
check   two digits: what the last         skill: share of right digits; the digit of
        request leaves in the example     the last request
revise  ``submit``; or nothing; or a      estimate: as call
        route; or ``part2`` and its two
        calls
======  ================================  ==========================================

END ends a text; one that fills its stage needs none. Text of any other form has a
defined outcome: a call that is incomplete or breaks the types of its tool does nothing
and costs 1; a plan that names no route costs 1 and leaves the cache; a revision of any
other form costs 1 and changes nothing (all three are told ``refused``); a check that is
not two digits scores 0, is told ``malformed``, and reveals nothing.

**Checks** (``judging``), K of them, common to the group. Each looks, with probability
``visible_fidelity`` (drawn once per group), at a record like the audited ones and holds
the budget: nothing is right beyond it. Otherwise it looks at the example and cannot see
the mistakes above. A check scores the share of right slots; the score is the mean. In
the mode ``deceptive`` checks of the example prefer the cheap as well: they score up to
half less, by what was spent of what the right way would have cost so far.

**End.** A member that writes ``submit`` ends as SUBMITTED, one that has written every
stage as OUT_OF_STAGES. The draft as it stands runs on the H audited records:
``all_or_nothing`` is 1 if every slot of every record is right and the budget was held,
``graded`` the share of right slots, 0 beyond the budget. ``solved`` means the former.

**Time.** Every stage reward and every verdict has a latency in ticks, drawn per member:
constant, or with a tail.

``state_id``: the first member whose results on the checks' records are the same.
"""

import dataclasses

import jax
import jax.numpy as jnp

from agentic_grpo.envs import base, latency
from agentic_grpo.envs.tool_workflow import (
    judging,
    problems,
    reading,
    texts,
    vocabulary,
    workflow,
    writing,
)
from agentic_grpo.envs.tool_workflow.config import ToolWorkflowConfig
from agentic_grpo.envs.tool_workflow.state import WorkflowState
from agentic_grpo.records import EndReason


class ToolWorkflow:
    """Groups of agents that draft a workflow of tool calls.

    Implements ``envs.base.Environment`` and ``envs.base.Readable``; the module's
    docstring is its specification.

    Args:
      config: what is asked, how it is judged, and when the answers come.

    Attributes:
      config: as given.
      spec: what the rest of the house must know.
    """

    def __init__(self, config: ToolWorkflowConfig):
        self.config = config
        self.spec = base.EnvironmentSpec(
            vocabulary_size=vocabulary.VOCABULARY_SIZE,
            pad_token=vocabulary.PAD,
            end_tokens=(vocabulary.END,),
            layout=workflow.layout(config),
            levels=tuple(
                "1 link" if links == 1 else f"{links} links"
                for links in range(config.num_parts + 1)
            ),
            max_verdict_latency=config.verdict_latency.maximum,
            min_verdict_latency=config.verdict_latency.minimum,
            min_stages=workflow.min_stages(config.stages),
        )

    def start(self, keys: jax.Array, *, split: str, num_members: int) -> base.Start:
        """Draws one problem per key [N]; see ``envs.base``.

        Raises:
          ValueError: the split is unknown.
        """
        count = problems.num_uniforms(self.config)
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (count + num_members,)))(
            keys
        )
        problem = problems.draw(uniform[:, :count], split, self.config)
        seed = uniform[:, count:]
        statement = problems.statement(problem)
        return base.Start(
            state=WorkflowState(
                problem=problem,
                members=writing.newcomers(seed, self.config.num_parts),
            ),
            prompt_tokens=statement,
            prompt_mask=jnp.ones(statement.shape, bool),
            level=problems.level(problem),
        )

    def step(
        self,
        state: WorkflowState,
        stage: jax.Array,
        action_tokens: jax.Array,
        action_mask: jax.Array,
        acting: jax.Array,
        keys: jax.Array,
    ) -> base.StageResult:
        """Executes one stage of each lane; see ``envs.base`` for the arguments."""
        layout, problem, old = self.spec.layout, state.problem, state.members
        acting = acting & ~old.ended
        widths = jnp.asarray(layout.action_widths)[stage]
        text = texts.read(action_tokens, action_mask, widths)
        written, share, told_digit = self._write(state, stage, text)
        members, submits = written.members, written.submits
        ends = acting & (submits | (stage == layout.num_stages - 1)[:, None])
        outcome = judging.judge(self.config, problem, members, ends)

        is_check = self._at(stage, "check")
        passed = jnp.sum(outcome.passed, axis=-1, dtype=jnp.int32)
        told = jnp.where(
            written.refused, vocabulary.REFUSED, vocabulary.FIRST_NUMBER + passed
        )
        told = jnp.where(is_check, told_digit, told)
        reads = acting & ~submits & (stage < layout.num_stages - 1)[:, None]
        members = writing.choose(
            acting, dataclasses.replace(members, ended=old.ended | ends), old
        )
        return base.StageResult(
            state=dataclasses.replace(state, members=members),
            observation_tokens=self._observed(told),
            observation_mask=self._observed(reads),
            reward=jnp.where(acting, jnp.where(is_check, share, outcome.score), 0.0),
            reward_mask=acting,
            end_reason=_end_reason(ends, submits),
            verdict=jnp.where(ends, outcome.verdict, 0.0),
            solved=outcome.solved & ends,
            state_id=judging.state_id(self.config, outcome.results),
            **self._latencies(keys, stage, acting.shape[1]),
        )

    def spell(self, tokens) -> str:
        """Token ids as a person would read them; see ``envs.base.Readable``."""
        return vocabulary.spell(tokens)

    def describe_problem(self, state: WorkflowState, lane: int) -> list[str]:
        """What the group is not told; see ``envs.base.Readable``."""
        return reading.describe_problem(state, lane)

    def describe_member(
        self, state: WorkflowState, lane: int, member: int
    ) -> list[str]:
        """What a member holds after a stage; see ``envs.base.Readable``."""
        return reading.describe_member(self.config, state, lane, member)

    def _at(self, stage, name):
        """bool [N, 1]: lanes at a stage of this name."""
        here = jnp.asarray([each == name for each in self.config.stages])
        return here[stage][:, None]

    def _write(self, state, stage, text):
        """(Written, share of right digits [N, G], what a check is told [N, G])."""
        old, problem = state.members, state.problem
        digits, well_formed = texts.as_digits(text, workflow.CHECK_WIDTH)
        right = digits == problem.left[:, None, -1]
        share = jnp.where(well_formed, jnp.mean(right, axis=-1, dtype=jnp.float32), 0.0)
        told = jnp.where(
            well_formed,
            vocabulary.FIRST_NUMBER + problem.digit[:, -1:],
            vocabulary.MALFORMED,
        )
        nothing = jnp.zeros_like(well_formed)
        written = writing.Written(
            members=dataclasses.replace(old, revealed=old.revealed | well_formed),
            submits=nothing,
            refused=nothing,
        )
        for name, write in (
            ("plan", writing.write_plan),
            ("call", writing.write_part),
            ("revise", writing.write_revision),
        ):
            if name in self.config.stages:
                here = jnp.broadcast_to(self._at(stage, name), nothing.shape)
                written = writing.choose(here, write(old, text), written)
        return written, share, told

    def _observed(self, values):
        """[N, G] -> [N, G, O]; O is 0 in a workflow of one stage."""
        return values[..., None][..., : self.spec.layout.max_observation_width]

    def _latencies(self, keys, stage, num_members):
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (4, num_members)))(keys)
        of_stages = [self.config.latency_of(name) for name in self.config.stages]
        return {
            "latency": latency.draw(uniform[:, :2], of_stages, stage),
            "verdict_latency": latency.draw(
                uniform[:, 2:], [self.config.verdict_latency], jnp.zeros_like(stage)
            ),
        }


def _end_reason(ends, submits):
    ended_by = jnp.where(submits, EndReason.SUBMITTED, EndReason.OUT_OF_STAGES)
    return jnp.where(ends, ended_by, EndReason.RUNNING).astype(jnp.int32)
