"""Runs of a suite in contests: what is compared with what, and when a claim holds."""

import json

import pytest

from experiments.contests import study

CLAIM = study.RankClaim(text="a above b", candidate="a", reference="b", adapted=True)


def played(root, arm, seed, rank, *, adapted=True, **settings):
    folder = root / "runs" / "contest" / arm / f"seed={seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text("{}")
    record = {"mean_rank": rank, "mean_points": 10.0, "first_places": 0.5}
    tree = {"settings": dict.fromkeys(study.SAME, 1) | settings, "records": [record]}
    (folder / study.FILES[adapted]).write_text(json.dumps(tree))


def test_a_claim_holds_where_the_interval_lies_below_0(tmp_path):
    for seed, (ours, theirs) in enumerate([(10, 15), (11, 17), (9, 13)]):
        played(tmp_path, "a", seed, ours)
        played(tmp_path, "b", seed, theirs)
    ranked = study.read(tmp_path)
    holds, difference = study.check(CLAIM, ranked)
    assert holds and difference.value == pytest.approx(-5.0)
    # the t interval of -5, -6, -4: 5 +- 4.303 * 1 / sqrt(3)
    assert difference.high == pytest.approx(-5 + 4.303 / 3**0.5, abs=1e-3)
    text = study.report(ranked, [CLAIM])
    assert "holds: difference of mean ranks -5.00" in text and "learns" in text


def test_a_claim_fails_where_it_does_not_and_is_open_without_pairs(tmp_path):
    played(tmp_path, "a", 0, 10)
    played(tmp_path, "b", 0, 15)
    assert study.check(CLAIM, study.read(tmp_path)) == (None, None)
    played(tmp_path, "a", 1, 20)
    played(tmp_path, "b", 1, 15, adapted=False)  # not what the claim is about
    assert study.check(CLAIM, study.read(tmp_path)) == (None, None)
    played(tmp_path, "b", 1, 15)
    holds, _ = study.check(CLAIM, study.read(tmp_path))  # -5 and +5
    assert holds is False


def test_other_contests_are_not_compared(tmp_path):
    played(tmp_path, "a", 0, 10)
    played(tmp_path, "b", 0, 15, ticks=2)
    with pytest.raises(ValueError, match=r"contests=.* must be those of"):
        study.read(tmp_path)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"suite=.* must be the folder of a suite"):
        list(study.runs(tmp_path))
