"""Blocks of lanes and rows: [B, N, ...] as one batch [B * N, ...], and back."""

import jax


def merge(tree):
    """Leading axes [B, N, ...] -> [B * N, ...] of every leaf."""

    def merged(x):  # no -1: an array may be empty, of a stage that tells nothing
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])

    return jax.tree.map(merged, tree)


def unmerge(tree, num_blocks):
    """Leading axis [B * N, ...] -> [B, N, ...] of every leaf."""

    def apart(x):
        return x.reshape(num_blocks, x.shape[0] // num_blocks, *x.shape[1:])

    return jax.tree.map(apart, tree)


def first_here(num_blocks, axis_name):
    """Index of this device's first block among all of the run; it holds num_blocks."""
    return 0 if axis_name is None else jax.lax.axis_index(axis_name) * num_blocks
