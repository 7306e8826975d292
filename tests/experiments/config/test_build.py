"""Configs: every error names the field, the value and the rule, before any compute."""

import json

import jax
import pytest

from experiments.config import algorithm, build, environment
from experiments.configs import default, quickstart, smoke

CONFIGS = {"default": default, "quickstart": quickstart, "smoke": smoke}


def changed(**changes):
    config = smoke.get_config().lock()
    config.update_from_flattened_dict(changes)
    return config


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_builds_and_is_json(name):
    config = CONFIGS[name].get_config().lock()
    json.loads(config.to_json())
    experiment = build.build(config)
    shapes = build.state_shapes(experiment)
    assert shapes.tick.shape == ()
    assert jax.tree.leaves(shapes.learner.params)


@pytest.mark.parametrize("name", algorithm.CREDIT_RULES)
@pytest.mark.parametrize("objective", ["clip", "gspo"])
def test_every_credit_rule_builds(name, objective):
    changes = {"algorithm.credit": name, "algorithm.objective": objective}
    rule = build.build(changed(**changes)).program.credit_rule
    assert rule.event_mask[-1] or name == "immediate"


def test_all_names_are_those_of_the_tables():
    assert set(environment.ENVIRONMENTS) <= set(default.get_config().env)
    own_options = set(algorithm.CREDIT_RULES) - {"outcome"}
    assert own_options <= set(default.get_config().algorithm)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("schema_version", 0, r"schema_version=0"),
        ("num_ticks", 7, r"num_ticks=7 must be a multiple of ticks_per_dispatch=2"),
        ("ticks_per_dispatch", 0, r"ticks_per_dispatch=0"),
        ("env.name", "code_exeution", r"did you mean 'code_execution'"),
        ("env.code_execution.stages", (), r"env\.code_execution\.stages"),
        ("env.code_execution.visible_fidelity", 1.5, r"visible_fidelity.*1\.5"),
        ("env.code_execution.visible_fidelity", -0.1, r"visible_fidelity"),
        ("env.code_execution.families", ("cubes", "cubes"), r"families"),
        ("env.code_execution.verdict_latency.minimum", -1, r"verdict_latency.*minimum"),
        ("agent.code_execution.efficient_share", 2.0, r"efficient_share"),
        ("model.num_kv_heads", 3, r"model\.num_kv_heads=3 must divide num_heads=2"),
        ("model.dtype", "int32", r"model\.dtype"),
        ("warm_start.episodes_per_step", 0, r"warm_start\.episodes_per_step=0"),
        ("rollout.group_size", 1, r"rollout\.group_size=1 must be at least 2"),
        ("rollout.num_blocks", 3, r"a multiple of rollout\.num_blocks=3"),
        ("rollout.decode_slots", 5, r"rollout\.decode_slots=5 must be at most"),
        ("rollout.num_rows", 5, r"rollout\.num_rows=5 must be at least"),
        ("rollout.temperature", 0.0, r"rollout\.temperature=0\.0 must be above 0"),
        ("learner.update_slots", 1, r"learner\.update_slots=1 must be at least 3"),
        ("learner.learning_rate", 0.0, r"learner\.learning_rate=0\.0"),
        ("learner.schedule", "cosin", r"did you mean 'cosine'"),
        ("learner.warmup_ticks", 8, r"learner\.warmup_ticks=8"),
        ("learner.b2", 1.0, r"learner\.b2=1\.0"),
        ("learner.passes", 0, r"learner\.passes=0 must be at least 1"),
        ("learner.max_grad_norm", 0.0, r"learner\.max_grad_norm"),
        ("learner.kl_form", "los", r"did you mean 'loss'"),
        ("learner.kl_estimator", "k4", r"learner\.kl_estimator='k4'"),
        ("learner.num_microbatches", 4, r"learner\.num_microbatches=4"),
        ("learner.max_skipped", 0, r"learner\.max_skipped=0"),
        ("algorithm.credit", "agntic", r"did you mean 'agentic'"),
        ("algorithm.divisor", "std", r"algorithm\.divisor='std'"),
        ("algorithm.baseline", "median", r"algorithm\.baseline='median'"),
        ("algorithm.decay", 0.0, r"algorithm\.decay"),
        ("algorithm.clip_low", 1.5, r"algorithm\.clip"),
        ("algorithm.correction_clip_low", 0.9, r"correction_clip_low=0\.9 must be at"),
        ("algorithm.objective", "ppo", r"algorithm\.objective='ppo'"),
        ("algorithm.aggregation", "mean", r"algorithm\.aggregation='mean'"),
        ("algorithm.anchor", "current", r"algorithm\.anchor='current'"),
        ("algorithm.importance_treatment", "truncate", r"importance_treatment"),
        (
            "algorithm.calibrated.fill",
            "forward",
            r"algorithm\.calibrated\.fill='forward'",
        ),
        ("evaluation.num_problems", 7, r"num_problems=7 must be a multiple of"),
        ("evaluation.every", 3, r"evaluation\.every=3"),
        ("evaluation.pass_at", (2,), r"pass_at=2"),
        ("checkpoint.every", 3, r"checkpoint\.every=3"),
    ],
)
def test_an_illegal_value_names_the_field_and_the_rule(field, value, message):
    with pytest.raises(ValueError, match=message):
        build.build(changed(**{field: value}))


def test_an_option_that_the_rule_would_ignore_is_refused():
    calibrated = {"algorithm.credit": "calibrated"}
    with pytest.raises(
        ValueError, match=r"algorithm\.divisor='none' must be 'running'"
    ):
        build.build(changed(**calibrated, **{"algorithm.divisor": "none"}))
    with pytest.raises(ValueError, match=r"algorithm\.use_ranks=True"):
        build.build(changed(**calibrated, **{"algorithm.use_ranks": True}))


def test_rows_and_slots_grow_with_what_can_arrive():
    program = build.build(changed()).program
    # 4 lanes, 2 slots; a verdict of 3 ticks, one to be served in, two behind all lanes:
    # in 6 ticks 12 stages are written, 2 of 3 of each group before them, so that
    # (12 + 4 * 2) / 3 = 6 groups end: 4 + 6 rows; 2 stages and 1 verdict per tick.
    assert program.num_rows == 10 and program.update_slots == 3
