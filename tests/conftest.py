"""A strict world: several devices, no silent rank promotion, warnings are errors."""

import ctypes
import gc

import jax
import pytest

from agentic_grpo.training import compile_cache

jax.config.update("jax_num_cpu_devices", 8)  # pmap and meshes really run
jax.config.update("jax_numpy_rank_promotion", "raise")

#: Of this process; asked for ``malloc_trim``, which other systems do not have.
LIBC = ctypes.CDLL(None)

compile_cache.enable()  # compiling is most of what the tests cost


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_programs():
    """Programs of one file are of no use to the next, and pile up to gigabytes.

    glibc keeps what was freed in the arena of each thread until it is asked for it.
    """
    yield
    jax.clear_caches()
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)
