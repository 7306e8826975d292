"""The persistent compile cache: the second run of a program does not compile again.

Compiled CPU code is not portable between machines and home folders are often shared, so
the folder is named after the processor and the version of jaxlib.
"""

import os
import pathlib
import stat
import tempfile
import time
import zlib

import jax
import jaxlib
from absl import logging

from agentic_grpo.training import host, paths

#: A program that compiles faster than this is not worth a file.
MIN_COMPILE_SECONDS = 0.5

#: An entry that is younger may still be being written.
SECONDS_TO_WRITE = 60.0

_DISABLED = ("", "off")
_CHECKED = ".checked"  # its time is that of the newest entry that was looked at


def locate(directory: str | None) -> str | None:
    """``directory`` of ``enable`` for a process that starts in another folder.

    Raises:
      ValueError: it names nobody's home.
    """
    if directory is None or directory in _DISABLED:
        return directory
    return str(paths.locate(directory, "compile_cache"))


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
        located = locate(directory) if directory else None
        folder = pathlib.Path(located) if located else default_directory()
        folder.mkdir(parents=True, exist_ok=True)
        _require_no_strangers(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
        remove_half_written(folder)
    except (OSError, ValueError) as error:  # ValueError: the user has no home
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
    return paths.locate(base, "XDG_CACHE_HOME") / "agentic_grpo" / name


def remove_half_written(folder: pathlib.Path) -> None:
    """Removes entries whose end is missing: their program was killed as it wrote them.

    JAX warns of such an entry at every start, compiles anew, and never replaces it.
    Every entry is looked at once: those that are older than the last look are whole.
    """
    until, stamp = time.time() - SECONDS_TO_WRITE, folder / _CHECKED
    since = stamp.stat().st_mtime if stamp.exists() else 0.0
    for path in folder.glob("*-cache"):
        try:
            if since <= path.stat().st_mtime < until and not _is_whole(path):
                path.unlink()
        except FileNotFoundError:  # another process was quicker
            continue
    stamp.touch()
    os.utime(stamp, (until, until))


def _is_whole(path):
    """Whether a compressed entry has its end; True of what is not compressed by zlib.

    (With the package zstandard, JAX takes zstd, whose frames end in no mark that can be
    told without it.)
    """
    content = path.read_bytes()
    if content[:1] not in (b"", b"\x78"):
        return True
    reader = zlib.decompressobj()
    try:
        while content and not reader.eof:
            reader.decompress(content, 1 << 24)  # never all of it at one time
            content = reader.unconsumed_tail
    except zlib.error:
        return False
    return reader.eof


def _require_no_strangers(folder):
    """Compiled programs are run as they are: whoever may write them may run code."""
    status = folder.stat()
    is_mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if not is_mine and status.st_mode & stat.S_IWOTH:
        raise ValueError(f"{folder} belongs to somebody else, and anybody may write it")
