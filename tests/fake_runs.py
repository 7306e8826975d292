"""Finished runs that nobody ran: the files of ``train``, with invented numbers."""

import json

from agentic_grpo.training import metrics, run_folder
from experiments.configs import smoke
from experiments.runs import workdir


def write(folder, rates, *, config=None, every=5, tokens=100.0, groups=2.0, test=None):
    """One run whose evaluations, every ``every`` ticks from tick 0, gave ``rates``.

    Per tick it trains on ``tokens`` tokens and starts ``groups`` groups; ``test`` is
    its solve rate on the test problems at the end, else that of the last evaluation.
    """
    config = config or smoke.get_config()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config.to_json())
    with metrics.MetricsWriter(folder) as writer:
        for index, rate in enumerate(rates):
            line = {"eval/solve_rate": rate, "verdict": rate, "stage_reward/code": rate}
            if index:
                line |= {"gradient_tokens": tokens, "groups_started": groups}
            writer.write(index * every, line)
    before, after = ({"solve_rate": rates[0]}, {"solve_rate": test or rates[-1]})
    settings = workdir.settings_of(config)
    run_folder.write_summary(folder, settings, before, after, seconds=60.0)
    return folder


def write_suite(root, name, runs, **changes):
    """A suite's manifest; runs: {(cell, arm): {seed: rates}}."""
    manifest = {
        "name": name,
        "docstring": "Claim: it works.",
        "cells": list(dict.fromkeys(cell for cell, _ in runs)),
        "arms": list(dict.fromkeys(arm for _, arm in runs)),
        "reference": "outcome",
        "rows": None,
        "columns": None,
        "claims": [],
        "identical": [],
        "search": {},
        "runs": [],
        "provenance": [],
    }
    for (cell, arm), seeds in runs.items():
        for seed, rates in seeds.items():
            home = f"{name}/runs/{cell}/{arm}/seed={seed}".replace(" ", "_")
            write(root / home, rates)
            run = {"cell": cell, "arm": arm, "seed": seed, "test_problems": 8}
            manifest["runs"].append(run | {"folder": home})
    folder = root / name
    (folder / "suite.json").write_text(json.dumps(manifest | changes))
    return folder
