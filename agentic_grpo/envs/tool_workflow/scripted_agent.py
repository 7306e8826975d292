"""A scripted agent: it knows how requests are answered, and only what it was told.

It is the teacher of warm starts and a measuring instrument: ``careful_share`` says how
often it works for all records instead of for the example, ``competence`` how often each
stage's text is what it meant.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from agentic_grpo import records
from agentic_grpo.envs import scripted_text
from agentic_grpo.envs.tool_workflow import requests, texts, tools, vocabulary
from agentic_grpo.envs.tool_workflow.environment import ToolWorkflow
from agentic_grpo.envs.tool_workflow.state import Members, Problem, WorkflowState
from agentic_grpo.errors import require, require_choice


@records.record
class Dials:
    """How well a scripted agent works; arrays, so that turning them compiles nothing.

    Attributes:
      careful_share, slip_share, repair_share: float [].
      competence: float [S].
    """

    careful_share: jax.Array | np.ndarray
    slip_share: jax.Array | np.ndarray
    repair_share: jax.Array | np.ndarray
    competence: jax.Array | np.ndarray


#: Uniform numbers per member and stage, beside those of the noise.
_NUM_DICE = 3


class ScriptedAgent:
    """Implements ``envs.base.ScriptedAgent``.

    A careful agent answers each request by its two calls and reads the origin of what
    is moving; a hasty one sets the two slots to what the example shall hold, and reads
    the cache. Both guess a digit that is hidden, until a check has told it. Per stage:

    * plan: the route.
    * call: the part, carefully or hastily.
    * check: what the last request leaves in the example; a guess where it is hidden.
    * revise: the last part, carefully, if it rests on a guess and the digit is known by
      now; else, with probability ``repair_share``, the route or the first part that is
      wrong; else ``submit``, or nothing while parts are missing.

    Args:
      environment: whose state it reads.
      careful_share: in [0, 1]; of episodes.
      slip_share: in [0, 1]; of stages in which it does as the other kind would.
      repair_share: in [0, 1]; ``careful_share`` if None.
      competence: stage name -> probability, 1 where not named, that the text is what
        the agent meant; otherwise random tokens stand in its place.

    Raises:
      ValueError: a share is not in [0, 1], or ``competence`` names no stage.
    """

    def __init__(
        self,
        environment: ToolWorkflow,
        *,
        careful_share: float,
        slip_share: float = 0.0,
        repair_share: float | None = None,
        competence: Mapping[str, float] | None = None,
    ):
        repair_share = careful_share if repair_share is None else repair_share
        competence = dict(competence or {})
        shares = {
            "careful_share": careful_share,
            "slip_share": slip_share,
            "repair_share": repair_share,
        }
        for name, share in {**shares, **competence}.items():
            require(0.0 <= share <= 1.0, name, share, "in [0, 1]")
        for name in competence:
            require_choice("competence", name, vocabulary.STAGE_NAMES)
        self._stages = environment.config.stages
        self._layout = environment.spec.layout
        self.dials = Dials(
            **{name: np.array(share, np.float32) for name, share in shares.items()},
            competence=np.array(
                [competence.get(name, 1.0) for name in self._stages], np.float32
            ),
        )

    def __call__(
        self, state: WorkflowState, stage: jax.Array, keys: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Writes a stage: tokens int32 [N, G, A] and their mask bool [N, G, A]."""
        return self.write(state, stage, keys, self.dials)

    def write(
        self, state: WorkflowState, stage: jax.Array, keys: jax.Array, dials: Dials
    ) -> tuple[jax.Array, jax.Array]:
        """Writes a stage as an agent with other dials would."""
        width, num_members = self._layout.max_action_width, state.members.seed.shape[1]
        uniform = jax.vmap(
            lambda key: jax.random.uniform(key, (num_members, _NUM_DICE + width))
        )(keys)
        dice, for_noise = jnp.split(uniform, [_NUM_DICE], axis=-1)
        tokens, length = self._text(state, stage, dice, dials)

        noise = jnp.floor(for_noise * vocabulary.VOCABULARY_SIZE).astype(jnp.int32)
        competence = jnp.asarray(dials.competence)[stage][:, None]
        return scripted_text.finish(
            tokens,
            length,
            noise=noise,
            fails=dice[..., 0] >= competence,
            limit=jnp.asarray(self._layout.action_widths)[stage],
            end=vocabulary.END,
            pad=vocabulary.PAD,
        )

    def _text(self, state, stage, dice, dials):
        """What the agent means: tokens [N, G, A], and how many without END [N, G]."""
        problem, members = state.problem, state.members
        careful = members.seed < dials.careful_share
        careful ^= dice[..., 1] < dials.slip_share
        repairs = dice[..., 2] < dials.repair_share
        answers = {
            "plan": lambda: _plan(problem, careful),
            "call": lambda: _next_part(problem, members, careful),
            "check": lambda: _check(problem, members),
            "revise": lambda: _revision(problem, members, repairs),
        }
        tokens = jnp.zeros((*careful.shape, self._layout.max_action_width), jnp.int32)
        length = jnp.zeros(careful.shape, jnp.int32)
        for name in dict.fromkeys(self._stages):
            here = jnp.asarray([each == name for each in self._stages])[stage]
            text, its_length = answers[name]()
            missing = tokens.shape[-1] - text.shape[-1]
            text = jnp.pad(text, [(0, 0), (0, 0), (0, missing)])
            tokens = jnp.where(here[:, None, None], text, tokens)
            length = jnp.where(here[:, None], its_length, length)
        return tokens, length


def _plan(problem: Problem, careful):
    reads_origin = careful & problem.moving[:, None]
    route = jnp.where(reads_origin, vocabulary.ORIGIN, vocabulary.CACHE)
    return (vocabulary.FIRST_ROUTE + route)[..., None], 1


def _next_part(problem: Problem, members: Members, careful):
    part = jnp.minimum(members.parts_written, problem.kind.shape[1] - 1)
    slots = [jnp.take_along_axis(each, part, axis=1) for each in (problem.x, problem.y)]
    leaves = _leaves(problem, members)
    constants = [
        jnp.take_along_axis(leaves[..., index], part[..., None], axis=2)[..., 0]
        for index in range(2)
    ]
    hasty = jnp.stack(
        [
            jnp.stack([jnp.full_like(slot, tools.Tool.SET), slot, constant], axis=-1)
            for slot, constant in zip(slots, constants, strict=True)
        ],
        axis=-2,
    )
    right = _part(_right_calls(problem, members), part)
    calls = jnp.where(careful[..., None, None], right, hasty)
    return _as_tokens(calls), texts.PART_WIDTH


def _check(problem: Problem, members: Members):
    return vocabulary.FIRST_NUMBER + _leaves(problem, members)[:, :, -1], 2


def _revision(problem: Problem, members: Members, repairs):
    right, num_parts = _right_calls(problem, members), problem.kind.shape[1]
    parts = jnp.arange(num_parts, dtype=jnp.int32)[None, None]
    wrong = jnp.any(members.draft != right, axis=(-2, -1))
    wrong &= parts < members.parts_written[..., None]
    learnt = problem.hidden[:, None] & members.revealed
    rewrites_last = learnt & wrong[..., -1]
    wrong_route = problem.moving[:, None] & (members.route != vocabulary.ORIGIN)
    changes_route = repairs & wrong_route & ~rewrites_last
    rewrites = rewrites_last | (repairs & ~wrong_route & jnp.any(wrong, axis=-1))

    first = jnp.argmax(wrong, axis=-1).astype(jnp.int32)
    part = jnp.where(rewrites_last, num_parts - 1, first)
    opening = jnp.where(rewrites, vocabulary.FIRST_PART + part, vocabulary.SUBMIT)
    to_origin = vocabulary.FIRST_ROUTE + vocabulary.ORIGIN
    opening = jnp.where(changes_route, to_origin, opening)
    text = [opening[..., None], _as_tokens(_part(right, part))]
    goes_on = ~(rewrites | changes_route) & (members.parts_written < num_parts)
    length = jnp.where(rewrites, 1 + texts.PART_WIDTH, jnp.where(goes_on, 0, 1))
    return jnp.concatenate(text, axis=-1), length


def _right_calls(problem: Problem, members: Members) -> jax.Array:
    """int32 [N, G, P, 2, 3]: the answers, as far as the member knows."""
    each = (*members.seed.shape, problem.kind.shape[1])
    believed = jnp.broadcast_to(problem.digit[:, None], each)
    last = jnp.where(_knows(problem, members), believed[..., -1], _guess(members, 0))
    believed = believed.at[..., -1].set(last)
    kind, x, y = (
        jnp.broadcast_to(field[:, None], each)
        for field in (problem.kind, problem.x, problem.y)
    )
    return requests.calls_for(kind, x, y, believed)


def _leaves(problem: Problem, members: Members) -> jax.Array:
    """int32 [N, G, P, 2]: what each request leaves in the example, for all it knows."""
    shape = (*members.seed.shape, *problem.left.shape[1:])
    leaves = jnp.broadcast_to(problem.left[:, None], shape)
    guess = jnp.stack([_guess(members, 0), _guess(members, 1)], axis=-1)
    knows = _knows(problem, members)[..., None]
    return leaves.at[:, :, -1].set(jnp.where(knows, leaves[:, :, -1], guess))


def _knows(problem: Problem, members: Members) -> jax.Array:
    """bool [N, G]: nothing is hidden, or not any more."""
    return ~problem.hidden[:, None] | members.revealed


def _guess(members: Members, place: int) -> jax.Array:
    """int32 [N, G]: a digit out of the seed, the same throughout an episode."""
    scrambled = members.seed * 1024.0 * 10.0**place % 1.0  # no matter how seeds compare
    return jnp.floor(scrambled * tools.NUM_DIGITS).astype(jnp.int32)


def _part(calls: jax.Array, part: jax.Array) -> jax.Array:
    """int32 [N, G, 2, 3]: the part [N, G] of calls [N, G, P, 2, 3]."""
    index = part[..., None, None, None]
    return jnp.take_along_axis(calls, index, axis=2)[:, :, 0]


def _as_tokens(calls: jax.Array) -> jax.Array:
    """int32 [N, G, 6]: how calls [N, G, 2, 3] of known tools are written."""
    tool, slot, argument = (calls[..., index] for index in range(tools.CALL_WIDTH))
    takes_slot = jnp.asarray(tools.TAKES_SLOT)[tool]
    first = jnp.where(takes_slot, vocabulary.FIRST_SLOT, vocabulary.FIRST_NUMBER)
    tokens = [
        vocabulary.FIRST_TOOL + tool,
        vocabulary.FIRST_SLOT + slot,
        first + argument,
    ]
    return jnp.stack(tokens, axis=-1).reshape(*calls.shape[:2], -1)
