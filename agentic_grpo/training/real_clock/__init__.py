"""The real clock: what is written is handed to the host, and answered when it is.

A tick is cut where the host comes in. ``pieces`` are its parts on the device; ``books``
know what was handed in and what came back; the ``journal`` has both on the disk, so
that a run goes on, or is played again bit for bit; ``sources`` are where news come
from, the host or a journal; ``clock`` puts them together.
"""
