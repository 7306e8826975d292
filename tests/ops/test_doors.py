"""What is not of its shape or type is refused by name where it comes in."""

import dataclasses
import inspect
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentic_grpo import ops, records
from agentic_grpo.errors import Refused
from agentic_grpo.ops import calibration, doors

B, T = 3, 5
ROWS, COLUMN = jnp.zeros((B, T)), jnp.zeros((B, 1))
MASK, EVERYONE = jnp.ones((B, T), bool), jnp.ones(B, bool)
GROUPS, MEMBERS = jnp.zeros((2, 4)), jnp.ones((2, 4), bool)
CREDIT = ops.token_credit(ROWS, MASK, clip_low=0.2, clip_high=0.2)

#: Each of these made [B, B] of [B, 1] and [B].
TWO_SHAPES = {
    "masked": lambda a, m: ops.masked(a, m),
    "masked_sum": lambda a, m: ops.masked_sum(a, m),
    "masked_mean": lambda a, m: ops.masked_mean(a, m),
    "token_mean": lambda a, m: ops.token_mean(a, m),
    "constant_divisor": lambda a, m: ops.constant_divisor(1.0)(a, m),
    "sequence_mean_token_mean": lambda a, m: ops.sequence_mean_token_mean(a, m),
    "sequence_mean_token_sum": lambda a, m: ops.sequence_mean_token_sum(a, m),
    "log_ratios": lambda a, m: ops.log_ratios(a, jnp.zeros(B), m),
    "token_ratios": lambda a, m: ops.token_ratios(a, jnp.zeros(B), m),
    "product_ratios": lambda a, m: ops.product_ratios(a, jnp.zeros(B), m),
    "importance_weights": lambda a, m: ops.importance_weights(a, jnp.zeros(B), m),
    "kl_loss": lambda a, m: ops.kl_loss(a, jnp.zeros(B), m, estimator="k3"),
    "kl_reward": lambda a, m: ops.kl_reward(a, jnp.zeros(B), m),
    "effective_sample_share": lambda a, m: ops.effective_sample_share(a, m),
    "chi_square": lambda a, m: ops.chi_square(a, m),
    "scale_by_batch": lambda a, m: ops.scale_by_batch(a, m),
    "token_credit": lambda a, m: ops.token_credit(a, m, clip_low=0.2, clip_high=0.2),
}

#: Functions of ONE group or ONE episode, given several.
SMALLEST_UNIT = {
    "group_advantages": ops.group_advantages,
    "group_baseline": ops.group_baseline,
    "group_deviation": ops.group_deviation,
    "centred_ranks": ops.centred_ranks,
    "has_zero_variance": ops.has_zero_variance,
    "stage_returns": lambda r, m: ops.stage_returns(r, m, 0.9),
    "stage_increments": ops.stage_increments,
    "fill_stopped": lambda r, m: ops.fill_stopped(
        *(jnp.stack([x, x]) for x in (r, m, m)), fill="zero", rewarded=np.ones(4, bool)
    ),
}

OF_MASKS = {
    "masked": ops.masked,
    "token_mean": ops.token_mean,
    "log_ratios": lambda a, m: ops.log_ratios(a, a, m),
    "ppo_clip_loss": lambda a, m: ops.ppo_clip_loss(
        a, a, dataclasses.replace(CREDIT, mask=m)
    ),
    "group_advantages": lambda a, m: ops.group_advantages(a[0], m[0]),
    "effective_sample_share": ops.effective_sample_share,
    "scale_by_batch": ops.scale_by_batch,
    "kl_reward": lambda a, m: ops.kl_reward(a, a, m),
}


@pytest.mark.parametrize("name", TWO_SHAPES)
def test_a_column_beside_a_row_is_no_matrix(name):
    with pytest.raises(Refused, match=r"must be (of as many axes|float|bool)"):
        TWO_SHAPES[name](COLUMN, EVERYONE)


@pytest.mark.parametrize("name", OF_MASKS)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_mask_of_ones_and_zeros_is_no_mask(name, dtype):
    """~1 is -2 and jnp.where(0.5, ...) is True: other answers, in silence."""
    with pytest.raises(Refused, match="must be bool"):
        OF_MASKS[name](ROWS, MASK.astype(dtype))
    OF_MASKS[name](ROWS, MASK)


@pytest.mark.parametrize("name", SMALLEST_UNIT)
def test_a_forgotten_vmap_is_refused(name):
    """The commonest mistake: [U, G] gave a baseline over the whole batch."""
    with pytest.raises(Refused, match=r"of one (group|episode): vmap over"):
        SMALLEST_UNIT[name](GROUPS, MEMBERS)
    if name != "fill_stopped":
        assert jax.tree.leaves(jax.vmap(SMALLEST_UNIT[name])(GROUPS, MEMBERS))


def test_the_refusal_names_argument_type_and_shape():
    with pytest.raises(Refused) as caught:
        ops.group_advantages(GROUPS, MEMBERS)
    assert str(caught.value) == (
        "rewards=float32 [2, 4] must be float [G], of one group: vmap over groups"
    )
    with pytest.raises(Refused) as caught:
        ops.group_advantages(GROUPS[0], MEMBERS[0, :3])
    assert str(caught.value) == "mask=bool [3] must be bool [G] with G = 4"
    with pytest.raises(Refused, match=r"rewards=\[0.0, 1.0\] must be an array, float"):
        ops.group_advantages([0.0, 1.0], jnp.ones(2, bool))


def test_records_are_asked_for_their_fields(make_events):
    events = make_events()
    calibrate = ops.credit.calibrated(["estimate"] * 4)
    state = calibrate.init()
    for changes, message in (
        ({"ready": events.ready[:, :-1]}, r"events.ready=bool \[3, 4\] must be bool"),
        ({"verdict": events.verdict[..., None]}, r"events.verdict=float32 \[3, 4, 1\]"),
        ({"acted": events.acted.astype(int)}, r"events.acted=int32 .* must be bool"),
        ({"level": jnp.zeros(())}, r"events.level=float32 \[\] must be int \[U\]"),
    ):
        wrong = dataclasses.replace(events, **changes)
        for serve in (calibrate.apply, calibrate.update):
            with pytest.raises(Refused, match=message):
                serve(state, wrong)
    alone = jax.tree.map(lambda x: x[0], events)
    with pytest.raises(Refused, match=r"events\.acted"):
        calibrate.apply(state, alone)
    with pytest.raises(Refused, match=r"events\.acted"):
        calibration.group_moments(events)
    with pytest.raises(Refused, match="a StageEvents"):
        calibrate.apply(state, {"reward": events.reward})
    with pytest.raises(Refused, match=r"credit.mask=.* must be bool \[2, ..., T\]"):
        wrong = jax.tree.map(lambda x: jnp.stack([x, x]), CREDIT)
        wrong = dataclasses.replace(wrong, mask=wrong.mask[:, :2])
        ops.two_phase_losses(ROWS, ROWS, wrong, objective=ops.ppo_clip_loss)


@pytest.mark.parametrize(
    "cls", [records.StageEvents, records.StageCredit, records.TokenCredit]
)
def test_records_say_in_their_docstring_what_is_asked_of_them(cls):
    told = re.findall(r"^  +(\w+): ((?:bool|int|float) \[.*?\])", cls.__doc__, re.M)
    assert dict(told) == records.specs_of(cls)
    assert set(dict(told)) == {field.name for field in dataclasses.fields(cls)}


def test_every_public_function_is_annotated_and_has_a_door():
    """Arrays come in as ``Array``, and a function that takes one asserts it."""
    for name in ops.__all__:
        function = getattr(ops, name)
        if not inspect.isfunction(function):
            continue
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, name
        takes_arrays = any(
            "Array" in str(p.annotation) or p.annotation is records.TokenCredit
            for p in signature.parameters.values()
        )
        inside = name in ("masked", "masked_sum", "masked_mean")  # by check_mask
        assert hasattr(function, "__wrapped__") or inside or not takes_arrays, name


def test_sizes_with_a_number_and_numbers_themselves():
    specs = {"of_stages": "any [S]", "of_events": "bool [S + 1]", "pair": "int [2]"}
    three, four = jnp.zeros(3), jnp.ones(4, bool)
    doors.check(specs, {"of_stages": three, "of_events": four, "pair": jnp.arange(2)})
    with pytest.raises(Refused, match=r"of_events=bool \[4\] must be bool \[S \+ 1\]"):
        doors.check(specs, {"of_stages": jnp.zeros(4), "of_events": four})
    with pytest.raises(Refused, match="pair="):
        doors.check(specs, {"pair": jnp.arange(3)})
    doors.check({"discount": "float []"}, {"discount": 1})
    for wrong in (True, 1j, jnp.ones(1)):
        with pytest.raises(Refused, match="discount="):
            doors.check({"discount": "float []"}, {"discount": wrong})


def test_doors_can_be_opened():
    """``chex.disable_asserts`` is for who has measured that it matters."""
    chex.disable_asserts()
    try:
        ops.group_baseline(GROUPS, MEMBERS)
    finally:
        chex.enable_asserts()
