"""Disturbs real training runs and compares what they become with an undisturbed one.

  python scripts/torture.py --rounds=50

Every round trains a small config in a folder of its own: one run, or seeds in one
program, or a run whose steps are all refused. Its process is killed or asked to stop
(in the warm start, in the first evaluation, at some tick, in a save), starved of disk
space; its checkpoints are truncated, corrupted, removed, renamed or swapped for those
of another run; its folder is moved or deleted. It is then started again, until it is
finished. State, samples, metrics (but ``time/*``) and summary must be those of the run
that nothing happened to, to the bit (of seeds that had to leave their common program:
all of them there, at their ticks), and every process must have ended as promised. The
exit status is 0 if that is so; the last line says what was tried. The files of a round
that went wrong are kept, and its line says where.
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
from scripts.fault_injection import catalogue, subjects, variants


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
    base = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="torture-"))
    base = base.absolute()
    base.mkdir(parents=True, exist_ok=True)
    wrong = None
    try:
        with subjects.small_disk(base / "small_disk") as small_disk:
            wrong = torture(options.rounds, options.seed, base, small_disk)
    finally:
        if options.folder is None and wrong == 0:
            shutil.rmtree(base)
    sys.exit(wrong)


def torture(rounds: int, seed: int, base: pathlib.Path, small_disk) -> int:
    """Runs the rounds; the number of those that went wrong.

    Args:
      rounds: how many.
      seed: of what is done when.
      base: folder of the runs.
      small_disk: a folder with little room; None where none can be made.
    """
    undisturbed = Undisturbed(base)
    kinds = [kind for kind in catalogue.ALL if small_disk or not kind.needs_small_disk]
    counts = collections.Counter()
    starts = wrong = 0
    for number in range(1, rounds + 1):
        choose = random.Random(f"{seed}/{number}")
        variant = choose.choice(variants.ALL)
        wanted = undisturbed.outcome(variant)
        planned = choose.choices(kinds, k=choose.randint(1, 3))
        crowded = any(kind.needs_small_disk for kind in planned)
        subject = subjects.Subject(
            (small_disk if crowded else base) / f"round_{number}", variant
        )
        subject.foreign = undisturbed.foreign
        told, problems = [], []
        try:
            for kind in planned:
                told.append(f"{kind.name}: {kind.apply(subject, choose)}")
                counts[kind.name] += 1
            subject.finish()
            problems = subjects.differences(
                subjects.outcome(subject), wanted, is_regrouped=subject.is_regrouped
            )
        except subjects.BrokenPromise as error:
            problems = [str(error)]
        starts += subject.starts
        counts[variant.name] += 1
        result = "equal" if not problems else "DIFFERENT: " + "; ".join(problems[:5])
        print(
            f"round {number}, {variant.name}: {'; '.join(told)} -> {result}", flush=True
        )
        if problems:
            wrong += 1
            print(f"  its files are in {subject.keep(base)}", flush=True)
        else:
            shutil.rmtree(subject.folder)
    tried = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    verdict = "no difference" if not wrong else f"{wrong} with a difference"
    print(f"{rounds} rounds, {starts} starts, {verdict}; tried: {tried}; seed {seed}")
    return wrong


class Undisturbed:
    """The runs that nothing happens to: each is made when it is first asked for."""

    def __init__(self, base: pathlib.Path):
        self._base = base
        self._outcomes: dict[str, dict[str, str]] = {}
        self._foreign: subjects.Home | None = None

    def outcome(self, variant: variants.Variant) -> dict[str, str]:
        """What the runs of a variant should come to."""
        if variant.name not in self._outcomes:
            self._outcomes[variant.name] = subjects.outcome(self._train(variant))
        return self._outcomes[variant.name]

    def foreign(self) -> subjects.Home:
        """A run of another config, with all its checkpoints."""
        if self._foreign is None:
            (self._foreign,) = self._train(variants.FOREIGN).homes
        return self._foreign

    def _train(self, variant):
        print(f"undisturbed, {variant.name} ...", flush=True)
        started = time.monotonic()
        subject = subjects.Subject(self._base / variant.name.replace(" ", "_"), variant)
        subject.finish()
        print(f"... took {time.monotonic() - started:.0f} s", flush=True)
        return subject


if __name__ == "__main__":
    main()
