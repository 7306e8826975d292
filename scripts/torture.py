"""Disturbs real training runs and compares what they become with an undisturbed one.

  python scripts/torture.py --rounds=50

Every round trains the same small config in a folder of its own. Its process is killed
at some moment or in the middle of a save, asked to stop, starved of disk space; its
checkpoints are truncated, corrupted or removed. It is then started again, until it is
finished. State, samples, metrics (but ``time/*``) and summary must be those of the run
that nothing happened to, and every process must have ended as promised. The exit status
is 0 if that is so; the last line says what was tried.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training import compile_cache
from scripts.fault_injection import disturbances, trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of what is done when")
    parser.add_argument(
        "--folder", type=pathlib.Path, help="kept; a new one by default"
    )
    options = parser.parse_args()
    cache = compile_cache.enable()  # all processes share what the first one compiles
    if cache is not None:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(cache)
    with tempfile.TemporaryDirectory(prefix="torture-") as temporary:
        base = (options.folder or pathlib.Path(temporary)).absolute()
        base.mkdir(parents=True, exist_ok=True)
        with trials.small_disk(base / "small_disk") as small_disk:
            sys.exit(torture(options.rounds, options.seed, base, small_disk))


def torture(rounds: int, seed: int, base: pathlib.Path, small_disk) -> int:
    """Runs the rounds; the number of those that went wrong.

    Args:
      rounds: how many.
      seed: of what is done when.
      base: folder of the runs.
      small_disk: a folder with little room; None where none can be made.
    """
    print("the undisturbed run ...", flush=True)
    started = time.monotonic()
    undisturbed = trials.Trial(base / "undisturbed")
    undisturbed.finish()
    wanted = trials.outcome(undisturbed.folder)
    print(f"... took {time.monotonic() - started:.0f} s", flush=True)
    kinds = [
        kind for kind in disturbances.ALL if small_disk or not kind.needs_small_disk
    ]
    counts = collections.Counter()
    starts = wrong = 0
    for number in range(1, rounds + 1):
        choose = random.Random(f"{seed}/{number}")
        planned = choose.choices(kinds, k=choose.randint(1, 3))
        crowded = any(kind.needs_small_disk for kind in planned)
        trial = trials.Trial((small_disk if crowded else base) / f"round_{number}")
        told, problems = [], []
        try:
            for kind in planned:
                told.append(f"{kind.name}: {kind.apply(trial, choose)}")
                counts[kind.name] += 1
            trial.finish()
            problems = trials.differences(trials.outcome(trial.folder), wanted)
        except trials.BrokenPromise as error:
            problems = [str(error)]
        starts += trial.starts
        result = "equal" if not problems else "DIFFERENT: " + "; ".join(problems[:5])
        print(f"round {number}: {'; '.join(told)} -> {result}", flush=True)
        if problems:
            wrong += 1
            print(f"  its files are in {trial.keep(base)}", flush=True)
        else:
            shutil.rmtree(trial.folder)
    tried = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    verdict = "no difference" if not wrong else f"{wrong} with a difference"
    print(f"{rounds} rounds, {starts} starts, {verdict}; tried: {tried}; seed {seed}")
    return wrong


if __name__ == "__main__":
    main()
