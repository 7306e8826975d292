"""A strict world: several devices, no silent rank promotion, warnings are errors."""

import jax

jax.config.update("jax_num_cpu_devices", 4)  # pmap and shard_map paths really run
jax.config.update("jax_numpy_rank_promotion", "raise")
