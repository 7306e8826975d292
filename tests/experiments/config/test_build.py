"""Configs: every error names the field, the value and the rule, before any compute."""

import json

import jax
import pytest

from agentic_grpo.ops import credit
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


@pytest.mark.parametrize("name", credit.RULES)
@pytest.mark.parametrize("objective", ["clip", "gspo"])
def test_every_credit_rule_builds(name, objective):
    changes = {"algorithm.credit": name, "algorithm.objective": objective}
    if name == "value_baseline":
        changes["critic.kind"] = "decoder"
    rule = build.build(changed(**changes)).program.credit_rule
    assert rule.event_mask[-1] or name == "immediate"


def test_all_names_are_those_of_the_tables():
    names = {*environment.ENVIRONMENTS, *environment.OF_TEXT}
    assert names == set(default.get_config().env) - {"name", "options"}
    own_options = set(credit.RULES) - {"outcome", "value_baseline"}
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
        (
            "model.num_kv_heads",
            3,
            r"model\.num_kv_heads=3 must be a divisor of num_heads=2",
        ),
        ("model.dtype", "int32", r"model\.dtype"),
        ("warm_start.episodes_per_step", 0, r"warm_start\.episodes_per_step=0"),
        ("rollout.group_size", 1, r"rollout\.group_size=1 must be at least 2"),
        (
            "rollout.num_blocks",
            3,
            r"num_lanes=4 must be a multiple of num_blocks=3",
        ),
        ("rollout.decode_slots", 5, r"rollout\.decode_slots=5 must be at most"),
        ("rollout.num_rows", 5, r"rollout\.num_rows=5 must be at least"),
        ("rollout.temperature", 0.0, r"rollout\.temperature=0\.0 must be in \[0\.01"),
        ("rollout.temperature", 1e-38, r"rollout\.temperature=1e-38 must be"),
        ("rollout.temperature", 1e-3, r"rollout\.temperature=0\.001 must be in"),
        ("evaluation.temperature", 1e-3, r"evaluation\.temperature=0\.001 must be in"),
        ("learner.learning_rate", 30.0, r"learning_rate=30\.0 must be in \[0, 10\]"),
        ("warm_start.learning_rate", 30.0, r"learning_rate=30\.0 must be .* at most"),
        (
            "env.code_execution.latency_of_stage",
            (("code", (2.5,)),),
            r"latency_of_stage",
        ),
        (
            "env.code_execution.latency_of_stage",
            (("code", (3, 1)),),
            r"latency_of_stage of 'code'.*must be at least 3",
        ),
        (
            "env.code_execution.latency_of_stage",
            (("code", (1,)), ("code", (2,))),
            r"each stage once",
        ),
        ("learner.update_slots", 1, r"learner\.update_slots=1 must be at least 3"),
        ("learner.learning_rate", -1.0, r"learner\.learning_rate=-1\.0"),
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
        ValueError, match=r"algorithm\.divisor='none' must be one of running"
    ):
        build.build(changed(**calibrated, **{"algorithm.divisor": "none"}))
    with pytest.raises(ValueError, match=r"algorithm\.use_ranks=True"):
        build.build(changed(**calibrated, **{"algorithm.use_ranks": True}))


def test_every_clip_follows_one_number():
    # a clip could not be swept: a correction clip above the clip is refused
    def clips(**changes):
        algorithm_ = changed(**changes).algorithm
        both = algorithm._clips(algorithm_)
        return [tuple(both.first), tuple(both.correction)]

    assert clips() == [(0.8, 0.8), (0.8, 0.8)]
    assert clips(**{"algorithm.clip": 0.2}) == [(0.2, 0.2), (0.2, 0.2)]
    assert clips(**{"algorithm.clip": 3.2}) == [(1.0, 3.2), (1.0, 3.2)]
    apart = {"algorithm.clip": 0.2, "algorithm.clip_high": 0.28}
    assert clips(**apart) == [(0.2, 0.28), (0.2, 0.28)]
    apart["algorithm.correction_clip_low"] = 0.1
    assert clips(**apart) == [(0.2, 0.28), (0.1, 0.28)]
    for clip in (0.1, 0.4, 1.6):
        build.build(changed(**{"algorithm.clip": clip}))


def test_evaluation_samples_as_training_does_unless_it_is_told():
    built = build.build(changed(**{"rollout.temperature": 0.5}))
    assert built.evaluation.temperature == built.test.temperature == 0.5
    built = build.build(
        changed(**{"rollout.temperature": 0.5, "evaluation.temperature": 0.0})
    )
    assert built.evaluation.temperature == built.test.temperature == 0.0
    assert built.program.rollout.temperature == 0.5


def test_no_two_streams_have_a_key_in_common():
    # the first warm-start step drew with the key of the parameters, and the run of seed
    # 1000 with that of problem 0 of the evaluation
    built = build.build(changed(seed=1000, **{"evaluation.seed": 1000}))
    keys = [
        built.init_key,
        built.warm_start_key,
        built.run_key,
        built.evaluation_key,
        jax.random.key(1000),
    ]
    keys += [jax.random.fold_in(key, index) for key in keys for index in range(20)]
    data = {jax.random.key_data(key).tobytes() for key in keys[:-20]}
    assert len(data) == len(keys[:-20])
    other = build.build(changed(seed=7, **{"evaluation.seed": 1000}))
    assert jax.random.key_data(other.evaluation_key).tolist() == (
        jax.random.key_data(built.evaluation_key).tolist()
    )


def test_rows_and_slots_grow_with_what_can_arrive():
    program = build.build(changed()).program
    # 4 lanes, 2 slots; a verdict of 3 ticks, one to be served in, two behind all lanes:
    # in 6 ticks 12 stages are written, 2 of 3 of each group before them, so that
    # (12 + 4 * 2) / 3 = 6 groups end: 4 + 6 rows; 2 stages and 1 verdict per tick.
    assert program.num_rows == 10 and program.update_slots == 3
