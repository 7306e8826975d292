"""What a tick of generation reports. Letters: N lanes at work, G members."""

import jax.numpy as jnp

from agentic_grpo.envs import base
from agentic_grpo.ops.reductions import count, masked_mean
from agentic_grpo.records import NEVER, EndReason

#: What ``of_contract`` counts.
CONTRACT = ("contract/answers_out_of_time", "contract/answers_in_no_tokens")


def of_stages(layout, result, rows, stage, acting, working):
    """What the stages brought, as soon as the simulator knows it.

    Args:
      layout: a ``layout.EpisodeLayout``.
      result: ``envs.base.StageResult`` [N, G].
      rows: snapshot rows [N], the stage written and its events scheduled.
      stage: int32 [N]; which stage was written.
      acting: bool [N, G]; members that wrote it.
      working: bool [N]; lanes that are no filling.

    Returns:
      dict of ``Mean`` and of counts, int32 [].
    """
    ended = acting & (result.end_reason != EndReason.RUNNING)
    judged = ended & (result.end_reason != EndReason.FAULT)
    rewarded = acting & result.reward_mask
    legal = base.is_legal_reward(result.reward)
    metrics = {
        f"stage_reward/{spec.name}": masked_mean(
            result.reward, rewarded & legal & (stage == index)[:, None]
        )
        for index, spec in enumerate(layout.stages)
    }
    legal_verdict = base.is_legal_reward(result.verdict)
    return metrics | {
        "stages_written": count(working),
        "events/scheduled": _num_scheduled(rows, stage, working),
        "verdict": masked_mean(result.verdict, judged & legal_verdict),
        "solved": masked_mean(result.solved.astype(jnp.float32), judged),
        "submitted": masked_mean(
            (result.end_reason == EndReason.SUBMITTED).astype(jnp.float32), ended
        ),
        "members_at_fault": count(ended & ~judged),
        "rewards_refused": count(rewarded & ~legal) + count(judged & ~legal_verdict),
    }


def of_contract(spec, result, stage, acting) -> dict:
    """Answers that an environment's description rules out; 0 of one that keeps it.

    Rows and lanes are sized by the latencies that are declared, and what is told is
    read by the policy: an environment that answers later, or in ids that are no tokens,
    would make a run wrong without a word.

    Args:
      spec: ``envs.base.EnvironmentSpec``.
      result: ``envs.base.StageResult`` [N, G].
      stage: int32 [N].
      acting: bool [N, G].
    """
    latest = jnp.array([s.max_latency for s in spec.layout.stages], jnp.int32)[stage]
    late = acting & ((result.latency < 0) | (result.latency > latest[:, None]))
    ended = acting & (result.end_reason != EndReason.RUNNING)
    judged = ended & (result.end_reason != EndReason.FAULT)
    earliest, last = spec.min_verdict_latency, spec.max_verdict_latency
    wait = result.verdict_latency
    late |= judged & ((wait < earliest) | (wait > last))
    told, mask = result.observation_tokens, result.observation_mask
    foreign = mask & ((told < 0) | (told >= spec.vocabulary_size))
    foreign = acting & jnp.any(foreign, axis=-1)
    return dict(zip(CONTRACT, (count(late), count(foreign)), strict=True))


def _num_scheduled(rows, stage, working):
    """Events that this tick's stages put on the clock."""
    of_stage = jnp.take_along_axis(rows.ready_at, stage[:, None], axis=1)[:, 0]
    scheduled = jnp.stack([of_stage, rows.ready_at[:, -1]], axis=1) != NEVER
    return count(scheduled & working[:, None])
