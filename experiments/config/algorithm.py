"""The credit rule and the loss of a config."""

import functools

from agentic_grpo.errors import Refused
from agentic_grpo.learner import LearnerSettings
from agentic_grpo.ops import (
    aggregation,
    credit,
    kl_estimators,
    objective,
    policy_losses,
)
from agentic_grpo.ops.importance_ratios import GRANULARITIES, TREATMENTS
from agentic_grpo.training import sizes
from experiments.config.checks import choose, require
from experiments.config.critic import SIGNALS

#: What each rule takes beside kinds, comparison, decay and its own options.
TAKES = {
    "outcome": ("clip",),
    "immediate": ("clip", "signal"),
    "agentic": ("clips", "signal"),
    "calibrated": ("clips", "signal"),
    "returns": ("clip",),
    "turn_mix": ("clips",),
    "state_groups": ("clip",),
    "value_baseline": ("clip",),
}

OBJECTIVES = {
    "clip": policy_losses.ppo_clip_loss,
    "dual_clip": policy_losses.dual_clip_loss,
    "cispo": policy_losses.cispo_loss,
    "gspo": policy_losses.gspo_loss,
    "reinforce": policy_losses.reinforce_loss,
}

AGGREGATIONS = {
    "constant": aggregation.constant_divisor,
    "token_mean": lambda _: aggregation.token_mean,
    "sequence_mean_token_mean": lambda _: aggregation.sequence_mean_token_mean,
    "sequence_mean_token_sum": lambda _: aggregation.sequence_mean_token_sum,
}

KL_FORMS = {"loss": kl_estimators.kl_loss, "reward": objective.kl_as_reward}

KL_ESTIMATORS = ("k1", "k2", "k3")


def credit_rule(algorithm, spec) -> credit.CreditRule:
    """The rule that ``algorithm.credit`` names, with its options."""
    constructor = choose("algorithm.credit", algorithm.credit, credit.RULES)
    clips = _clips(algorithm)
    shared = {
        "clip": clips.first,
        "clips": clips,
        "signal": SIGNALS.get(algorithm.signal, algorithm.signal),
    }
    of_rule = algorithm.get(algorithm.credit, {})
    try:
        return constructor(
            spec.layout.kinds,
            comparison=credit.Comparison(
                divisor=algorithm.divisor,
                baseline=algorithm.baseline,
                use_ranks=algorithm.use_ranks,
            ),
            decay=algorithm.decay,
            **{name: shared[name] for name in TAKES[algorithm.credit]},
            **_own_options(dict(of_rule), spec),
        )
    except Refused as error:
        is_own = error.field in of_rule
        path = f"algorithm.{algorithm.credit}" if is_own else "algorithm"
        raise error.under(path) from error


def _clips(algorithm) -> credit.Clips:
    """(of credit that is paid first, of corrections): eps, and eps_2 <= eps.

    All follow ``algorithm.clip``, the lower side up to 1; corrections follow the other.
    """

    def given(name, otherwise):
        value = algorithm[name]
        return otherwise if value is None else value

    clip = credit.Clip(
        low=given("clip_low", min(algorithm.clip, 1.0)),
        high=given("clip_high", algorithm.clip),
    )
    correction = credit.Clip(
        low=given("correction_clip_low", clip.low),
        high=given("correction_clip_high", clip.high),
    )
    for side in ("low", "high"):
        value, limit = getattr(correction, side), getattr(clip, side)
        require(
            value <= limit,
            f"algorithm.correction_clip_{side}",
            value,
            f"at most the clip of what is paid first, {limit}",
        )
    return credit.Clips(first=clip, correction=correction)


def _own_options(options, spec):
    """The flat options of a rule in the config -> the arguments of its constructor."""
    if "skill_fill" in options:
        options["fill"] = credit.Fill(
            estimates=options["fill"], skills=options.pop("skill_fill")
        )
    if "prior_beta" in options:
        options["prior"] = credit.Prior(
            beta=options.pop("prior_beta"), groups=options.pop("prior_groups")
        )
        fixed = options.pop("fixed_beta")
        options["fixed_beta"] = None if fixed < 0 else fixed
        options["num_levels"] = len(spec.levels) if options.pop("by_level") else 1
    return options


def learner_settings(config, spec, block, *, num_microbatches) -> LearnerSettings:
    """The loss: objective, importance treatment, aggregation, KL, entropy."""
    algorithm, learner = config.algorithm, config.learner
    loss = choose("algorithm.objective", algorithm.objective, OBJECTIVES)
    if algorithm.objective == "dual_clip":
        loss = functools.partial(loss, max_ratio=algorithm.dual_clip_ratio)
    if algorithm.objective == "gspo" and algorithm.gspo_per_stage:
        segments = spec.layout.segment_of_column
        loss = functools.partial(loss, segment_of_column=segments)
    make_aggregate = choose(
        "algorithm.aggregation", algorithm.aggregation, AGGREGATIONS
    )
    rows = block.update_slots * config.rollout.group_size
    batch = rows * config.rollout.num_blocks
    require(
        batch % num_microbatches == 0,
        "learner.num_microbatches",
        num_microbatches,
        f"a divisor of the {batch} episodes of a step",
    )
    choose("learner.kl_estimator", learner.kl_estimator, dict.fromkeys(KL_ESTIMATORS))
    kl_loss = choose("learner.kl_form", learner.kl_form, KL_FORMS)
    for name, names in (("granularity", GRANULARITIES), ("treatment", TREATMENTS)):
        field = f"importance_{name}"
        choose(f"algorithm.{field}", algorithm[field], dict.fromkeys(names))
    require(
        algorithm.importance_low <= algorithm.importance_high,
        "algorithm.importance_low",
        algorithm.importance_low,
        f"at most algorithm.importance_high={algorithm.importance_high}",
    )
    try:
        built = objective.make_objective(
            loss,
            anchor=algorithm.anchor,
            granularity=algorithm.importance_granularity,
            treatment=algorithm.importance_treatment,
            low=algorithm.importance_low,
            high=algorithm.importance_high,
            length_normalised=algorithm.importance_length_normalised,
            segment_of_column=spec.layout.segment_of_column,
        )
    except Refused as error:
        raise error.under("algorithm") from error
    return LearnerSettings(
        objective=built,
        aggregate=make_aggregate(
            sizes.trained_tokens_per_row(
                spec,
                block,
                num_members=config.rollout.group_size,
                tokens_per_tick=learner.trained_tokens_per_tick,
            )
        ),
        temperature=config.rollout.temperature,
        entropy_weight=learner.entropy_weight,
        kl_weight=learner.kl_weight,
        kl_loss=functools.partial(kl_loss, estimator=learner.kl_estimator),
        num_microbatches=num_microbatches,
    )
