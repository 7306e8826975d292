"""One ablation from its file to its ``suite.json``: tune, freeze, compare.

A run that another suite has already made is not made again.
"""

import dataclasses
import functools
import json
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence

from absl import logging

from agentic_grpo.training import run_folder
from agentic_grpo.training.json_files import read_json_if_whole, write_json
from experiments.config.checks import require
from experiments.runs import provenance, workdir
from experiments.studies import search, suites
from experiments.studies.results import MANIFEST
from experiments.sweeps import planning, scheduler
from experiments.sweeps.live_table import report
from experiments.sweeps.scheduler import Job, State

SETTINGS = "settings.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How suites are run.

    Attributes:
      root: a folder for each suite, and for the base models that they share.
      results: where settings that were tuned before are kept.
      parallel: runs side by side.
      share: of the runs, as "2/8".
      untuned: use the config's settings where none have been tuned yet.
      seeds_together: all seeds of a point in one program.
      compile_cache: as in ``train``.
    """

    root: pathlib.Path
    results: pathlib.Path
    parallel: int = 1
    share: str = "1/1"
    untuned: bool = False
    seeds_together: bool = False
    compile_cache: str | None = None


class Ablation:
    """A suite and its folder.

    Attributes:
      name, config, suite, docstring: as in its file.
      options: how it is run.
      folder: its own.
    """

    def __init__(self, name: str, options: Options):
        self.name, self.options = name, options
        self.config, self.suite, self.docstring = suites.load(name)
        self.folder = options.root / name

    def settings(self) -> tuple[dict[str, suites.Overrides], dict]:
        """({tuned arm: overrides}, what the search says of each)."""
        if self.suite.search is not None:
            return self._tune()
        if self.suite.settings_of is None:
            return {}, {}
        places = (self.options.root, self.options.results)
        for place in (place / self.suite.settings_of / SETTINGS for place in places):
            found = read_json_if_whole(place, otherwise="passed over")
            if found is not None and "settings" in found:
                print(f"settings as in {place}", file=sys.stderr)
                return self._scaled(found["settings"]), {}
        require(
            self.options.untuned,
            "suite",
            self.name,
            f"run after --suite={self.suite.settings_of}, which tunes its arms; or "
            "with --untuned, for the settings of the config",
        )
        return {}, {}

    def jobs(self, settings: Mapping[str, suites.Overrides]) -> list[Job]:
        """The runs that are compared."""
        points = suites.points(self.suite, settings)
        return self._jobs(points, self.folder / "runs")

    def run(self, jobs: Sequence[Job]) -> list[scheduler.Progress]:
        """Runs this process's share of what nobody has finished."""
        jobs = [job for job in jobs if not all(map(self._is_elsewhere, job.runs))]
        jobs = scheduler.shard(jobs, self.options.share)
        print(
            f"{self.name}: {planning.plan(jobs, self.options.parallel)}",
            file=sys.stderr,
        )
        ended = planning.execute(
            jobs,
            self.folder,
            parallel=self.options.parallel,
            lock_name=f"shard-{self.options.share.replace('/', '-of-')}",
            warm_start_cache=self.options.root / planning.BASE_MODELS,
            compile_cache=self.options.compile_cache,
        )
        print(report(ended))
        return ended

    def write_manifest(self, settings, chosen, jobs) -> None:
        """Says in ``suite.json`` what is compared, and where its runs are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / MANIFEST
        old = read_json_if_whole(path, otherwise="it is written anew")
        before = old.get("provenance", []) if old else []
        here = provenance.describe()
        came_from = before if here in before else [*before, here]
        suite = self.suite
        by_slug = {
            f"{suites.slug(cell)}/{suites.slug(arm)}": (cell, arm)
            for cell in suite.cells
            for arm in suite.arms
        }
        runs = []
        for run in (run for job in jobs for run in job.runs):
            point = run.folder.parent.relative_to(self.folder / "runs")
            cell, arm = by_slug[point.as_posix()]
            text = _text(run.config)
            home = self._twins[text] if self._is_elsewhere(run) else run.folder
            runs.append(
                {
                    "cell": cell,
                    "arm": arm,
                    "seed": run.config.seed,
                    "folder": home.relative_to(self.options.root).as_posix(),
                    "test_problems": run.config.evaluation.test_problems,
                }
            )
        manifest = {
            "name": self.name,
            "docstring": self.docstring,
            "cells": list(suite.cells),
            "arms": list(suite.arms),
            "reference": suite.reference,
            "rows": suite.rows,
            "columns": suite.columns,
            "claims": [dataclasses.asdict(claim) for claim in suite.claims],
            "identical": suite.identical,
            "search": chosen,
            "runs": runs,
            "provenance": came_from,
        }
        write_json(path, manifest)
        self._write_configs(settings)

    def planned(self) -> dict[str, list[Job]]:
        """{what for: its jobs}, before anything is tuned."""
        planned = {"compared": self.jobs({})}
        if self.suite.search is not None:
            points = search.first_points(self.suite)
            planned = {"search": self._jobs(points, self.folder / "search"), **planned}
        return planned

    def _scaled(self, settings):
        factor = self.suite.rate_factor
        return {
            arm: {
                name: value * factor if name == search.LEARNING_RATE else value
                for name, value in overrides.items()
            }
            for arm, overrides in settings.items()
        }

    def _tune(self):
        path = self.folder / SETTINGS
        found = read_json_if_whole(path, otherwise="found again from its runs")
        if found and found.keys() >= {"settings", "search"}:
            # frozen: a search is never repeated on a whim
            return found["settings"], found["search"]

        folder = self.folder / "search"

        def run(points):
            jobs = self._jobs(points, folder)
            ended = self.run(jobs)
            failed = {one.job.name for one in ended if one.state is State.FAILED}
            return {
                run.folder.relative_to(folder).as_posix(): job.name in failed
                for job in jobs
                for run in job.runs
                if run.is_finished or job.name in failed
            }

        settings, trials = search.tune(self.suite, folder, run)
        chosen = search.describe(trials)
        write_json(
            path,
            {
                "settings": settings,
                "search": chosen,
                "trials": [_as_json(trial) for trial in trials],
            },
        )
        return settings, chosen

    def _jobs(self, points, folder):
        together = self.options.seeds_together
        return planning.make_jobs(self.config, points, folder, seeds_together=together)

    def _is_elsewhere(self, run):
        return not run.is_finished and _text(run.config) in self._twins

    @functools.cached_property
    def _twins(self) -> dict[str, pathlib.Path]:
        """{config: folder} of what other suites have finished."""
        found = {}
        for path in self.options.root.glob("*/runs/*/*/seed=*/summary.json"):
            if self.folder in path.parents:
                continue
            try:
                config = workdir.load_config(path.parent)
                settings = workdir.settings_of(config)
                if run_folder.finished(path.parent, settings) is not None:
                    found[_text(config)] = path.parent
            except ValueError as error:
                logging.warning("%s; its run is not taken for ours", error)
        return found

    def _write_configs(self, settings):
        """The base config, and what cells, settings and arms change in it."""
        content = {
            "base": json.loads(self.config.to_json()),
            "cells": self.suite.cells,
            "settings": settings,
            "arms": {
                name: dataclasses.asdict(arm) for name, arm in self.suite.arms.items()
            },
            "of_every_run": suites.FRESH,
        }
        write_json(self.folder / "configs.json", content)


def _as_json(trial):
    """A setting that failed has no score and no fall: JSON knows no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in dataclasses.asdict(trial).items()
    }


def _text(config):
    return config.to_json(sort_keys=True)


def dry_run(names: Sequence[str], options: Options) -> None:
    """Prints runs x seconds of every suite, and of all together.

    Settings cost the same whatever they are, and widened searches are not foreseen.
    """
    everything = {}
    for ablation in (Ablation(name, options) for name in names):
        for title, jobs in ablation.planned().items():
            plan = planning.plan(jobs, options.parallel)
            print(f"{ablation.name:<14}{title:<10}{plan}")
            everything |= {_text(job.runs[0].config): job for job in jobs}
    if len(names) > 1:
        plan = planning.plan(list(everything.values()), options.parallel)
        print(f"{'together':<24}{plan}")


def ablate(name: str, options: Options) -> bool:
    """Runs a suite; whether every run is finished."""
    ablation = Ablation(name, options)
    settings, chosen = ablation.settings()
    jobs = ablation.jobs(settings)
    ablation.write_manifest(settings, chosen, jobs)
    ended = ablation.run(jobs)
    return all(one.state is State.DONE for one in ended)
