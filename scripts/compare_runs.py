"""Compares runs: what their configs differ in, their curves and their summaries.

    python scripts/compare_runs.py runs/a runs/b runs/c
    python scripts/compare_runs.py runs/a_sweep --html=comparison.html

A folder without a run stands for all runs below it. Of the configs only what differs is
shown. Runs may be unfinished; curves are as
measured so far. For pictures with intervals over seeds see ``plot_runs.py``.
"""

import argparse
import pathlib
import sys

import rich.console

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training.plain_text import printable
from experiments.runs import finding
from scripts.viewing import comparing, runs


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        found = [run for folder in options.runs for run in finding.runs_within(folder)]
        compared = runs.read(found)
    except (OSError, ValueError) as error:
        sys.exit(printable(f"compare_runs: {error}"))
    comparing.show(compared, rich.console.Console(width=options.width))
    if options.html is not None:
        options.html.parent.mkdir(parents=True, exist_ok=True)
        options.html.write_text(comparing.render(compared), encoding="utf-8")
        print(options.html)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--html", type=pathlib.Path, help="write a page as well")
    parser.add_argument("--width", type=int, help="columns; found out by default")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
