"""The picture's numbers: means, bands, ticks; and what it says when there are none."""

import importlib.util
import pathlib

import numpy as np
import pytest

from agentic_grpo.training import metrics

pytest.importorskip("matplotlib", reason="an extra: plots")


@pytest.fixture(scope="module")
def plot_runs():
    path = pathlib.Path(__file__).parents[1] / "scripts" / "plot_runs.py"
    spec = importlib.util.spec_from_file_location("plot_runs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_run(folder, values, *, every=10):
    with metrics.MetricsWriter(folder) as writer:
        for index, value in enumerate(values, start=1):
            writer.write(
                index * every,
                {
                    "verdict": value,
                    "stage_reward/code": value / 2,
                    "eval/solve_rate": value,
                    "eval/solve_rate/loops": value,
                    "eval/greedy_solve_rate": value,
                },
            )
    return folder


def test_three_seeds_have_the_t_interval_of_the_mean(plot_runs):
    mean, low, high = plot_runs.mean_and_band(np.array([[0.2], [0.4], [0.6]]))
    # s = 0.2, t(0.975, 2) = 4.3027, half width 4.3027 * 0.2 / sqrt(3) = 0.49683;
    # the normal quantile would give 0.2263
    np.testing.assert_allclose(
        [mean[0], low[0], high[0]], [0.4, -0.09683, 0.89683], atol=1e-4
    )


def test_two_seeds_have_their_range_and_one_has_no_band(plot_runs):
    mean, low, high = plot_runs.mean_and_band(np.array([[0.2], [0.6]]))
    np.testing.assert_allclose([mean[0], low[0], high[0]], [0.4, 0.2, 0.6])
    mean, low, high = plot_runs.mean_and_band(np.array([[0.2]]))
    assert mean == low == high == 0.2


def test_a_running_mean_does_not_sink_at_the_ends(plot_runs):
    np.testing.assert_allclose(plot_runs.running_mean(np.ones(5), 3), np.ones(5))
    np.testing.assert_allclose(
        plot_runs.running_mean(np.array([0.0, 3.0, 6.0]), 3), [1.5, 3.0, 4.5]
    )


def test_seeds_are_compared_on_the_ticks_they_share(plot_runs, tmp_path, capsys):
    long = write_run(tmp_path / "long", [0.0, 0.5, 1.0])
    short = write_run(tmp_path / "short", [0.2, 0.7])
    arm = plot_runs.read_arm(f"both={long},{short}")
    curve = plot_runs.curve(arm, "eval/solve_rate")
    assert arm.label == "both" and "[20, 30]" in capsys.readouterr().out
    np.testing.assert_array_equal(curve.ticks, [10, 20])
    np.testing.assert_allclose(curve.mean, [0.1, 0.6])
    assert plot_runs.curve(arm, "no such metric") is None


def test_a_folder_may_have_an_equals_sign_in_its_name(plot_runs, tmp_path):
    folder = write_run(tmp_path / "lr=3e-4", [0.5])
    assert plot_runs.read_arm(str(folder)).label == "lr=3e-4"
    assert plot_runs.read_arm(f"arm={folder}").label == "arm"


def test_labels_are_moved_apart_and_stay_within(plot_runs):
    moved = plot_runs.move_apart([0.5, 0.5, 0.99, 1.0], gap=0.1, top=1.0)
    np.testing.assert_allclose(moved, [0.5, 0.6, 0.9, 1.0])


@pytest.mark.parametrize("arms", [1, 2])
def test_a_picture_is_drawn(plot_runs, tmp_path, arms):
    runs = [write_run(tmp_path / f"run{i}", [0.1, 0.5, 0.9]) for i in range(3)]
    arguments = [f"a={runs[0]},{runs[1]},{runs[2]}", f"b={runs[0]}"][:arms]
    output = tmp_path / "pictures" / "curve.png"
    plot_runs.main([*arguments, f"--output={output}"])
    assert output.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said_by_name(plot_runs, tmp_path):
    with pytest.raises(SystemExit, match=r"nowhere: no metrics here"):
        plot_runs.main([str(tmp_path / "nowhere")])
    with metrics.MetricsWriter(tmp_path / "young") as writer:
        writer.write(1, {"verdict": 0.5})
    with pytest.raises(SystemExit, match="no evaluation in these runs yet"):
        plot_runs.main([str(tmp_path / "young")])
