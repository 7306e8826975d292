"""One command for everything: ``agentic-grpo train --config=quickstart ...``.

  agentic-grpo train      trains one agent           (python -m experiments.train)
  agentic-grpo evaluate   rates of a checkpoint      (python -m experiments.evaluate)
  agentic-grpo export     a policy as a folder       (python -m experiments.export)
  agentic-grpo sweep      a grid of runs             (python -m experiments.sweep)
  agentic-grpo describe   every field of a config    (python -m experiments.describe)
  agentic-grpo ablate     a suite of the study       (python -m experiments.ablate)
  agentic-grpo contest    unseen problems, a field   (python -m experiments.contest)
  agentic-grpo show       an episode, told           (python scripts/show_episode.py)
  agentic-grpo compare    two runs on one page       (python scripts/compare_runs.py)
  agentic-grpo plot       learning curves            (python scripts/plot_runs.py)

Flags are those of the program; --help after a command tells them. The last three need
a clone of the repository; all others are installed.
"""

import difflib
import importlib
import os
import pathlib
import runpy
import sys

from agentic_grpo.training.plain_text import printable

#: Modules that are installed.
MODULES = {
    "train": "experiments.train",
    "evaluate": "experiments.evaluate",
    "export": "experiments.export",
    "sweep": "experiments.sweep",
    "ablate": "experiments.ablate",
    "contest": "experiments.contest",
    "describe": "experiments.describe",
}

#: Scripts of a clone.
SCRIPTS = {
    "show": "show_episode.py",
    "compare": "compare_runs.py",
    "plot": "plot_runs.py",
}

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main() -> None:
    """Runs the program that the first word names, as Python itself would."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h", "help"):
        print(__doc__.strip())
        return
    if name == "--version":
        print(importlib.import_module("agentic_grpo").__version__)
        return
    sys.path[:0] = [os.getcwd()]  # where an environment of one's own may lie
    if name in MODULES:
        sys.argv = [f"agentic-grpo {name}", *rest]
        runpy.run_module(MODULES[name], run_name="__main__", alter_sys=False)
    elif name in SCRIPTS:
        path = ROOT / "scripts" / SCRIPTS[name]
        if not path.is_file():
            sys.exit(
                f"error: agentic-grpo {name} needs a clone of the repository, whose "
                "scripts are not installed: clone it, then pip install -e '.[plots]'"
            )
        sys.argv = [str(path), *rest]
        runpy.run_path(str(path), run_name="__main__")
    else:
        sys.exit(printable(f"error: {_unknown(name)}"))


def _unknown(name):
    known = [*MODULES, *SCRIPTS]
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"{name!r} must be one of {', '.join(known)}{hint}"


if __name__ == "__main__":
    main()
