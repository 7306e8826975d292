"""agentic_grpo's part of ``benchmark_peers``."""

import pathlib
import sys

import jax
import turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from agentic_grpo.training import compile_cache, devices
from scripts.benchmarks import workloads


def work_of(name, vocabulary, sizes):
    if name == "learner":
        return workloads.learner_step(sizes, vocabulary)[0]
    if name == "decoding":
        return workloads.decoding(sizes, vocabulary)
    devices.split_cpu(data=0, num_blocks=workloads.JOB_BLOCKS)
    program, layout = workloads.job_program(sizes), workloads.job_layout()
    return workloads.dispatch_of(program, num_ticks=1, layout=layout)


def main():
    compile_cache.enable()
    options = turns.settings()
    sizes = workloads.Sizes(
        **{k: _hashable(v) for k, v in options["sizes"].items()},
    )
    work = work_of(options["work"], options["vocabulary"], sizes)
    turns.serve(lambda: jax.block_until_ready(work()))


def _hashable(value):
    return tuple(map(tuple, value)) if isinstance(value, list) else value


main()
