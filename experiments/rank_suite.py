"""Enters the runs of a suite in contests, as they are and learning, and compares them.

  python -m experiments.rank_suite --suite=runs/ablations/contest \
      --output=experiments/results/contest [--contests=50]

Every finished run of ``experiments.ablate --suite=contest`` plays the same contests
against the same scripted field; each in a process of its own. What has been played is
not played again. Writes ranks.txt, with the claims that the suite declares.
"""

import subprocess
import sys

from absl import flags

from agentic_grpo.training import paths
from experiments import front
from experiments.configs.ablations.contest import RANK_CLAIMS
from experiments.contests import study

SUITE = flags.DEFINE_string("suite", None, "The folder of the suite.", required=True)
OUTPUT = flags.DEFINE_string("output", None, "A folder for ranks.txt.", required=True)
CONTESTS = flags.DEFINE_integer("contests", 50, "How many each run plays.")


def main(words):
    front.require_only_flags(words, "--contests=50")
    suite = paths.locate(SUITE.value, "suite")
    output = paths.locate(OUTPUT.value, "output")
    for _, _, folder in study.runs(suite):
        for adapted, name in study.FILES.items():
            if not (folder / name).exists():
                _play(folder, adapted)
    text = study.report(study.read(suite), RANK_CLAIMS)
    output.mkdir(parents=True, exist_ok=True)
    (output / "ranks.txt").write_text(text)
    print(text)


def _play(folder, adapted):
    """One run's contests; raises a ValueError with what the process said."""
    command = [sys.executable, "-m", "experiments.contest", f"--workdir={folder}"]
    command += [f"--contests={CONTESTS.value}", *(["--adapt"] if adapted else [])]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ValueError(f"{folder} could not play: {ended.stderr.strip()[-2000:]}")
    print(folder, "learning" if adapted else "as it is", flush=True)


if __name__ == "__main__":
    front.run(main, refusals=[OSError])
