"""Every field of a config has a legal value that is not its default, and that runs.

A field whose legal values all crash is found by no test of its illegal ones.
"""

import pytest
import two_ticks

from experiments.config import build, fields
from experiments.configs import default, smoke

CODE, TOOLS = "env.code_execution", "env.tool_workflow"
PYTHON = "env.python_tasks"

#: Configs that go together, {field: value}; no value is that of its default.
ROWS = {
    "code": {
        "algorithm.credit": "agentic",
        "algorithm.agentic.fill": "zero",
        "algorithm.agentic.skill_fill": "reached",
        "algorithm.agentic.immediate_weight": 0.3,
        "algorithm.agentic.correction_weight": 0.5,
        "algorithm.agentic.skill_weight": 0.5,
        "algorithm.agentic.skill_as_estimate": True,
        "algorithm.use_ranks": True,
        "algorithm.divisor": "own",
        "algorithm.baseline": "leave_one_out",
        "algorithm.clip": 0.3,
        "algorithm.clip_low": 0.2,
        "algorithm.clip_high": 0.28,
        "algorithm.correction_clip_low": 0.1,
        "algorithm.correction_clip_high": 0.14,
        "algorithm.decay": 0.9,
        "algorithm.max_age": 5,
        f"{CODE}.families": ("cubes", "staircase"),
        f"{CODE}.stages": ("hypothesis", "code", "tests", "debug", "summary"),
        f"{CODE}.unrewarded_stages": ("debug",),
        f"{CODE}.fidelity_mode": "deceptive",
        f"{CODE}.fidelity_of_family": (("cubes", 0.0), ("staircase", 1.0)),
        f"{CODE}.hidden_rate": 0.25,
        f"{CODE}.num_cases": 1,
        f"{CODE}.num_visible_tests": 3,
        f"{CODE}.num_hidden_tests": 3,
        f"{CODE}.num_own_tests": 1,
        f"{CODE}.num_mutants": 2,
        f"{CODE}.verdict": "graded",
        f"{CODE}.speed_score": True,
        f"{CODE}.full_speedup": 3.0,
        f"{CODE}.out_of_fuel_score": 0.0,
        f"{CODE}.strict_fuel": 50,
        f"{CODE}.loose_fuel": 130,
        f"{CODE}.stage_cost": 0.02,
        f"{CODE}.length_penalty": 0.1,
        f"{CODE}.stage_latency.minimum": 2,
        f"{CODE}.stage_latency.maximum": 4,
        f"{CODE}.stage_latency.tail_probability": 0.5,
        f"{CODE}.latency_of_stage": (("code", (0,)), ("debug", (1, 3, 0.5))),
        f"{CODE}.verdict_latency.minimum": 2,
        f"{CODE}.verdict_latency.maximum": 5,
        f"{CODE}.verdict_latency.tail_probability": 0.25,
        "agent.code_execution.competence": (("code", 0.5), ("debug", 1.0)),
        "agent.code_execution.efficient_share": 0.5,
        "agent.code_execution.repair_share": 0.25,
        "seed": 3,
        "num_ticks": 12,
        "ticks_per_dispatch": 4,
        "evaluation.every": 8,
        "checkpoint.every": 12,
        "checkpoint.keep": 1,
        "checkpoint.keep_best": False,
        "logging.tensorboard": True,
        "profile": True,
    },
    "tools": {
        "env.name": "tool_workflow",
        "algorithm.calibrated.fill": "reached",
        "algorithm.calibrated.skill_fill": "carry_forward",
        "algorithm.calibrated.prior_beta": 0.3,
        "algorithm.calibrated.prior_groups": 2.0,
        "algorithm.calibrated.by_level": True,
        "algorithm.objective": "dual_clip",
        "algorithm.dual_clip_ratio": 2.0,
        "algorithm.anchor": "proximal",
        "algorithm.importance_treatment": "mask",
        "algorithm.importance_granularity": "stage",
        "algorithm.importance_length_normalised": True,
        "algorithm.importance_low": 0.8,
        "algorithm.importance_high": 1.5,
        "algorithm.exclude_zero_variance": True,
        "algorithm.aggregation": "sequence_mean_token_mean",
        f"{TOOLS}.stages": ("plan", "call", "check", "call"),
        f"{TOOLS}.kinds": ("raise", "fix", "order"),
        f"{TOOLS}.moving_rate": 0.25,
        f"{TOOLS}.hidden_rate": 0.25,
        f"{TOOLS}.num_checks": 2,
        f"{TOOLS}.num_audited": 3,
        f"{TOOLS}.visible_fidelity": 0.5,
        f"{TOOLS}.fidelity_mode": "deceptive",
        f"{TOOLS}.verdict": "graded",
        f"{TOOLS}.budget_slack": 2,
        f"{TOOLS}.stage_latency.minimum": 2,
        f"{TOOLS}.stage_latency.maximum": 4,
        f"{TOOLS}.stage_latency.tail_probability": 0.5,
        f"{TOOLS}.latency_of_stage": (("call", (0,)), ("check", (1, 3, 0.5))),
        f"{TOOLS}.verdict_latency.minimum": 2,
        f"{TOOLS}.verdict_latency.maximum": 5,
        f"{TOOLS}.verdict_latency.tail_probability": 0.25,
        "agent.tool_workflow.competence": (("plan", 0.5),),
        "agent.tool_workflow.careful_share": 0.5,
        "agent.tool_workflow.slip_share": 0.2,
        "agent.tool_workflow.repair_share": 0.25,
        "evaluation.split": "test",
        "evaluation.num_problems": 16,
        "evaluation.test_problems": 12,
        "evaluation.batch_size": 4,
        "evaluation.samples_per_problem": 2,
        "evaluation.temperature": 0.5,
        "evaluation.pass_at": (1, 2),
        "evaluation.seed": 7,
    },
    "the model": {
        "algorithm.credit": "immediate",
        "algorithm.immediate.fill": "zero",
        "algorithm.immediate.skill_fill": "reached",
        "algorithm.immediate.skill_weight": 0.5,
        f"{CODE}.visible_fidelity": 0.75,
        "model.num_layers": 2,
        "model.hidden_size": 24,
        "model.num_heads": 3,
        "model.num_kv_heads": 3,
        "model.head_size": 4,
        "model.mlp_size": 40,
        "model.tied_embeddings": False,
        "model.dtype": "bfloat16",
        "model.layers": "scanned",
        "model.chunk_size": 8,
        "warm_start.num_steps": 6,
        "warm_start.episodes_per_step": 2,
        "warm_start.learning_rate": 1e-3,
        "warm_start.steps_per_dispatch": 3,
    },
    "the learner": {
        "algorithm.credit": "returns",
        "algorithm.returns.discount": 0.9,
        "algorithm.returns.skill_weight": 0.5,
        "algorithm.returns.fill": "reached",
        "algorithm.objective": "gspo",
        "algorithm.gspo_per_stage": False,
        "learner.learning_rate": 1e-3,
        "learner.schedule": "linear",
        "learner.warmup_ticks": 3,
        "learner.b1": 0.8,
        "learner.b2": 0.9,
        "learner.weight_decay": 0.1,
        "learner.max_grad_norm": 0.5,
        "learner.entropy_weight": 0.01,
        "learner.kl_weight": 0.1,
        "learner.kl_form": "reward",
        "learner.kl_estimator": "k1",
        "learner.num_microbatches": 2,
        "learner.passes": 2,
        "learner.update_slots": 6,
        "learner.trained_tokens_per_tick": 40.0,
        "learner.max_skipped": 3,
    },
    "devices": {
        "algorithm.credit": "turn_mix",
        "algorithm.turn_mix.outcome_weight": 0.5,
        "algorithm.turn_mix.fill": "zero",
        "algorithm.turn_mix.skill_fill": "reached",
        "rollout.num_blocks": 4,
        "rollout.num_lanes": 8,
        "rollout.decode_slots": 4,
        "rollout.group_size": 3,
        "rollout.num_rows": 40,
        "rollout.stage_deadline": 5,
        "rollout.verdict_deadline": 6,
        "rollout.temperature": 0.7,
        "devices.data": 2,
        "devices.fsdp": 2,
    },
    "copies": {
        "algorithm.credit": "state_groups",
        "algorithm.state_groups.state_weight": 0.5,
        "algorithm.state_groups.discount": 0.9,
        "learner.packed_rows": 4,
        "rollout.num_blocks": 2,
        "devices.data": 2,
        "devices.parallelism": "pmap",
    },
    "programs": {  # by a model from nothing, which learns from a scripted agent first
        "env.name": "python_tasks",
        f"{PYTHON}.families": ("add", "sum_of_multiples_to"),
        f"{PYTHON}.levels": (1, 3),
        f"{PYTHON}.large_visible": True,
        f"{PYTHON}.stages": ("hypothesis", "code", "debug"),
        f"{PYTHON}.prompt_width": 120,
        f"{PYTHON}.program_width": 48,
        f"{PYTHON}.answer_width": 12,
        f"{PYTHON}.feedback_width": 24,
        f"{PYTHON}.tells_wanted": True,
        f"{PYTHON}.visible_cpu_seconds": 0.2,
        f"{PYTHON}.hidden_cpu_seconds": 0.25,
        f"{PYTHON}.memory_bytes": 128 << 20,
        f"{PYTHON}.cache_size": 1000,
        f"{PYTHON}.workers": 1,
        f"{PYTHON}.stage_latency.minimum": 2,
        f"{PYTHON}.stage_latency.maximum": 4,
        f"{PYTHON}.stage_latency.tail_probability": 0.5,
        f"{PYTHON}.latency_of_stage": (("code", (0,)), ("debug", (1, 3, 0.5))),
        f"{PYTHON}.verdict_latency.minimum": 3,
        f"{PYTHON}.verdict_latency.maximum": 5,
        f"{PYTHON}.verdict_latency.tail_probability": 0.25,
        "agent.python_tasks.quick_share": 0.5,
        "agent.python_tasks.slow_share": 0.25,
    },
    "a published model": {
        "env.name": "python_tasks",
        f"{PYTHON}.problems": "tasks.jsonl",
        f"{PYTHON}.form": "chatml",
        "model.pretrained": "tiny",
        "model.prompt_once": True,
        "learner.num_microbatches": 0,
        "learner.activation_gigabytes": 1e-3,
        "model.adapter_rank": 2,
        "model.adapter_alpha": 4.0,
        "model.adapter_targets": ("qkv", "down"),
        "learner.learning_rate": 1e-4,
    },
    "on the real clock": {
        "env.name": "python_tasks",
        f"{PYTHON}.families": ("add",),
        "rollout.clock": "real",
        "rollout.real_clock.stage_seconds": 30.0,
        "rollout.real_clock.verdict_seconds": 60.0,
        "rollout.real_clock.queue": 512,
        "rollout.real_clock.retries": 0,
        "rollout.real_clock.replay": "earlier.jsonl",
    },
    "from elsewhere": {
        "env.name": "somebody_elses:make",
        "env.options": (("verdict_latency", 2),),
        "model.name": "somebody_elses:model",
        "model.options": (("hidden_size", 4),),
        "warm_start.num_steps": 0,
        "learner.learning_rate": 1e-3,
        "init_from": "runs/another@best",
    },
    "a critic": {
        "algorithm.calibrated.fixed_beta": 0.5,
        "algorithm.signal": "critic",
        "algorithm.pilot_groups": 2,
        "critic.kind": "decoder",
        "critic.sees": "actions",
        "critic.hidden_size": 8,
        "critic.num_layers": 2,
        "critic.num_heads": 2,
        "critic.capacity": 16,
        "critic.batch_size": 8,
        "critic.steps": 1,
        "critic.learning_rate": 1e-3,
    },
}


@pytest.fixture(autouse=True)
def files(request, tmp_path, monkeypatch):
    """What the row of a published model names, beside which it runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "earlier.jsonl").touch()
    if "a published model" in request.node.name:
        pytest.importorskip("tokenizers", reason="an extra: llm")
        import tiny_published_model

        tiny_published_model.write(tmp_path)
        tiny_published_model.write_lines(tmp_path / "tasks.jsonl")


def config(name):
    changes = ROWS[name]
    if {"model.pretrained", "model.name"} & set(changes):  # with sizes of its own
        usual = dict(fields.flatten(default.get_config().model, "model."))
        changes = {**usual, **changes}
    return fields.change(smoke.get_config(), changes)


def test_no_field_is_left_out_and_none_has_its_default():
    defaults = dict(fields.flatten(default.get_config()))
    small = dict(fields.flatten(smoke.get_config()))
    for changes in ROWS.values():
        for field, value in changes.items():
            assert value not in (defaults[field], small[field]), field
    walked = {field for changes in ROWS.values() for field in changes}
    assert walked == set(defaults) - {"schema_version"}  # which has one legal value


@pytest.mark.parametrize("name", ROWS)
def test_every_field_builds_and_traces(name):
    experiment, _ = two_ticks.prepared(config(name))
    build.trace(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_field_runs_two_ticks(name):
    two_ticks.run(config(name))
