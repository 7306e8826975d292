"""Draws runs: solve rate on held-out problems, and the rewards of every stage.

    python scripts/plot_runs.py runs/quickstart --output=curve.png
    python scripts/plot_runs.py agentic=runs/a0,runs/a1,runs/a2 outcome=runs/o0,runs/o1
    python scripts/plot_runs.py --suite=runs/ablations/credit \\
        --output=experiments/results/credit

Each argument is LABEL=FOLDER,FOLDER,...: seeds of one arm, drawn as their mean with a
band: the 95% t interval of the mean for three seeds and more, the range for two; or a
folder. A folder without a run stands for all runs below it, one arm for each setting:
the folder of a sweep is drawn as its points. Runs of an arm differ in their seed alone.
Rewards of training are smoothed, evaluations never.

With --suite, what ``experiments.ablate`` has run so far: table.md, results.csv and the
figures, in the folder that --output names; with --require_claims it is an error where a
claim does not hold.
"""

import argparse
import pathlib
import shutil
import sys

import matplotlib.pyplot as plt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training.plain_text import printable
from experiments.studies import comparison, report, results
from scripts.figures import learning_curves, suites


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        if options.suite is None:
            draw_runs(options)
        else:
            write_suite(options.suite, options.output)
            if options.require_claims:
                require_claims(options.suite)
    except (OSError, ValueError) as error:
        sys.exit(printable(f"plot_runs: {error}"))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", metavar="FOLDER or LABEL=FOLDER,FOLDER")
    parser.add_argument("--suite", type=pathlib.Path, help="the folder of an ablation")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        help="a picture (default: learning_curve.png); with --suite a folder",
    )
    parser.add_argument(
        "--require_claims",
        action="store_true",
        help="with --suite: fail where a claim of the suite fails or is open",
    )
    parser.add_argument(
        "--smoothing",
        type=float,
        default=0.05,
        help="width of the running mean of training rewards, as a share of the run "
        "(0: none; default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    if bool(options.runs) == bool(options.suite):
        parser.error("give folders of runs, or --suite=FOLDER")
    if options.suite and not options.output:
        parser.error("--suite needs a folder for its results: --output=FOLDER")
    if options.require_claims and not options.suite:
        parser.error("--require_claims is of a suite: --suite=FOLDER")
    if not 0.0 <= options.smoothing < 1.0:
        parser.error(f"--smoothing: {options.smoothing}; it must be in [0, 1)")
    return options


def draw_runs(options: argparse.Namespace) -> None:
    """One picture of the arms that were named."""
    arms = [arm for each in options.runs for arm in learning_curves.read_arms(each)]
    figure = learning_curves.draw(arms, smoothing=options.smoothing)
    output = options.output or pathlib.Path("learning_curve.png")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output)
    plt.close(figure)
    print(output)


def write_suite(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Tables, figures, and the configs and settings they belong to.

    Raises:
      ValueError: no run of the suite is finished yet.
    """
    suite = results.read(folder)
    if not suite.results:
        raise ValueError(f"{folder}: no run is finished yet")
    comparisons = comparison.compare_all(suite)
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.csv").write_text(results.to_csv(suite.results))
    page = report.to_markdown(suite, comparisons)
    for name, figure in suites.draw(suite, comparisons).items():
        figure.savefig(output / f"{name}.png")
        plt.close(figure)
        page += f"\n![{name}]({name}.png)\n"
    (output / "table.md").write_text(page)
    for name in ("configs.json", "settings.json"):
        if (folder / name).exists():
            shutil.copy(folder / name, output / name)
    print(output)


def require_claims(folder: pathlib.Path) -> None:
    """Prints every claim of a suite with its numbers.

    Raises:
      ValueError: one of them does not hold.
    """
    checked = comparison.check_all(results.read(folder))
    for one in checked:
        verdict = {True: "holds", False: "FAILS", None: "is open"}[one.holds]
        print(printable(f"{verdict}: {one.claim['text']}: {one.found}"))
    missing = [one.claim["text"] for one in checked if not one.holds]
    if missing:
        raise ValueError(f"{folder}: not as claimed: {'; '.join(missing)}")


if __name__ == "__main__":
    main()
