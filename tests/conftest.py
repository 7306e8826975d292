"""A strict world: several devices, no silent rank promotion, warnings are errors."""

import jax

from agentic_grpo.training import compile_cache

jax.config.update("jax_num_cpu_devices", 8)  # pmap and meshes really run
jax.config.update("jax_numpy_rank_promotion", "raise")

compile_cache.enable()  # compiling is most of what the tests cost
