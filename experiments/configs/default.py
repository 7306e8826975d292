"""The default experiment: every field of a run, with its default and its reason.

Other configs start from ``get_config()`` and change what they are about. A field's
value has one home: here, or, for environments and credit, where these are made.

  python -m experiments.train --config=experiments/configs/default.py --workdir=runs/x
"""

import inspect

from ml_collections import ConfigDict
from ml_collections.config_dict import create, placeholder

from agentic_grpo.ops import credit
from experiments.config import python_tasks, real_clock
from experiments.config.environment import (
    code_execution_fields,
    tool_workflow_fields,
)


def _defaults(rule, *names) -> dict:
    """The defaults of these arguments of a credit rule."""
    parameters = inspect.signature(rule).parameters
    return {name: parameters[name].default for name in names}


def get_config() -> ConfigDict:
    comparison, prior = credit.Comparison(), credit.Prior()
    fills = dict(fill=credit.Fill().estimates, skill_fill=credit.Fill().skills)
    c = ConfigDict()
    c.schema_version = 2  # of this list of fields
    c.seed = 0  # of everything that is drawn but the evaluation's problems
    c.init_from = ""  # RUN, RUN@TICK or RUN@best: from its parameters, no warm start
    c.num_ticks = 400  # the run ends here
    c.ticks_per_dispatch = 5  # in one compiled scan; one line of metrics each

    c.env = create(
        name="code_execution",  # of one that follows, or my_package.my_env:make
        options=(),  # of the latter: pairs (argument, value)
        code_execution=create(**code_execution_fields()),
        tool_workflow=create(**tool_workflow_fields()),
        python_tasks=create(**python_tasks.fields()),
    )
    c.agent = create(  # writes the episodes of the warm start
        code_execution=create(
            efficient_share=0.05,  # of its programs; the rest are brute force
            repair_share=-1.0,  # of slow programs mended in debug; -1: the same
            competence=(),  # pairs (stage, probability); 1 where not named
        ),
        tool_workflow=create(
            careful_share=0.05,  # of its episodes; the others fit the example alone
            slip_share=0.1,  # of stages in which it does as the other kind would
            repair_share=-1.0,  # of wrong drafts mended in revise; -1: careful_share
            competence=(),
        ),
        python_tasks=create(
            quick_share=0.1,  # of its programs: right and quick
            slow_share=0.4,  # right and too slow, where there is such a program
        ),
    )

    c.model = create(
        name="transformer",  # or my_package.my_model:make, a function of a spec
        options=(),  # of the latter: pairs (argument, value)
        pretrained="",  # a Hugging Face folder or a GGUF file, which has its own sizes
        num_layers=3,
        hidden_size=96,
        num_heads=4,
        num_kv_heads=2,
        head_size=24,
        mlp_size=256,
        tied_embeddings=True,
        dtype="float32",
        layers="unrolled",  # scanned: less memory and compile time, a third more work
        adapter_rank=0,  # low-rank changes are trained, the model is frozen; 0: all is
        adapter_alpha=16.0,
        adapter_targets=("qkv", "out", "gate_up", "down"),
        prompt_once=False,  # a group's prompt is read once; in learning if it packs
        chunk_size=0,  # columns whose logits exist at one time; 0: all
    )

    c.warm_start = create(
        num_steps=placeholder(int),  # none: 500; with model.pretrained or init_from 0
        episodes_per_step=64,
        learning_rate=3e-3,
        steps_per_dispatch=25,
    )

    c.rollout = create(
        num_blocks=1,  # of lanes, which devices share
        num_lanes=16,  # groups in flight, in all blocks together
        decode_slots=8,  # of them, how many write a stage per tick
        group_size=8,  # members on one problem, compared with each other
        num_rows=0,  # snapshot rows; 0: as many as the latencies can need
        stage_deadline=64,  # ticks until a missing reward counts as absent
        verdict_deadline=128,
        temperature=1.0,
        clock="simulated",  # real: what runs takes the seconds that it takes
        real_clock=create(
            **real_clock.fields(),
            replay="",  # journal.jsonl of a run that is played again, bit for bit
        ),
    )

    c.algorithm = create(
        credit="calibrated",  # one of ops.credit.RULES; its options below
        divisor=comparison.divisor,  # own (as publicly reported), stage, running, none
        baseline=comparison.baseline,  # mean, leave_one_out
        use_ranks=comparison.use_ranks,
        clip=credit.CLIP.high,  # GRPO's epsilon; the next four follow it
        clip_low=placeholder(float),  # at most 1: ratios are not below 0
        clip_high=placeholder(float),
        correction_clip_low=placeholder(float),  # of agentic, calibrated, turn_mix
        correction_clip_high=placeholder(float),
        signal="reward",  # of immediate, agentic, calibrated; or critic
        pilot_groups=0,  # played by the base policy before the first step
        decay=credit.DECAY,  # of running moments, per settled group
        objective="clip",  # clip, dual_clip, cispo, gspo, reinforce
        dual_clip_ratio=3.0,  # of dual_clip
        gspo_per_stage=True,  # of gspo; False: per episode
        aggregation="constant",  # or token_mean, sequence_mean_token_mean, ..._sum
        anchor="behaviour",  # behaviour, post_immediate, proximal
        importance_treatment="none",  # none, truncate, mask; of the other two anchors
        importance_granularity="token",  # token, stage, episode
        importance_length_normalised=False,  # of stage and episode
        importance_low=0.5,  # of mask
        importance_high=2.0,  # of truncate and mask
        exclude_zero_variance=False,  # groups that nothing tells apart count in no mean
        max_age=64,  # learner steps after which a stage is too old to be trained on
        # fill, skill_fill: what stopped members count as: carry_forward, zero, reached
        immediate=create(**fills, **_defaults(credit.immediate, "skill_weight")),
        agentic=create(
            **fills,
            **_defaults(
                credit.agentic,
                "immediate_weight",  # 0.3 is safer where rewards mislead
                "correction_weight",
                "skill_weight",
                "skill_as_estimate",
            ),
        ),
        calibrated=create(
            **fills,
            prior_beta=prior.beta,
            prior_groups=prior.groups,
            fixed_beta=-1.0,  # in [0, 1]: beta is this and never learnt; -1: learnt
            by_level=False,  # a beta for every level of difficulty
        ),
        returns=create(**_defaults(credit.returns, "discount", "skill_weight", "fill")),
        turn_mix=create(
            **fills,
            **_defaults(
                credit.turn_mix,
                "outcome_weight",  # lambda of MT-GRPO: of the verdict's part
            ),
        ),
        state_groups=create(
            **_defaults(credit.state_groups, "state_weight", "discount")
        ),
    )

    c.critic = create(  # forecasts verdicts; with algorithm.signal=critic
        kind="none",  # none, decoder (a network of its own), head (on the policy's)
        hidden_size=64,  # this and the next three: of decoder
        num_layers=1,
        num_heads=4,
        sees="all",  # all, actions, feedback
        capacity=512,  # settled episodes that it learns from, in all blocks together
        batch_size=128,  # of them per step
        steps=2,  # per tick
        learning_rate=2e-3,
    )

    c.learner = create(
        learning_rate=0.0,  # 0: 0.064 / (hidden_size num_layers) of the model
        schedule="constant",  # constant, linear, cosine; counted in ticks
        warmup_ticks=5,  # over which the rate rises
        b1=0.9,  # of Adam
        b2=0.98,
        weight_decay=0.0,  # decoupled, as in AdamW
        max_grad_norm=1.0,  # the gradient is cut at this global norm
        entropy_weight=0.0,
        kl_weight=0.0,
        kl_form="loss",  # loss, reward
        kl_estimator="k2",  # k1, k2, k3; as a loss k2 is unbiased, as a reward k1
        num_microbatches=1,  # parts of a step; 0: as few as the next field allows
        activation_gigabytes=4.0,  # what a part may keep for its backward pass
        packed_rows=0,  # 8: short episodes side by side, a CPU core is 1.8 x as fast
        passes=1,  # optimizer steps per tick over the same rows
        update_slots=0,  # rows served per tick and block; 0: as many as can arrive
        trained_tokens_per_tick=0.0,  # per block; 0: a tick's action columns
        max_skipped=10,  # non-finite steps in a row that end the run
    )

    c.evaluation = create(
        every=20,  # ticks; 0: at the end only
        split="validation",
        num_problems=512,
        samples_per_problem=1,
        temperature=placeholder(float),  # none: as in training; 0: greedy
        pass_at=(),
        batch_size=256,
        seed=1000,  # of its problems and samples, the same for every run
        test_problems=1024,  # of the test split, before and after training
    )
    c.checkpoint = create(
        every=50,  # ticks; 0: at the end only
        keep=2,  # the newest
        keep_best=True,  # and the best by eval/solve_rate, of those evaluated
    )
    c.devices = create(  # may differ when a run goes on
        parallelism="jit",  # jit: one program, split by shardings; pmap: a copy each
        data=1,  # devices that hold different blocks; 0: all that share them evenly
        fsdp=1,  # devices that share one copy of the weights
    )
    c.profile = False  # trace two dispatches; a page of where their time went
    c.logging = create(
        tensorboard=False,  # event files beside metrics.jsonl
    )
    return c
