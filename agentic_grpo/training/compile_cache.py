"""The persistent compile cache: the second run of a program does not compile again.

Compiled CPU code is not portable between machines and home folders are often shared, so
the folder is named after the processor and the version of jaxlib.
"""

import os
import pathlib
import tempfile

import jax
import jaxlib
from absl import logging

from agentic_grpo.training import host

#: A program that compiles faster than this is not worth a file.
MIN_COMPILE_SECONDS = 0.5

_DISABLED = ("", "off")


def enable(directory: str | None = None) -> pathlib.Path | None:
    """Turns the compile cache on; to be called before anything is compiled.

    Args:
      directory: where to keep compiled programs. None: ``JAX_COMPILATION_CACHE_DIR``
        where the user set it, else ``default_directory()``. "" or "off": no cache.

    Returns:
      The folder, or None where there is no cache. A folder that cannot be written is a
      warning, never an error: the run only takes longer to start.
    """
    if directory in _DISABLED:
        jax.config.update("jax_compilation_cache_dir", None)
        return None
    directory = directory or os.environ.get("JAX_COMPILATION_CACHE_DIR")
    try:
        folder = pathlib.Path(directory).expanduser() if directory else None
        folder = (folder or default_directory()).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        logging.warning(
            "No compile cache, so starting takes longer: %s. --compile_cache=DIR moves "
            "it, --compile_cache=off silences this.",
            error,
        )
        jax.config.update("jax_compilation_cache_dir", None)
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder


def default_directory() -> pathlib.Path:
    """The per-user folder: CACHE/agentic_grpo/PROCESSOR-jaxlibVERSION."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    name = f"{host.processor_slug()}-jaxlib{jaxlib.__version__}"
    return pathlib.Path(base).expanduser() / "agentic_grpo" / name
