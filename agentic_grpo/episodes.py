"""Episodes: a policy writes a stage, the environment executes it, the columns fill.

``play_stage`` is the one place where policy and environment meet; training lanes, warm
start, evaluation and scripted agents all go through it.
"""

import dataclasses

import chex
import jax
import jax.numpy as jnp

from agentic_grpo import snapshots
from agentic_grpo.envs import base
from agentic_grpo.layout import place
from agentic_grpo.models.base import Policy
from agentic_grpo.records import NEVER, EndReason
from agentic_grpo.snapshots import SnapshotTable


def sample_with(policy: Policy, params, *, temperature):
    """The ``act`` of ``play_stage`` that samples from a policy.

    Every member draws its own uniforms: what it writes depends on its lane's key and
    its place in the group, not on who else is in the batch.
    """

    def act(tokens, token_mask, problem, stage, acting, keys, *, action_width):
        del problem
        lanes, members, columns = tokens.shape
        draw = jax.vmap(lambda key: jax.random.uniform(key, (members, action_width)))
        written = policy.sample(
            params,
            tokens.reshape(-1, columns),
            token_mask.reshape(-1, columns),
            jnp.repeat(stage, members),
            acting.reshape(-1),
            draw(keys).reshape(-1, action_width),
            temperature=temperature,
            **({"group_size": members} if policy.prompt_once else {}),
        )
        return tuple(x.reshape(lanes, members, action_width) for x in written)

    return act


def write_with(agent: base.ScriptedAgent):
    """The ``act`` of ``play_stage`` that follows a scripted agent; log-probs are 0."""

    def act(tokens, token_mask, problem, stage, acting, keys, *, action_width):
        del tokens, token_mask, acting, action_width
        written, mask = agent(problem, stage, keys)
        return written, mask, jnp.zeros(written.shape, jnp.float32)

    return act


def play_stage(
    act,
    environment,
    rows: SnapshotTable,
    problem,
    stage,
    acting,
    keys,
    *,
    stage_deadline=NEVER,
    verdict_deadline=NEVER,
) -> tuple[SnapshotTable, base.StageResult]:
    """Members [N, G] write one stage, the environment executes it at once.

    ``write_stage``, the environment's step and ``enter_result``, one after the other.

    Args:
      act: (tokens [N, G, T], token_mask [N, G, T], problem, stage [N], acting [N, G],
        keys [N], action_width=A) -> (tokens, mask, log_probs), each [N, G, A].
      environment: an ``envs.base.Environment``.
      rows: N snapshot rows that hold the episodes so far.
      problem: the environment's state.
      stage: int32 [N].
      acting: bool [N, G].
      keys: [N].
      stage_deadline: ticks after which a stage reward counts as absent.
      verdict_deadline: ticks after which a verdict counts as absent.

    Returns:
      (rows with the stage's tokens, masks, log-probs, rewards and verdicts entered,
      the environment's ``StageResult``).
    """
    layout = environment.spec.layout
    act_keys, environment_keys = split_keys(keys)
    rows, written, mask = write_stage(
        act, layout, rows, problem, stage, acting, act_keys
    )
    result = environment.step(problem, stage, written, mask, acting, environment_keys)
    rows = enter_result(
        layout,
        rows,
        result,
        stage,
        acting,
        stage_deadline=stage_deadline,
        verdict_deadline=verdict_deadline,
    )
    return rows, result


def write_stage(act, layout, rows: SnapshotTable, problem, stage, acting, keys):
    """Members [N, G] write one stage; nobody has executed it yet.

    Args:
      act, rows, problem, stage, acting, keys: as of ``play_stage``.
      layout: a ``layout.EpisodeLayout``.

    Returns:
      (rows with marker, actions and log-probs; tokens int32 [N, G, A]; mask bool
      [N, G, A], of acting members alone).
    """
    on_member = acting[:, :, None]
    markers = jnp.array([spec.marker for spec in layout.stages], jnp.int32)[stage]
    markers = jnp.broadcast_to(markers[:, None, None], on_member.shape)
    rows, _ = _put(rows, markers, on_member, stage, layout, part="marker")
    written, mask, log_probs = act(
        rows.tokens,
        rows.token_mask,
        problem,
        stage,
        acting,
        keys,
        action_width=layout.max_action_width,
    )
    chex.assert_shape(
        [written, mask, log_probs], (*acting.shape, layout.max_action_width)
    )
    mask = mask & on_member
    rows, is_action = _put(rows, written, mask, stage, layout, part="action")
    placed = place(log_probs, stage, layout, part="action", fill=0.0)
    is_stage = _at_stage(stage, layout)
    rows = dataclasses.replace(
        rows,
        action_mask=rows.action_mask | is_action,
        log_probs=jnp.where(is_action, placed, rows.log_probs),
        # of this stage alone: an earlier one may have been paid and anchored anew
        anchor_log_probs=jnp.where(is_action, placed, rows.anchor_log_probs),
        acted=rows.acted | (is_stage[:, None, :] & on_member),
    )
    return rows, written, mask


def enter_result(
    layout,
    rows: SnapshotTable,
    result: base.StageResult,
    stage,
    acting,
    *,
    stage_deadline=NEVER,
    verdict_deadline=NEVER,
) -> SnapshotTable:
    """Enters what came back for a stage; what is late, faulty or illegal is absent.

    Arguments as of ``play_stage``; a reward or verdict outside [0, 1] is illegal.
    """
    chex.assert_shape(
        [result.observation_tokens, result.observation_mask],
        (*acting.shape, layout.max_observation_width),
    )
    rows, _ = _put(
        rows,
        result.observation_tokens,
        result.observation_mask & acting[:, :, None],
        stage,
        layout,
        part="observation",
    )
    here = _at_stage(stage, layout)[:, None, :] & acting[:, :, None]
    healthy = acting & (result.end_reason != EndReason.FAULT)
    rewarded = healthy & result.reward_mask & base.is_legal_reward(result.reward)
    rewarded &= result.latency <= stage_deadline
    ended = acting & (result.end_reason != EndReason.RUNNING)
    judged = ended & healthy & base.is_legal_reward(result.verdict)
    judged &= result.verdict_latency <= verdict_deadline

    def at_stage(old, new):
        return jnp.where(here, new[:, :, None], old)

    return dataclasses.replace(
        rows,
        reward=at_stage(rows.reward, jnp.where(rewarded, result.reward, 0.0)),
        reward_mask=at_stage(rows.reward_mask, rewarded),
        state_id=at_stage(rows.state_id, result.state_id),
        verdict=jnp.where(judged, result.verdict, rows.verdict),
        verdict_mask=rows.verdict_mask | judged,
        solved=rows.solved | (judged & result.solved),
        end_reason=jnp.where(ended, result.end_reason, rows.end_reason),
    )


def play_episodes(act, environment, keys, *, split, num_members) -> SnapshotTable:
    """Plays one group per key [N] from its statement to its verdict, without a clock.

    Returns:
      Rows [N, ...]: tokens, masks, log-probs, rewards, verdicts, levels. The fields
      that belong to the clock (version, ready_at, served, applied_advantage) are not
      used.
    """
    layout = environment.spec.layout
    start_keys, stage_keys = split_keys(keys)
    start = environment.start(start_keys, split=split, num_members=num_members)

    def play(carry, index):
        rows, problem, active = carry
        stage = jnp.full(keys.shape, index, jnp.int32)
        now = jax.vmap(jax.random.fold_in, (0, None))(stage_keys, index)
        rows, result = play_stage(act, environment, rows, problem, stage, active, now)
        active = active & (result.end_reason == EndReason.RUNNING)
        return (rows, result.state, active), None

    rows = with_prompt(layout, start, num_members=num_members)
    active = jnp.ones((keys.shape[0], num_members), bool)
    stages = jnp.arange(layout.num_stages, dtype=jnp.int32)
    (rows, _, _), _ = jax.lax.scan(play, (rows, start.state, active), stages)
    return rows


def with_prompt(layout, start: base.Start, *, num_members) -> SnapshotTable:
    """Clean rows [N] that hold the statements of new problems."""
    lanes, width = start.prompt_tokens.shape
    rows = snapshots.init(layout, num_rows=lanes, num_members=num_members)
    prompt = jnp.where(start.prompt_mask, start.prompt_tokens, 0)
    return dataclasses.replace(
        rows,
        tokens=rows.tokens.at[:, :, :width].set(prompt[:, None, :]),
        token_mask=rows.token_mask.at[:, :, :width].set(start.prompt_mask[:, None, :]),
        level=start.level,
        generating=jnp.ones_like(rows.generating),
        occupied=jnp.ones_like(rows.occupied),
    )


def split_keys(keys):
    """Two independent keys from each of [N]."""
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


def _put(rows, values, mask, stage, layout, *, part):
    """Writes tokens [N, G, W] on the columns of each lane's stage."""
    here = place(mask, stage, layout, part=part, fill=False)
    placed = place(values, stage, layout, part=part, fill=0)
    tokens = jnp.where(here, placed, rows.tokens)
    token_mask = rows.token_mask | here
    return dataclasses.replace(rows, tokens=tokens, token_mask=token_mask), here


def _at_stage(stage, layout):
    """bool [N, S]: one-hot of each lane's stage [N]."""
    return stage[:, None] == jnp.arange(layout.num_stages, dtype=stage.dtype)[None, :]
