"""Smoke: the whole program at the smallest size; learns nothing, takes seconds.

python -m experiments.train --config=experiments/configs/smoke.py --workdir=runs/smoke
"""

from experiments.configs import default


def get_config():
    c = default.get_config()
    c.num_ticks = 8
    c.ticks_per_dispatch = 2

    c.env.code_execution.families = ("multiples", "toggle")
    c.env.code_execution.num_visible_tests = 2
    c.env.code_execution.num_hidden_tests = 2
    c.env.code_execution.verdict_latency.minimum = 3

    c.model.num_layers = 1
    c.model.hidden_size = 16
    c.model.num_heads = 2
    c.model.num_kv_heads = 1
    c.model.head_size = 8
    c.model.mlp_size = 32

    c.warm_start.num_steps = 2
    c.warm_start.steps_per_dispatch = 1
    c.warm_start.episodes_per_step = 4

    c.rollout.num_lanes = 4
    c.rollout.decode_slots = 2
    c.rollout.group_size = 2

    c.learner.warmup_ticks = 2
    c.evaluation.every = 4
    c.evaluation.num_problems = 8
    c.evaluation.test_problems = 8
    c.evaluation.batch_size = 8
    c.checkpoint.every = 4
    return c
