"""Replays a contest that ``experiments.contest`` has written.

    python scripts/show_contest.py runs/quickstart/contest.json
    python scripts/show_contest.py runs/a/contest_adapted.json --contest=3 --tick=20
    python scripts/show_contest.py runs/quickstart/contest.json --html=contest.html

The standings after a tick, the statements, and what the agents had handed in by then;
with --html a page with the points and places over the clock, and the clock to move.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training import paths
from agentic_grpo.training.plain_text import printable
from scripts.viewing import contests


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        replay = contests.read(paths.locate(options.file, "file"), options.contest)
        print(printable(contests.tell(replay, options.tick)))
        if options.html is not None:
            options.html.parent.mkdir(parents=True, exist_ok=True)
            options.html.write_text(contests.render(replay), encoding="utf-8")
            print(options.html)
    except (ValueError, OSError) as error:
        sys.exit(printable(f"show_contest: {error}"))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("file", help="that experiments.contest wrote")
    add("--contest", type=int, default=0, help="its number; the first by default")
    add("--tick", type=int, help="of the clock; the end by default")
    add("--html", type=pathlib.Path, help="write a page to this file as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
