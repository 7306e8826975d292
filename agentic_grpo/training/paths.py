"""The one place that turns what a person typed into a path.

``~`` is a home folder for a shell in some places (``--workdir ~/x``) and not in others
(``--workdir=~/x``), and a relative path means another folder to a process that is
started elsewhere. So every program locates its paths first of all, here, and whatever
is below it is handed absolute ones.
"""

import os
import pathlib

#: What Orbax takes for a pattern when it lists a folder of checkpoints: they would be
#: written, and never be found again.
PATTERN_CHARACTERS = "*?[]\\"


def locate(path: str | os.PathLike, what: str = "path") -> pathlib.Path:
    """The absolute path, with ``~`` and ``~somebody`` replaced by their home folders.

    Args:
      path: as it was typed.
      what: the name of the flag or field, for the error.

    Raises:
      ValueError: it is empty, or nobody of that name has a home here.
    """
    if not os.fspath(path):
        raise ValueError(f"{what}='' must be the name of a file or folder")
    try:
        return pathlib.Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"{what}={os.fspath(path)!r} is nowhere: {error}") from error


def locate_workdir(path: str | os.PathLike, what: str = "workdir") -> pathlib.Path:
    """The same for a folder that will hold checkpoints.

    Raises:
      ValueError: also where checkpoints could be written, but not be read again.
    """
    located = locate(path, what)
    wrong = [c for c in PATTERN_CHARACTERS if c in str(located)]
    if wrong:
        raise ValueError(
            f"{what}={str(located)!r} must be free of {' '.join(wrong)} in all of its "
            "parents too: checkpoints below it could not be read again. Choose another "
            "folder, or rename its parent"
        )
    return located


def identity(directory: pathlib.Path) -> tuple[int, int] | None:
    """Which folder this is, whatever its name; None where there is none."""
    try:
        found = directory.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
