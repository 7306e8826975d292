"""Sweeps: points and their names, who runs when, and what a person is told."""

import dataclasses
import io
import json
import os
import pathlib
import signal
import subprocess
import sys

import fake_runs
import pytest
import rich.console

from agentic_grpo.training import metrics
from experiments.config import fields
from experiments.configs import smoke
from experiments.runs import process_groups
from experiments.sweeps import (
    grid,
    launch,
    live_table,
    planning,
    scheduler,
)
from experiments.sweeps.scheduler import Job, Run, State

REPOSITORY = pathlib.Path(__file__).parents[3]
SMOKE = "--config=experiments/configs/smoke.py"


def config(**changes):
    return fields.change(smoke.get_config(), changes)


# Points -----------------------------------------------------------------------------


def test_values_have_the_type_of_their_field():
    axes = grid.parse(
        [
            "learner.learning_rate=1e-4,3",
            "rollout.group_size=4,8",
            "algorithm.use_ranks=true,False",
            "algorithm.credit=agentic,outcome",
            'env.code_execution.families=("cubes","power"),("toggle",)',
            "env.code_execution.verdict_latency.maximum=30,none",
        ]
    )
    assert list(axes.values()) == [
        [1e-4, 3.0],
        [4, 8],
        [True, False],
        ["agentic", "outcome"],
        [("cubes", "power"), ("toggle",)],
        [30, None],
    ]
    assert isinstance(axes["learner.learning_rate"][1], float)
    for point in grid.product({k: v for k, v in axes.items() if "env" not in k}):
        fields.change(smoke.get_config(), point)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("learner.learning_rat=1", "did you mean 'learner.learning_rate'"),
        ("learner=1", "'learner' is a group of fields"),
        ("learner.learning_rate=fast", r"learning_rate='fast' must be a number"),
        ("rollout.group_size=8.5", r"group_size='8.5' must be an int"),
        ("algorithm.use_ranks=1", r"use_ranks='1' must be true or false"),
        ("env.code_execution.stages=code,debug", r"stages='code,debug' must be tup"),
        ("seed=", r"seed='' must be FIELD=VALUE"),
        ("seed=1,1", r"free of repetitions"),
    ],
)
def test_a_mistyped_axis_is_refused(argument, message):
    with pytest.raises(ValueError, match=message):
        grid.parse([argument])


def test_points_are_named_by_what_differs():
    points = grid.product(
        {"algorithm.credit": ["agentic"], "learner.learning_rate": [1e-4, 3e-4]}
    )
    assert grid.names(points) == ["learning_rate=0.0001", "learning_rate=0.0003"]
    assert grid.names([{"seed": 1}]) == ["all"]


def test_fields_of_one_name_are_told_apart():
    points = grid.product({"evaluation.every": [4, 8], "checkpoint.every": [4, 8]})
    assert grid.names(points)[1] == "evaluation.every=4__checkpoint.every=8"


def test_names_are_folders_and_differ_where_values_do():
    families = [("cubes", "power") * 9, ("cubes", "power") * 9 + ("toggle",), ()]
    names = grid.names([{"env.code_execution.families": f} for f in families])
    assert len(set(names)) == 3 and all(len(name) < 80 for name in names)
    assert not any(set(name) & set("/\\ ,'\"()") for name in names)


def test_two_equal_points_are_refused():
    with pytest.raises(ValueError, match="points that differ"):
        grid.names([{"seed": 1, "num_ticks": 4}, {"seed": 1, "num_ticks": 4}])


def test_points_may_name_their_seeds():
    rates = (1e-4, 3e-4)
    own = [{"learner.learning_rate": r, "seed": s} for r in rates for s in (7, 8)]
    points = planning.make_points(own, seeds=[0])
    assert [point.seeds for point in points] == [(7, 8), (7, 8)]
    with pytest.raises(ValueError, match="in all points or none"):
        planning.make_points([{"seed": 1}, {"num_ticks": 4}], seeds=[0])


@pytest.mark.parametrize(
    ("changed", "num_seeds", "first_seed", "message"),
    [
        (["learner.learning_rate"], None, None, r"--config\.learner\.learning_rate="),
        ([], 2, None, "--seeds=2 must be left out"),
        ([], None, 0, "--first_seed=0 must be left out: the points"),
        (["seed"], None, 3, r"--config\.seed"),
    ],
)
def test_two_answers_to_one_question_are_refused(
    changed, num_seeds, first_seed, message
):
    points = [{"learner.learning_rate": 1e-4, "seed": seed} for seed in (1, 2)]
    with pytest.raises(ValueError, match=message):
        planning.require_one_source(
            points, changed, num_seeds=num_seeds, first_seed=first_seed
        )


def test_seeds_come_from_one_flag():
    points = [{"learner.learning_rate": 1e-4}]
    planning.require_one_source(points, ["seed"], num_seeds=5, first_seed=None)
    planning.require_one_source(points, [], num_seeds=5, first_seed=3)
    with pytest.raises(ValueError, match=r"--config\.seed is the first seed"):
        planning.require_one_source(points, ["seed"], num_seeds=None, first_seed=3)


# Jobs -------------------------------------------------------------------------------


def jobs_of(folder, rates=(1e-4, 3e-4), seeds=(0, 1), **options):
    points = planning.make_points([{"learner.learning_rate": r} for r in rates], seeds)
    return planning.make_jobs(smoke.get_config(), points, folder, **options)


def test_every_seed_comes_once_before_any_point_has_two(tmp_path):
    names = [job.name for job in jobs_of(tmp_path, seeds=(0,))]
    assert names == ["learning_rate=0.0001/seed=0", "learning_rate=0.0003/seed=0"]
    names = [job.name.partition("/")[2] for job in jobs_of(tmp_path)]
    # First whoever needs a new base model: seed 0 and seed 1; then the rest.
    assert names == ["seed=0", "seed=1", "seed=0", "seed=1"]


def test_a_point_that_cannot_be_built_is_named_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match=r"point 'learning_rate=-1.0': learner\.learn"):
        jobs_of(tmp_path, rates=(1e-4, -1.0))
    assert not list(tmp_path.iterdir())


def test_seeds_together_are_one_job_per_point(tmp_path):
    jobs = jobs_of(tmp_path, seeds_together=True)
    assert [len(job.runs) for job in jobs] == [2, 2]
    assert [run.config.seed for run in jobs[0].runs] == [0, 1]


def test_the_plan_counts_what_is_not_finished(tmp_path):
    jobs = jobs_of(tmp_path)
    assert planning.plan(jobs, 2).startswith("4 runs x ")
    run = jobs[0].runs[0]
    fake_runs.write(run.folder, [0.1, 0.2], config=run.config)
    assert planning.plan(jobs, 2).startswith("3 runs x ")


# The runner -------------------------------------------------------------------------


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class FakeProcess:
    """Ends after some seconds with a code; a good one leaves a finished run."""

    def __init__(self, job, clock, seconds, code):
        self._job, self._clock = job, clock
        self._end, self._code = clock() + seconds, code
        self.ended = False

    def poll(self):
        if self._clock() < self._end:
            return None
        if self._code == 0:
            for run in self._job.runs:
                fake_runs.write(run.folder, [0.1, 0.9], config=run.config)
        return self._code


def end(processes):
    for process in processes:
        process.ended = True


@pytest.fixture
def jobs(tmp_path):
    names = "abcdef"
    return [
        Job(
            name=name,
            runs=(Run(folder=tmp_path / name, config=config(seed=index)),),
            seconds=10.0,
        )
        for index, name in enumerate(names)
    ]


def execute(jobs, *, parallel=2, codes=None, seconds=10.0, **options):
    """(progress, the order of starts with their slots, the clock)."""
    clock, starts = Clock(), []

    def start(job, slot):
        starts.append((job.name, slot, clock()))
        return FakeProcess(job, clock, seconds, (codes or {}).get(job.name, 0))

    progress = scheduler.run(
        jobs,
        options.pop("launch", start),
        parallel=parallel,
        end=end,
        clock=clock,
        sleep=clock.sleep,
        poll_seconds=1.0,
        **options,
    )
    return progress, starts, clock


def test_so_many_run_at_a_time_each_in_its_own_place(jobs):
    progress, starts, clock = execute(jobs, parallel=2)
    assert [start[2] for start in starts] == [0, 0, 10, 10, 20, 20]
    assert [{slot for _, slot, _ in starts[k : k + 2]} for k in (0, 2, 4)] == [
        {0, 1}
    ] * 3
    assert all(one.state is State.DONE and one.seconds == 10 for one in progress)
    assert clock.now == 30


def test_finished_runs_are_skipped(jobs):
    fake_runs.write(jobs[0].runs[0].folder, [0.1], config=jobs[0].runs[0].config)
    longer = fields.change(jobs[1].runs[0].config, {"num_ticks": 16})
    fake_runs.write(jobs[1].runs[0].folder, [0.1], config=config())  # of 8 ticks
    jobs[1] = Job(
        name="b", runs=(Run(folder=jobs[1].runs[0].folder, config=longer),), seconds=1
    )
    _, starts, _ = execute(jobs)
    assert [name for name, _, _ in starts] == ["b", "c", "d", "e", "f"]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"ticks": '])
@pytest.mark.parametrize("name", ["summary.json", "config.json"])
def test_a_damaged_file_is_named_and_stops_nobody(jobs, name, content, caplog):
    # one empty summary.json stopped the sweep, and its dry run, with "Expecting value"
    folder = jobs[1].runs[0].folder
    fake_runs.write(folder, [0.1], config=jobs[1].runs[0].config)
    (folder / name).write_text(content)
    assert not jobs[1].is_finished
    progress, starts, _ = execute(jobs)
    assert [start[0] for start in starts] == list("abcdef")
    assert all(one.state is State.DONE for one in progress)
    assert str(folder / name) in caplog.text


def test_what_another_config_has_finished_is_not_taken_for_ours(jobs):
    other = fields.change(jobs[0].runs[0].config, {"algorithm.clip_low": 0.1})
    fake_runs.write(jobs[0].runs[0].folder, [0.1], config=other)
    assert not jobs[0].is_finished
    _, starts, _ = execute(jobs)
    assert starts[0][0] == "a"  # whose train then names the difference


def test_one_crash_stops_nobody_and_is_told_with_its_traceback(jobs):
    progress, starts, _ = execute(
        jobs, codes={"b": 1}, read_error=lambda job: f"Traceback of {job.name}"
    )
    assert len(starts) == 6
    assert [p.state for p in progress if p.job.name != "b"] == [State.DONE] * 5
    assert progress[1].state is State.FAILED
    text = live_table.report(progress)
    assert "FAILED b" in text and "Traceback of b" in text
    assert "5 of 6 done, 1 failed" in text and "the same command again" in text


def test_a_job_that_cannot_start_stops_nobody(jobs):
    clock = Clock()

    def launch_(job, slot):
        if job.name == "a":
            raise ValueError("workdir holds something else")
        return FakeProcess(job, clock, 0.0, 0)

    progress, _, _ = execute(jobs, launch=launch_)
    assert progress[0].error == "workdir holds something else"
    assert [one.state for one in progress[1:]] == [State.DONE] * 5


def test_a_run_that_was_asked_to_stop_is_no_success(jobs, monkeypatch):
    monkeypatch.setattr(fake_runs, "write", lambda *args, **options: None)
    progress, _, _ = execute(jobs[:1])
    assert progress[0].state is State.STOPPED  # status 0, but no summary


def test_an_interrupt_asks_what_runs_to_save(jobs):
    processes, clock = [], Clock()

    def launch_(job, slot):
        processes.append(FakeProcess(job, clock, 100.0, 0))
        return processes[-1]

    def interrupt(progress):
        if clock.now > 3:
            raise KeyboardInterrupt
        clock.now += 1

    shown = []
    with pytest.raises(KeyboardInterrupt):
        execute(jobs, launch=launch_, show=lambda p: (shown.append(p), interrupt(p)))
    assert len(processes) == 2 and all(process.ended for process in processes)
    states = [one.state for one in shown[-1]]
    assert states == [State.STOPPED] * 2 + [State.WAITING] * 4


#: A job that does not listen to SIGTERM, and has a child of its own.
DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(child.pid, flush=True)
{rest}
"""


def start_deaf(rest):
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF.format(rest=rest)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process.stdout.readline()  # it is deaf now, and its child holds the pipe too
    return process


def test_a_job_that_does_not_listen_is_killed_with_its_children(jobs):
    # it was waited for without end, and its children lived on
    started = []

    def launch_(job, slot):
        started.append(start_deaf("time.sleep(1000)"))
        return started[-1]

    def interrupt(progress):
        if len(started) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scheduler.run(
            jobs,
            launch_,
            parallel=2,
            show=interrupt,
            end=lambda processes: process_groups.end_process_groups(
                processes, seconds=0.2
            ),
        )
    for process in started:
        assert process.returncode == -signal.SIGKILL
        assert process.stdout.read() == ""  # returns when the child has ended too
        process.stdout.close()


def test_what_a_job_leaves_behind_is_killed_when_it_ends(jobs):
    started = []

    def launch_(job, slot):
        started.append(start_deaf("raise SystemExit(3)"))
        return started[-1]

    (progress,) = scheduler.run(jobs[:1], launch_, parallel=1, poll_seconds=0.01)
    assert progress.state is State.FAILED
    assert started[0].stdout.read() == ""
    started[0].stdout.close()


def test_what_a_job_started_ends_with_it_and_the_running_are_ended_together(jobs):
    ended, clock = [], Clock()

    def sleep(seconds):
        clock.sleep(seconds)
        if clock.now > 11:
            raise KeyboardInterrupt  # Ctrl-C or SIGTERM, when two have ended

    with pytest.raises(KeyboardInterrupt):
        scheduler.run(
            jobs,
            lambda job, slot: FakeProcess(job, clock, 10.0, 0),
            parallel=2,
            end=lambda processes: ended.append(len(processes)),
            clock=clock,
            sleep=sleep,
            poll_seconds=1.0,
        )
    assert ended == [1, 1, 2]


def test_shards_share_all_the_work(jobs):
    shares = [scheduler.shard(jobs, f"{index}/4") for index in (1, 2, 3, 4)]
    assert [job.name for job in shares[0]] == ["a", "e"]
    assert sorted(job.name for share in shares for job in share) == list("abcdef")
    for wrong in ("0/4", "5/4", "2", "a/b", ""):
        with pytest.raises(ValueError, match="shard"):
            scheduler.shard(jobs, wrong)


def test_time_left_goes_by_what_has_ended(jobs):
    progress = [scheduler.Progress(job) for job in jobs]
    assert scheduler.seconds_left(progress, 2, now=0.0) == 30  # 6 x 10 s, two at a time
    progress[0].state, progress[0].seconds = State.DONE, 20.0  # twice as long
    progress[1].state, progress[1].started = State.RUNNING, 0.0
    # one running since 5 s: 15 left; four waiting at 20: (15 + 80) / 2
    assert scheduler.seconds_left(progress, 2, now=5.0) == 47.5
    assert scheduler.seconds_left(progress, 8, now=5.0) == 20  # the longest one


# Starting processes -----------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4, 7])
def test_places_have_processors_of_their_own(monkeypatch, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    shares = [launch.processors(slot, count) for slot in range(count)]
    assert sum(map(len, shares)) == len(set.union(*shares)) == 8 // count * count


def test_more_places_than_processors_share_them(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    assert [launch.processors(slot, 3) for slot in range(3)] == [{3}, {5}, {3}]


def test_the_last_traceback_of_a_log_is_the_error(jobs):
    folder = jobs[0].runs[0].folder
    assert launch.read_error(jobs[0]) == ""
    folder.mkdir()
    start = "Traceback (most recent call last):\n"
    (folder / "log.txt").write_text(f"{start}  old\nA: 1\ntick 3\n{start}  new\nB: 2\n")
    assert launch.read_error(jobs[0]) == f"{start}  new\nB: 2"
    (folder / "log.txt").write_text("tick 1\nerror: learner.b2=2\n")
    assert launch.read_error(jobs[0]).endswith("error: learner.b2=2")


def test_a_saved_config_starts_the_same_run(jobs, tmp_path):
    launcher = launch.Launcher(parallel=1, warm_start_cache=tmp_path / "cache")
    command = launcher.command(jobs[0])
    assert command[3] == "experiments.train"
    assert f"{launch.SAVED}:{jobs[0].runs[0].folder}" in command[4]
    both = Job(name="x", runs=jobs[0].runs + jobs[1].runs, seconds=1)
    command = launcher.command(both)
    assert command[3] == "experiments.train_seeds"
    assert sum(part.startswith("--workdir=") for part in command) == 2


# What is shown ----------------------------------------------------------------------


def test_a_pipe_gets_a_line_per_change(jobs):
    stream = io.StringIO()
    with live_table.Display(2, stream=stream, clock=Clock()) as display:
        execute(jobs, codes={"c": 3}, show=display)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 12  # six starts, six ends
    assert lines[0] == "[0 of 6 done, 2 running, 30 s left] a: running"
    assert lines[-1] == "[5 of 6 done, 1 failed] f: done, solve rate 0.900, 10 s"
    assert any("c: failed, 10 s, exit status 3" in line for line in lines)


def test_a_pipe_hears_nothing_of_runs_that_were_finished_before(jobs):
    fake_runs.write(jobs[0].runs[0].folder, [0.1], config=jobs[0].runs[0].config)
    stream = io.StringIO()
    with live_table.Display(2, stream=stream, clock=Clock()) as display:
        execute(jobs, show=display)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10 and not any(" a: " in line for line in lines)
    assert lines[0].startswith("[1 of 6 done, 2 running")


def test_a_terminal_gets_a_table(jobs):
    progress = [scheduler.Progress(job) for job in jobs]
    fake_runs.write(jobs[0].runs[0].folder, [0.1, 0.5])
    progress[0].state, progress[0].started = State.RUNNING, 0.0
    display = live_table.Display(2, stream=io.StringIO(), clock=Clock())
    table = display._table(progress, 12.0)
    assert table.title == "0 of 6 done, 1 running, 12 s left"
    cells = [str(next(iter(column.cells))) for column in table.columns]
    assert cells == ["a", "running", "5/8", "0.500", "0"]


def test_what_a_job_is_called_and_said_stays_text(jobs):
    wild = "[draft][/b]\x1b[2J"
    job = dataclasses.replace(jobs[0], name=wild)
    failed = scheduler.Progress(job, State.FAILED, seconds=1.0, error=f"Bad: {wild}")
    failed.started = 0.0
    display = live_table.Display(1, stream=io.StringIO(), clock=Clock())
    console = rich.console.Console(width=100, file=io.StringIO())
    console.print(display._table([failed], 0.0))
    spelled = wild.replace("\x1b", "\\x1b")
    for text in (
        console.file.getvalue(),
        live_table.report([failed]),
        live_table.describe(failed),
    ):
        assert spelled in text and "\x1b" not in text


def test_the_newest_line_is_read_from_the_end_of_the_metrics(tmp_path):
    assert live_table.latest(tmp_path) == (None, None)
    fake_runs.write(tmp_path, [0.1, 0.4])
    with (tmp_path / metrics.FILE_NAME).open("a") as file:
        file.write(json.dumps({"tick": 7, "verdict": 0.5}) + '\n{"tick": 8, "ver')
    assert live_table.latest(tmp_path) == (7, 0.4)


# The whole program ------------------------------------------------------------------


def command(*flags):
    return subprocess.run(
        [sys.executable, "-m", "experiments.sweep", SMOKE, *flags],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


def test_a_dry_run_lists_the_runs_and_touches_nothing(tmp_path):
    folder = tmp_path / "sweep"
    done = command(
        f"--workdir={folder}",
        "--sweep.algorithm.credit=agentic,outcome",
        "--sweep.learner.learning_rate=1e-4,3e-4",
        "--seeds=2",
        "--config.seed=7",  # was not heard
        "--dry_run",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 9 and lines[-1].startswith("8 runs x ")
    assert lines[0].startswith(f"{folder}/credit=agentic__learning_rate=0.0001/seed=7")
    assert f"{folder}/credit=outcome__learning_rate=0.0003/seed=8" in done.stdout
    assert not folder.exists()


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--sweep.learner.learning_rat=1", "did you mean 'learner.learning_rate'"),
        ("--sweep.algorithm.credit=agentc", "did you mean 'agentic'"),
        ("--sweeps.seed=1", "sweeps.seed"),
        ("--config.learner.learning_rat=1", "error: 'learner.learning_rat' is no"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(flag, words, tmp_path):
    folder = tmp_path / "sweep"
    done = command(f"--workdir={folder}", flag)
    assert done.returncode != 0 and words in done.stderr
    assert "Traceback" not in done.stderr
    assert not folder.exists()


@pytest.mark.slow
def test_a_sweep_trains_shares_its_base_model_and_survives_a_crash(tmp_path):
    folder = tmp_path / "sweep"
    flags = (
        f"--workdir={folder}",
        "--sweep.learner.weight_decay=0,1e9",
        "--config.learner.learning_rate=1",
        "--config.learner.max_skipped=1",
        "--config.learner.entropy_weight=1.0",  # something to learn from the start
        "--parallel=2",
    )
    done = command(*flags)
    assert done.returncode == 1
    good, bad = folder / "weight_decay=0.0", folder / "weight_decay=1000000000.0"
    assert (good / "seed=0" / "summary.json").exists()
    assert not (bad / "seed=0" / "summary.json").exists()
    assert "FAILED weight_decay=1000000000.0/seed=0" in done.stdout
    assert "not finite" in done.stdout and "1 of 2 done, 1 failed" in done.stdout
    assert len(list((folder / "base_models").glob("*.npz"))) == 1
    before = (good / "seed=0" / "metrics.jsonl").read_bytes()
    again = command(*flags)
    assert "1 runs x " in again.stderr  # the finished one is skipped
    assert (good / "seed=0" / "metrics.jsonl").read_bytes() == before
