"""The same work through agentic_grpo, TRL/transformers and Tunix, in turn, in one run.

    python scripts/benchmark_peers.py --install --json=peers.json
    python scripts/benchmark_peers.py --contests=job --json=job.json

Contests: a learner's step and decoding, each at two sizes of vocabulary, and the whole
job at a small size. Every peer runs in a virtual environment of its own; ``--install``
makes those that are missing (some gigabytes). Each entrant is a process of its own that
waits while another works; ratios are ours over theirs, so noise hits all alike. A
peer that fails is named with its error, and the others go on.

``--tiny`` takes toy sizes: it shows that everything runs, and measures nothing.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo.training import host
from scripts.benchmarks import reporting, virtual_environments, workloads
from scripts.benchmarks.measuring import result, summarise

WORKERS = pathlib.Path(__file__).parent / "benchmarks" / "workers"

#: entrant -> (its virtual environment, None for ours; its script).
ENTRANTS = {
    "agentic_grpo": (None, "ours.py"),
    "transformers": ("trl", "transformers_torch.py"),
    "TRL": ("trl", "trl_job.py"),
    "Tunix": ("tunix", "tunix_jax.py"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contest:
    """Work that several entrants do.

    Attributes:
      work: "learner", "decoding" or "job".
      vocabulary: V.
      entrants: ours first.
    """

    work: str
    vocabulary: int
    entrants: tuple[str, ...]

    def amount(self, sizes) -> tuple[int, str]:
        """What is done at a time, and the unit of the rate."""
        return {
            "learner": (sizes.rows * sizes.columns, "tokens/s"),
            "decoding": (sizes.decode_rows * sizes.new_tokens, "tokens/s"),
            "job": (sizes.groups * sizes.members, "episodes/s"),
        }[self.work]


_ALL = ("agentic_grpo", "transformers", "Tunix")
CONTESTS = {
    "learner": Contest(work="learner", vocabulary=4096, entrants=_ALL),
    "learner_large": Contest(work="learner", vocabulary=49_152, entrants=_ALL),
    "decoding": Contest(work="decoding", vocabulary=4096, entrants=_ALL),
    "decoding_large": Contest(
        work="decoding", vocabulary=49_152, entrants=("agentic_grpo", "transformers")
    ),
    "job": Contest(work="job", vocabulary=64, entrants=("agentic_grpo", "TRL")),
}


class WorkerError(RuntimeError):
    """An entrant ended before it answered; the message has its last lines."""


class Worker:
    """A process that does its work once per turn."""

    def __init__(self, python, script, options):
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, see close
        self._process = subprocess.Popen(
            [str(python), str(WORKERS / script), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=_environment(),
        )
        try:
            self._read()
        except WorkerError:
            self.close()
            raise

    def turn(self) -> dict:
        """Does the work once: {"seconds", "cpu_seconds", "peak_bytes"}."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer = self._read()
        self._read()  # ready again
        return answer

    def close(self):
        """Ends the process; it has nothing to save."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            stream.close()

    def _read(self):
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-12:]
        raise WorkerError("\n".join(last) or "it ended without a word")


def _environment():
    """Ours, without what belongs to this interpreter; no peer may call out.

    Large arrays lie on huge pages, as in our other scripts, for all entrants alike.
    """
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        **outside,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def hold(name: str, contest: Contest, sizes, *, rounds: int, pythons: dict) -> list:
    """Runs one contest; rows as in ``measuring.result``."""
    workers = {}
    try:
        for entrant in contest.entrants:
            home, script = ENTRANTS[entrant]
            python = sys.executable if home is None else pythons.get(home)
            if python is None:
                print(f"{name}: {entrant} is not installed; --install does it")
                continue
            options = {
                "work": contest.work,
                "vocabulary": contest.vocabulary,
                "sizes": dataclasses.asdict(sizes),
                "threads": host.cpu_threads(),
            }
            try:
                workers[entrant] = Worker(python, script, options)
            except WorkerError as error:
                print(f"{name}: {entrant} failed:\n{error}")
        answers = {entrant: [] for entrant in workers}
        for _ in range(rounds):
            for entrant, worker in workers.items():
                answers[entrant].append(worker.turn())
    finally:
        for worker in workers.values():
            worker.close()
    return _rows(name, contest, sizes, answers)


def _rows(name, contest, sizes, answers):
    """Speed, processor time and memory of ours, against every other entrant's."""
    amount, unit = contest.amount(sizes)
    speeds, cpu, memory = {}, {}, {}
    for entrant, of_entrant in answers.items():
        timing = summarise([answer["seconds"] for answer in of_entrant])
        speeds[entrant] = timing.rate(amount)
        cpu[entrant] = summarise([answer["cpu_seconds"] for answer in of_entrant])
        memory[entrant] = of_entrant[-1]["peak_bytes"] / 2**20
    ours = contest.entrants[0]
    if ours not in speeds:
        return []
    label, rows = f"{name}, V={contest.vocabulary}", []
    for entrant in [other for other in speeds if other != ours] or [None]:
        spread = speeds[ours][1] + (speeds[entrant][1] if entrant else 0.0)
        for what, value, of_unit, theirs, less in (
            ("", speeds[ours][0], unit, entrant and speeds[entrant][0], False),
            (
                ", CPU time",
                1e3 * cpu[ours].median,
                "ms",
                entrant and 1e3 * cpu[entrant].median,
                True,
            ),
            (
                ", peak memory of the process",
                memory[ours],
                "MiB",
                entrant and memory[entrant],
                True,
            ),
        ):
            rows.append(
                result(
                    "peers",
                    label + what,
                    value,
                    of_unit,
                    spread=None if what else spread,
                    reference=entrant,
                    reference_value=theirs,
                    lower_is_better=less,
                )
            )
    return rows


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument(
        "--contests",
        default=",".join(CONTESTS),
        help=f"names separated by commas, of {', '.join(CONTESTS)}",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--install", action="store_true", help="make what is missing")
    parser.add_argument("--tiny", action="store_true", help="toy sizes")
    parser.add_argument(
        "--environments",
        type=pathlib.Path,
        default=virtual_environments.default_folder(),
        metavar="DIR",
        help="where the peers' virtual environments are kept",
    )
    arguments = parser.parse_args(argv)
    arguments.contests = arguments.contests.split(",")
    unknown = [name for name in arguments.contests if name not in CONTESTS]
    if unknown:
        parser.error(f"--contests: {unknown[0]!r} is none of {', '.join(CONTESTS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds={arguments.rounds} must be at least 1")
    return arguments


def main(argv=None) -> None:
    arguments = parse_arguments(argv)
    folder, pythons = arguments.environments, {}
    for name in ("trl", "tunix"):
        if arguments.install:
            try:
                virtual_environments.make(name, folder)
            except RuntimeError as error:
                print(error)
        pythons[name] = virtual_environments.python_of(name, folder)
    sizes = workloads.TINY if arguments.tiny else workloads.FULL
    described = reporting.describe_machine()
    rows = []
    for name in arguments.contests:
        contest = CONTESTS[name]
        print(f"contest {name} ...", flush=True)
        rows += hold(name, contest, sizes, rounds=arguments.rounds, pythons=pythons)
    report = reporting.report(described, rows)
    print(reporting.write(arguments.json, report, title="Peers"))


if __name__ == "__main__":
    main()
