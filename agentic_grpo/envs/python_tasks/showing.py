"""Calls and values as short texts for people and agents."""

import reprlib


class _Short(reprlib.Repr):
    """A repr that stays short."""

    def __init__(self):
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 12
        self.maxstring, self.maxlong = 80, 60


_SHORT = _Short()


def show(value) -> str:
    """Like repr, but never long."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an int with too many digits to be written
        return "a very large number"


def show_call(entry: str, args) -> str:
    """``f(1, [2])``."""
    return f"{entry}({', '.join(map(show, args))})"
