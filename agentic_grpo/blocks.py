"""Blocks of lanes and rows: [B, N, ...] as one batch [B * N, ...], and back."""

import jax


def merge(tree):
    """Leading axes [B, N, ...] -> [B * N, ...] of every leaf."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def unmerge(tree, num_blocks):
    """Leading axis [B * N, ...] -> [B, N, ...] of every leaf."""
    return jax.tree.map(lambda x: x.reshape(num_blocks, -1, *x.shape[1:]), tree)


def first_here(num_blocks, axis_name):
    """Index of this device's first block among all of the run; it holds num_blocks."""
    return 0 if axis_name is None else jax.lax.axis_index(axis_name) * num_blocks
