"""What became slower: by value on one processor, by ratio on another."""

import json

import pytest

from scripts import benchmark
from scripts.benchmarks import measuring, regression


def report(*rows, processor="one"):
    return {"machine": {"processor": processor}, "versions": {}, "results": list(rows)}


def rate(value, *, name="decoding", spread=0.05, **options):
    return measuring.result("s", name, value, "tokens/s", spread=spread, **options)


def test_a_rate_is_slower_when_it_falls_by_more_than_both_spreads():
    before = report(rate(100.0))
    # 0.05 + 0.05: slower below 100 / 1.1 = 90.9.
    for value, slower in ((91.0, False), (90.0, True), (150.0, False)):
        (change,) = regression.compare(report(rate(value)), before)
        assert change.is_slower is slower
        assert change.better == pytest.approx(value / 100)


@pytest.mark.parametrize("unit", ["ms", "s", "MiB"])
def test_of_times_and_memory_more_is_worse(unit):
    def row(value):
        return measuring.result("s", "step", value, unit)

    # Measured once each: 5% and 5%.
    (change,) = regression.compare(report(row(12.0)), report(row(10.0)))
    assert change.is_slower and change.better == pytest.approx(10 / 12)
    (change,) = regression.compare(report(row(8.0)), report(row(10.0)))
    assert not change.is_slower and change.better == pytest.approx(10 / 8)


def test_another_processor_is_compared_by_what_was_measured_in_one_run():
    def row(value, reference):
        return rate(value, reference="plain", reference_value=reference)

    # Half the rate, on a machine of half the speed.
    slow = report(row(50.0, 25.0), rate(50.0, name="alone"), processor="two")
    fast = report(row(100.0, 50.0), rate(100.0, name="alone"))
    (change,) = regression.compare(slow, fast)
    assert (change.unit, change.before, change.now) == ("x", 2.0, 2.0)
    assert not change.is_slower


def test_shares_and_what_one_side_lacks_are_not_compared():
    share = measuring.result("s", "share of host", 5.0, "percent")
    new = rate(1.0, name="new")
    assert regression.compare(report(share, new), report(share)) == []
    assert "Nothing of 0" in regression.page([])


def test_the_page_has_the_worst_first():
    names = {"a": 80.0, "b": 40.0, "c": 100.0}
    now = report(*(rate(value, name=name) for name, value in names.items()))
    before = report(*(rate(100.0, name=name) for name in names))
    page = regression.page(regression.compare(now, before))
    assert page.index("s: b") < page.index("s: a") and "s: c" not in page
    assert "0.40" in page and "of 3" in page


def test_a_folder_of_reports_is_read_as_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(report(rate(1.0, name=name))))
    assert len(regression.read(tmp_path)["results"]) == 2
    other = report(rate(1.0), processor="two")
    (tmp_path / "c.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match="must be of one processor"):
        regression.read(tmp_path)


@pytest.mark.parametrize("content", [None, "", "[]", '{"machine": {}}'])
def test_what_is_no_report_is_refused_before_anything_is_measured(tmp_path, content):
    path = tmp_path / "old.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit, match=r"old\.json is no report"):
        benchmark.main(["--suite=ops", f"--against={path}", "--json=unused.json"])
    with pytest.raises(SystemExit, match="must be a report or a folder"):
        (tmp_path / "empty").mkdir()
        benchmark.main([f"--against={tmp_path / 'empty'}", "--json=unused.json"])
