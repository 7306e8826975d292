"""Seeds in one program are the runs that they would have been, whatever happens."""

import json
import shutil

import pytest

from agentic_grpo.training import loop, metrics, run_folder
from agentic_grpo.training.checkpoints import Checkpoints
from experiments import train as train_module
from experiments.config import fields
from experiments.configs import smoke
from experiments.runs import vmapped_seeds

SEEDS = (3, 4)


def config(**changes):
    return fields.change(smoke.get_config(), changes)


def configs(**changes):
    return [config(seed=seed, **changes) for seed in SEEDS]


def folders(parent):
    return [parent / f"seed={seed}" for seed in SEEDS]


def lines_of(folder):
    """Lines without their times, which are no one's but the machine's."""
    return [
        {name: value for name, value in line.items() if not name.startswith("time/")}
        for line in metrics.read(folder)
    ]


def steps(folder):
    with Checkpoints(folder / run_folder.CHECKPOINTS) as checkpoints:
        return checkpoints.steps()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("base_models")


@pytest.fixture(scope="module")
def together(tmp_path_factory, cache):
    parent = tmp_path_factory.mktemp("together")
    summaries = vmapped_seeds.run(folders(parent), configs(), warm_start_cache=cache)
    return parent, summaries


@pytest.fixture
def copy(together, tmp_path):
    """Both seeds one save before their end: ticks 4 and 8 are saved."""
    parent = shutil.copytree(together[0], tmp_path / "copy")
    for folder in folders(parent):
        (folder / "summary.json").unlink()
    return parent


def assert_close(ours, theirs):
    assert [line["tick"] for line in ours] == [line["tick"] for line in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, abs=2e-4, rel=2e-3, nan_ok=True)


@pytest.mark.slow
def test_each_seed_leaves_what_a_run_of_its_own_would_have(together, cache, tmp_path):
    parent, summaries = together
    assert [summary["seed"] for summary in summaries] == list(SEEDS)
    expected = train_module.run(configs()[1], tmp_path, warm_start_cache=cache)
    for name in ("solve_rate_before", "solve_rate_after", "ticks", "before", "after"):
        assert summaries[1][name] == pytest.approx(expected[name], abs=1e-5), name
    assert_close(lines_of(folders(parent)[1]), lines_of(tmp_path))
    ours, alone = metrics.read(folders(parent)[1]), metrics.read(tmp_path)
    assert [set(line) for line in ours] == [set(line) for line in alone]


@pytest.mark.slow
def test_finished_means_finished_and_more_ticks_go_on(together, copy):
    parent, summaries = together
    before = [(f / "metrics.jsonl").read_bytes() for f in folders(parent)]
    assert vmapped_seeds.run(folders(parent), configs()) == summaries
    assert [(f / "metrics.jsonl").read_bytes() for f in folders(parent)] == before
    longer = vmapped_seeds.run(folders(copy), configs(num_ticks=10))
    assert [summary["ticks"] for summary in longer] == [10, 10]
    for folder in folders(copy):
        assert [line["tick"] for line in metrics.read(folder)] == [0, 2, 4, 6, 8, 10]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["not yet saved", "damaged"])
def test_a_seed_that_is_behind_goes_on_and_the_others_lose_nothing(
    together, copy, damage
):
    # Killed between two saves: one seed has tick 8, the other stands at tick 4.
    behind, ahead = folders(copy)
    newest = behind / run_folder.CHECKPOINTS / "8"
    if damage == "damaged":
        (newest / "record" / "metadata").write_text("{")
    else:
        shutil.rmtree(newest)
    summaries = vmapped_seeds.run(folders(copy), configs())
    assert [summary["ticks"] for summary in summaries] == [8, 8]
    assert [s["after"] for s in summaries] == [
        pytest.approx(s["after"], abs=1e-5) for s in together[1]
    ]
    for folder, wanted in zip(folders(copy), folders(together[0]), strict=True):
        assert_close(lines_of(folder), lines_of(wanted))
    assert steps(behind)[-1] == steps(ahead)[-1] == 8


@pytest.mark.slow
def test_a_seed_without_an_intact_checkpoint_does_not_end_the_others(copy):
    bad, good = folders(copy)
    for path in (bad / run_folder.CHECKPOINTS).glob("*/record/metadata"):
        path.write_text("{")
    with pytest.raises(
        vmapped_seeds.SeedsError, match=r"^seed 3: .*every checkpoint here is damaged"
    ):
        vmapped_seeds.run(folders(copy), configs())
    assert json.loads((good / "summary.json").read_text())["ticks"] == 8
    assert not (bad / "summary.json").exists()


@pytest.mark.slow
def test_a_seed_that_diverged_is_told_when_the_others_are_finished(copy, monkeypatch):
    train = loop.train

    def one_diverges(*arguments):
        outcome = train(*arguments)
        return outcome._replace(diverged={0: loop.NonFiniteError("seed 3: 10 steps")})

    monkeypatch.setattr(loop, "train", one_diverges)
    with pytest.raises(vmapped_seeds.SeedsError, match=r"^seed 3: 10 steps$"):
        vmapped_seeds.run(folders(copy), configs())
    bad, good = folders(copy)
    assert json.loads((good / "summary.json").read_text())["seed"] == 4
    assert not (bad / "summary.json").exists()


def test_seeds_in_one_program_must_differ_in_their_seed_alone(tmp_path):
    other = config(seed=1, **{"learner.learning_rate": 1.0})
    with pytest.raises(ValueError, match="but for the seed"):
        vmapped_seeds.run([tmp_path / "a", tmp_path / "b"], [config(), other])
    with pytest.raises(ValueError, match="different in every folder"):
        vmapped_seeds.run([tmp_path / "a", tmp_path / "b"], [config(), config()])
    assert not list(tmp_path.iterdir())
