"""The runs of a suite in contests: as they are and learning there, paired by seed."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from agentic_grpo.training.json_files import read_json
from experiments.config.checks import require
from experiments.contests.standings import columns
from experiments.studies import statistics
from experiments.studies.statistics import Estimate

#: The file that a contest leaves in the folder of a run, by whether it learns there.
FILES = {False: "contest.json", True: "contest_adapted.json"}

#: What must agree for ranks to be compared.
SAME = ("contests", "problems", "compositions", "ticks", "budget", "schedule", "limit")
SAME += ("per_group", "seed", "scripted", "field_seed", "field")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankClaim:
    """One arm ranks above another, both with or both without learning in the contest.

    It holds where the 95% t interval of the difference of mean ranks, paired by seed,
    lies below 0: a smaller rank is a better one.

    Attributes:
      text: in words.
      candidate, reference: arms.
      adapted: whether they learn there.
    """

    text: str
    candidate: str
    reference: str
    adapted: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entered:
    """What the seeds of an arm reached.

    Attributes:
      ranks, points, firsts: {seed: mean over the contests}.
    """

    ranks: Mapping[str, float]
    points: Mapping[str, float]
    firsts: Mapping[str, float]


Ranked = Mapping[tuple[str, bool], Entered]


def runs(suite: pathlib.Path) -> Iterator[tuple[str, str, pathlib.Path]]:
    """(arm, seed, folder) of the finished runs of a suite of one cell.

    Raises:
      ValueError: there is none.
    """
    found = sorted(suite.glob("runs/*/*/seed=*/summary.json"))
    require(
        bool(found), "suite", str(suite), "the folder of a suite with finished runs"
    )
    for path in found:
        yield path.parts[-3], path.parts[-2], path.parent


def read(suite: pathlib.Path) -> Ranked:
    """{(arm, adapted): what it reached} of the contests that have been played.

    Raises:
      ValueError: a file is damaged, or its contests are others than the first one's.
    """
    collected: dict[tuple[str, bool], dict[str, dict]] = {}
    first = None
    for arm, seed, folder in runs(suite):
        for adapted, name in FILES.items():
            path = folder / name
            if not path.exists():
                continue
            tree = read_json(path)
            played = {field: tree["settings"][field] for field in SAME}
            first = first or played
            require(played == first, "contests", str(path), f"those of {first}")
            collected.setdefault((arm, adapted), {})[seed] = tree["records"][0]
    return {
        key: Entered(
            ranks={seed: one["mean_rank"] for seed, one in by_seed.items()},
            points={seed: one["mean_points"] for seed, one in by_seed.items()},
            firsts={seed: one["first_places"] for seed, one in by_seed.items()},
        )
        for key, by_seed in collected.items()
    }


def check(claim: RankClaim, ranked: Ranked) -> tuple[bool | None, Estimate | None]:
    """(whether it holds, the difference of mean ranks); None, None while it is open.

    Pairs without any spread have no interval: then the claim does not hold.
    """
    ours = ranked.get((claim.candidate, claim.adapted))
    theirs = ranked.get((claim.reference, claim.adapted))
    seeds = sorted(
        set(ours.ranks if ours else ()) & set(theirs.ranks if theirs else ())
    )
    if len(seeds) < 2:
        return None, None
    difference = statistics.paired_difference(
        [ours.ranks[seed] for seed in seeds], [theirs.ranks[seed] for seed in seeds]
    )
    return bool(difference.high < 0), difference


def report(ranked: Ranked, claims: Sequence[RankClaim]) -> str:
    """Arms and claims as text."""
    rows = [["arm", "in the contest", "seeds", "mean rank", "points", "first"]]
    for (arm, adapted), one in sorted(ranked.items()):
        rows.append(
            [
                arm,
                "learns" if adapted else "as it is",
                str(len(one.ranks)),
                f"{np.mean(list(one.ranks.values())):.2f}",
                f"{np.mean(list(one.points.values())):.0f}",
                f"{np.mean(list(one.firsts.values())):.1%}",
            ]
        )
    parts = [columns(rows)]
    for claim in claims:
        holds, difference = check(claim, ranked)
        found = "open: fewer than two pairs"
        if difference is not None:
            found = (
                f"{'holds' if holds else 'fails'}: difference of mean ranks "
                f"{difference.value:+.2f} [{difference.low:+.2f}, "
                f"{difference.high:+.2f}], p {difference.p:.3f}, "
                f"sign flips {difference.sign_flip_p:.3f}"
            )
        parts.append(f"{claim.text}\n  {found}")
    return "\n\n".join(parts) + "\n"
