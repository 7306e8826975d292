"""What a dispatch of the real clock reports beside what the device does."""

import numpy as np

from agentic_grpo.envs.host import HostEnvironment
from agentic_grpo.ops.reductions import Mean
from agentic_grpo.training.real_clock.books import Tally

#: Every name, and what it is; per tick where nothing else is said.
MEANINGS = {
    "clock/device_waited": "share of ticks in which nothing could be done but wait",
    "clock/held_back": "share of ticks in which the queue was too full to write",
    "clock/in_flight": "works that wait for an answer, when the learner steps",
    "clock/seconds_queued_p50": "median seconds from handing in to the start of a run",
    "clock/seconds_queued_p95": "the same, of all but the slowest twentieth",
    "clock/seconds_run_p50": "median seconds that programs ran",
    "clock/seconds_run_p95": "the same, of all but the slowest twentieth",
    "clock/lag_seconds_of_stages": "seconds from writing a stage to its answers",
    "clock/lag_seconds_of_verdicts": "seconds from a group's last stage to its verdict",
    "clock/lag_steps_of_stages": "learner steps from writing a stage to its answers",
    "clock/lag_steps_of_verdicts": "learner steps from the last stage to the verdict",
    "clock/late": "answers that came when nobody waited for them any more",
    "clock/absent": "members whose answer did not come by the deadline",
    "clock/faults": "answers that say that we failed (a worker died, say)",
    "clock/resubmitted": "works handed in again after a fault",
    "clock/cache_hits": "share of questions whose answer was known or on its way",
}


class Report:
    """Collects the numbers of some ticks."""

    def __init__(self, host: HostEnvironment):
        """``host`` counts its questions."""
        self._host = host
        self._asked, self._known = host.num_asked, host.num_known
        self._ticks: list[dict] = []
        self._seconds: dict[str, list[float]] = {"queued": [], "run": []}

    def note_arrivals(self, arrivals) -> None:
        """What was executed for them; what was known took no time."""
        for arrival in arrivals:
            if arrival.seconds_run > 0:
                self._seconds["queued"].append(arrival.seconds_queued)
                self._seconds["run"].append(arrival.seconds_run)

    def note_tick(
        self,
        tally: Tally,
        *,
        waited: bool,
        held_back: bool,
        in_flight: int,
        lags: tuple[list[float], list[float]],
    ) -> None:
        """One more tick: ``lags`` in seconds, of stages and of verdicts."""
        asked, known = self._host.num_asked, self._host.num_known
        self._ticks.append(
            {
                "clock/device_waited": _mean([waited]),
                "clock/held_back": _mean([held_back]),
                "clock/in_flight": in_flight,
                "clock/lag_seconds_of_stages": _mean(lags[0]),
                "clock/lag_seconds_of_verdicts": _mean(lags[1]),
                "clock/cache_hits": _over(known - self._known, asked - self._asked),
                **{f"clock/{name}": number for name, number in vars(tally).items()},
            }
        )
        self._asked, self._known = asked, known

    def stacked(self) -> dict:
        """The numbers with a leading axis of ticks."""
        stacked: dict[str, Mean | np.ndarray] = {}
        for name, first in self._ticks[0].items():
            values = [tick[name] for tick in self._ticks]
            if isinstance(first, Mean):
                totals, counts = zip(*values, strict=True)
                stacked[name] = _over(totals, counts)
            else:
                stacked[name] = np.asarray(values, np.float32)
        for kind, seconds in self._seconds.items():
            for percent in (50, 95):
                value = np.percentile(seconds, percent) if seconds else np.nan
                of_all = np.full(len(self._ticks), value, np.float32)
                stacked[f"clock/seconds_{kind}_p{percent}"] = of_all
        return stacked


def _mean(values):
    return _over(np.sum(values), len(values))


def _over(total, count) -> Mean:
    """A ``Mean`` of the host: in NumPy, with the axes of the arguments."""
    return Mean._make((np.asarray(total, np.float32), np.asarray(count, np.float32)))
