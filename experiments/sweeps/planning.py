"""From points and seeds to runs: what sweeps and ablations have in common."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from agentic_grpo.training import locks
from agentic_grpo.training.progress import duration
from experiments.config import fields, ranges
from experiments.config.build import build
from experiments.config.checks import require
from experiments.runs import base_model
from experiments.sweeps import cost, grid, scheduler
from experiments.sweeps.launch import Launcher, read_error
from experiments.sweeps.live_table import Display
from experiments.sweeps.scheduler import Job, Progress, Run

#: Base models of a sweep, in its folder.
BASE_MODELS = "base_models"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """One setting, to be run with some seeds.

    Attributes:
      name: its folder within the sweep's.
      overrides: {field: value}.
      seeds: one run each, in the folder seed=SEED.
    """

    name: str
    overrides: Mapping[str, Any]
    seeds: tuple[int, ...]


def require_one_source(
    overrides: Sequence[Mapping[str, Any]],
    changed: Sequence[str],
    *,
    num_seeds: int | None,
    first_seed: int | None,
) -> None:
    """Refuses a field, or seeds, that two flags of one sweep set.

    Args:
      overrides: of the points.
      changed: the fields that flags --config.FIELD set.
      num_seeds, first_seed: of the flags; None where they are not given.

    Raises:
      ValueError: names the flag that has to go.
    """
    swept = {field for one in overrides for field in one}
    for field in changed:
        rule = "left out: the points of the sweep set it"
        require(field not in swept, f"--config.{field}", "...", rule)
    for flag, value in (("--seeds", num_seeds), ("--first_seed", first_seed)):
        rule = "left out: the points of the sweep name their seeds"
        require(value is None or "seed" not in swept, flag, value, rule)
    rule = "left out: --config.seed is the first seed"
    require(
        first_seed is None or "seed" not in changed, "--first_seed", first_seed, rule
    )


def make_points(
    overrides: Sequence[Mapping[str, Any]], seeds: Sequence[int]
) -> list[Point]:
    """Points named by what differs; those with seeds of their own keep them.

    Raises:
      ValueError: two points are the same, or some name their seed and others do not.
    """
    if not any("seed" in one for one in overrides):
        return [
            Point(name=name, overrides=dict(one), seeds=tuple(seeds))
            for name, one in zip(grid.names(overrides), overrides, strict=True)
        ]
    require(
        all("seed" in o for o in overrides), "sweep", "seed", "in all points or none"
    )
    rest = [{k: v for k, v in one.items() if k != "seed"} for one in overrides]
    distinct = [one for index, one in enumerate(rest) if one not in rest[:index]]
    return [
        Point(
            name=name,
            overrides=one,
            seeds=tuple(
                o["seed"] for o, r in zip(overrides, rest, strict=True) if r == one
            ),
        )
        for name, one in zip(grid.names(distinct), distinct, strict=True)
    ]


def make_jobs(
    config: ConfigDict,
    points: Sequence[Point],
    folder: pathlib.Path,
    *,
    seeds_together: bool = False,
) -> list[Job]:
    """One job per run, or per point; points are built, so that mistakes are found now.

    Seeds of a point differ by their seed alone: it is built for the first of them.

    The first seed of every point comes before the second of any: a sweep that is cut
    short has compared everything a little. Whatever needs a base model that nobody
    needed before comes first of all.

    Raises:
      ValueError: names the point, the field, its value and the rule.
    """
    jobs: list[tuple[int, Job]] = []
    for point in points:
        runs = []
        try:
            for seed in point.seeds:
                own = fields.change(config, {**point.overrides, "seed": seed})
                ranges.check(own)
                home = folder / point.name / f"seed={seed}"
                runs.append(Run(folder=home, config=own))
            experiment = build(runs[0].config)
        except ValueError as error:
            raise ValueError(f"point {point.name!r}: {error}") from error
        seconds = cost.of_run(experiment, runs[0].config)
        keys = [base_model.key(experiment, run.config) for run in runs]
        if seeds_together:
            group = Job(
                name=point.name,
                runs=tuple(runs),
                seconds=seconds * len(runs),
                base_models=frozenset(keys),
            )
            jobs.append((0, group))
            continue
        for turn, (run, key) in enumerate(zip(runs, keys, strict=True)):
            one = Job(
                name=f"{point.name}/{run.folder.name}",
                runs=(run,),
                seconds=seconds,
                base_models=frozenset({key}),
            )
            jobs.append((turn, one))
    jobs.sort(key=lambda pair: pair[0])  # stable
    return scheduler.order([job for _, job in jobs])


def plan(jobs: Sequence[Job], parallel: int) -> str:
    """Runs x seconds, and what that comes to, without what is finished."""
    todo = [job for job in jobs if not job.is_finished]
    num_runs = sum(len(job.runs) for job in todo)
    if not num_runs:
        return f"all {len(jobs)} finished"
    seconds = sum(job.seconds for job in todo)
    keys = {key: job for job in todo for key in job.base_models}
    warm = sum(_warm_start_seconds([job.runs[0].config for job in keys.values()]))
    programs = {str(job.runs[0].folder.parent) for job in todo}
    total = seconds + warm + cost.COMPILE_SECONDS * len(programs)
    return (
        f"{num_runs} runs x {seconds / num_runs:.0f} s"
        f" + {len(keys)} base models x {warm / len(keys):.0f} s"
        f" + {len(programs)} programs x {cost.COMPILE_SECONDS:.0f} s"
        f" = {duration(total)} of one core, {duration(total / parallel)} for {parallel}"
    )


def _warm_start_seconds(configs):
    """Of each base model; the same for every seed, so that few are built."""
    seconds = {}
    for config in configs:
        text = fields.change(config, {"seed": 0}).to_json(sort_keys=True)
        if text not in seconds:
            seconds[text] = cost.of_warm_start(build(config))
        yield seconds[text]


def execute(
    jobs: Sequence[Job],
    folder: pathlib.Path,
    *,
    parallel: int,
    lock_name: str = "all",
    warm_start_cache: pathlib.Path | None = None,
    compile_cache: str | None = None,
) -> list[Progress]:
    """Runs the jobs and shows how they stand.

    Args:
      jobs: see ``make_jobs``.
      folder: of the sweep.
      parallel: at a time.
      lock_name: of what no other process may run in this folder at the same time.
      warm_start_cache: base models; in the sweep's folder where None.
      compile_cache: as in ``train``.

    Raises:
      ValueError: another process is running the same.
      KeyboardInterrupt: after SIGINT or SIGTERM; everything running has been saved.
    """
    launcher = Launcher(
        parallel=parallel,
        warm_start_cache=warm_start_cache or folder / BASE_MODELS,
        compile_cache=compile_cache,
    )
    folder.mkdir(parents=True, exist_ok=True)
    busy = (
        f"{folder} is being worked on by another process; wait for it, or take another "
        "share of the work with --shard"
    )
    lock = locks.alone(folder / f".{lock_name}.lock", busy)
    with lock, Display(parallel) as display:
        return scheduler.run(
            jobs,
            launcher,
            parallel=parallel,
            read_error=read_error,
            show=display,
            poll_seconds=1.0,
        )
