"""Streams of randomness, one for each use, that have no key in common by construction.

A key of a run is ``fold_in(key(seed), stream)`` and nothing else is: equal seeds differ
by their stream, equal streams by their seed. What is drawn within a stream folds once
more (a step, a tick, a problem), and so never meets a key of another stream.
"""

import enum

import jax


class Stream(enum.IntEnum):
    """What randomness is for. A number that is given stays: results depend on it."""

    INIT = 1  # parameters of the model
    WARM_START = 2  # problems and episodes of the pre-training
    RUN = 3  # problems, samples and latencies of training
    EVALUATION = 4  # held-out problems and their samples
    ADAPTER = 5  # parameters of an adapter
    CONTEST = 6  # problems of contests, and what is sampled in them


def key_of(stream: Stream, seed: int) -> jax.Array:
    """The typed key of a stream."""
    return jax.random.fold_in(jax.random.key(seed), stream)
