"""Files that are there whole or not at all, whoever dies while they are written."""

import contextlib
import os
import pathlib
import uuid
from collections.abc import Iterator
from typing import IO

#: Ends the names of files that are still being written.
UNFINISHED = ".partial"


@contextlib.contextmanager
def replacing(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Within the block a file is written that takes the place of ``path`` at its end.

    Until then it has a name of its own, so that any number of writers may do this at
    the same time: the last one stays. It is on the disk before it gets the name. After
    an exception within the block nothing has changed.

    Args:
      path: in a folder that exists.
      mode: "w" for text (UTF-8), "wb" for bytes.
    """
    path = pathlib.Path(path)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    encoding = None if "b" in mode else "utf-8"
    try:
        with unfinished.open(mode.replace("w", "x"), encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    """Makes the new name last; some file systems know no such thing."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
