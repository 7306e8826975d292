"""Axes that move together, points at random, and the table of what was found."""

import csv
import math

import fake_runs
import pytest

from experiments.config import fields
from experiments.configs import smoke
from experiments.sweeps import grid, planning, results_table

LANES = "rollout.num_lanes+rollout.decode_slots"
RATE = "learner.learning_rate"


def test_fields_that_move_together_are_one_axis():
    axes = grid.parse([f"{LANES}=16:8,32:16", "seed=1,2"])
    points = grid.product(axes)
    assert len(points) == 4
    assert points[-1] == {
        "rollout.num_lanes": 32,
        "rollout.decode_slots": 16,
        "seed": 2,
    }
    assert grid.names(points)[0] == "num_lanes=16__decode_slots=8__seed=1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([f"{LANES}=16:8,32"], r"'32' must be 2 values with : between them"),
        ([f"{LANES}=16:8", "rollout.num_lanes=16"], "given once"),
        (["algorithm.credit=log(1,2)"], "of a number's field"),
        ([f"{RATE}=log(0,1)"], "above 0 on a logarithmic scale"),
        ([f"{RATE}=uniform(2,1)"], "the smaller one first"),
        ([f"{RATE}=log(a,1)"], r"learning_rate='a' must be a number"),
        ([f"{LANES}=log(1,2)"], "no field of the config"),
    ],
)
def test_what_is_no_axis_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        grid.parse(arguments)


def test_a_range_needs_a_random_search():
    with pytest.raises(ValueError, match=r"or the sweep a random one: --random=20"):
        grid.product(grid.parse([f"{RATE}=log(1e-5,1e-3)"]))


def test_random_points_lie_in_their_ranges_and_differ():
    axes = grid.parse(
        [
            f"{RATE}=log(1e-5,1e-3)",
            "rollout.group_size=uniform(2,4)",
            f"{LANES}=4:2,8:4",
        ]
    )
    points = grid.draw(axes, 60, seed=0)
    assert len({tuple(point.items()) for point in points}) == 60
    rates = [point[RATE] for point in points]
    assert all(1e-5 <= rate <= 1e-3 for rate in rates)
    # half of them below the geometric mean: of uniform ones a tenth would be
    assert 20 <= sum(rate < 1e-4 for rate in rates) <= 40
    assert {point["rollout.group_size"] for point in points} == {2, 3, 4}
    lanes = {(p["rollout.num_lanes"], p["rollout.decode_slots"]) for p in points}
    assert lanes == {(4, 2), (8, 4)}
    assert grid.draw(axes, 10, seed=0) == points[:10]
    assert grid.draw(axes, 10, seed=1) != points[:10]
    for point in points[:5]:
        fields.change(smoke.get_config(), point)


def test_more_points_than_there_are_is_refused():
    axes = grid.parse(["rollout.group_size=uniform(2,4)"])
    with pytest.raises(ValueError, match="--random=4 must be at most 3"):
        grid.draw(axes, 4, seed=0)


def test_the_table_has_the_best_first_and_says_what_is_missing(tmp_path):
    rates = (1e-4, 3e-4, 1e-3)
    points = planning.make_points([{RATE: rate} for rate in rates], [0, 1])
    for point, solved in zip(points[:2], ((0.25, 0.75), (0.5, 0.75)), strict=True):
        for seed, rate in enumerate(solved):
            own = fields.change(smoke.get_config(), {**point.overrides, "seed": seed})
            home = tmp_path / point.name / f"seed={seed}"
            fake_runs.write(home, [0.1, rate], config=own)
    found = results_table.rows(tmp_path, points)
    assert [row[RATE] for row in found] == [3e-4, 1e-4, 1e-3]
    best, second, missing = found
    assert best["solve_rate"] == 0.625 and best["seeds"] == 2
    # 0.25 and 0.75 are 1/4 from their mean: 2 (1/4)^2 over n - 1 = 1
    assert math.isclose(second["deviation"], math.sqrt(1 / 8))
    assert missing["seeds"] == 0 and math.isnan(missing["solve_rate"])
    path = results_table.write(tmp_path, found)
    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [float(row["solve_rate"]) for row in read[:2]] == [0.625, 0.5]
    first, *lines = results_table.render(found).splitlines()
    assert first.split()[:3] == ["learning_rate", "seeds", "solve_rate"]
    assert lines[0].split()[:3] == ["0.0003", "2", "0.625"]
    assert "-" in lines[2].split()
