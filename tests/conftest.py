"""A strict world: several devices, no silent rank promotion, warnings are errors."""

import gc

import jax
import pytest

from agentic_grpo.training import compile_cache

jax.config.update("jax_num_cpu_devices", 8)  # pmap and meshes really run
jax.config.update("jax_numpy_rank_promotion", "raise")

compile_cache.enable()  # compiling is most of what the tests cost


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_programs():
    """Programs of one file are of no use to the next, and pile up to gigabytes."""
    yield
    jax.clear_caches()
    gc.collect()
