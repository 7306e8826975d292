"""Runs jobs on ``plain_machine`` compiled by Numba; prints {"seconds": median}.

python numba_machine.py JOBS.npz REPEATS     (in an environment with numpy and numba)
"""

import json
import pathlib
import statistics
import sys
import time

import numba
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import plain_machine

plain_machine.matching_close = numba.njit(plain_machine.matching_close)
_run = numba.njit(plain_machine.run)


@numba.njit(parallel=True)
def run_all(programs, inputs, fuel, ending, output, used):
    for job in numba.prange(fuel.size):
        ending[job], output[job], used[job] = _run(
            programs[job], inputs[job, 0], inputs[job, 1], fuel[job]
        )


def main(path, repeats):
    jobs = {name: array.astype(np.int64) for name, array in np.load(path).items()}
    results = [np.zeros(jobs["fuel"].size, np.int64) for _ in range(3)]
    seconds = []
    for _ in range(1 + repeats):  # the first compiles
        started = time.perf_counter()
        run_all(jobs["programs"], jobs["inputs"], jobs["fuel"], *results)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": statistics.median(seconds[1:])}))


main(sys.argv[1], int(sys.argv[2]))
