"""What the processes of a job read on their line; see `program`."""

import json

from agentic_grpo.sandbox import jobs, values


def of_job(job: jobs.Calls | jobs.Check) -> list[bytes]:
    """What each process of a job reads, the program's own first.

    Raises:
      ValueError: the job is none; names the field.
    """
    if not (isinstance(job.program, str) and isinstance(job.entry, str)):
        raise ValueError("program and entry must be text")
    if not job.entry.isidentifier():
        raise ValueError(f"entry is {job.entry!r}; it must be the name of a function")
    common = {
        "entry": job.entry,
        "answer_bytes": job.limits.answer_bytes,
        "printed_characters": job.limits.printed_characters,
    }
    if isinstance(job, jobs.Check):
        if len(job.checker.encode()) > jobs.MAX_CHECKER_BYTES:
            raise ValueError(f"checker is longer than {jobs.MAX_CHECKER_BYTES} bytes")
        parts = [
            {"part": "serve", "source": job.program},
            {"part": "check", "source": job.checker},
        ]
    else:
        parts = [
            {
                "part": "calls",
                "source": job.program,
                "arguments": _packed_arguments(job.arguments),
            }
        ]
    return [json.dumps({**common, **part}).encode() for part in parts]


def _packed_arguments(arguments):
    if not 1 <= len(arguments) <= jobs.MAX_CALLS:
        raise ValueError(
            f"arguments has {len(arguments)} calls; it must have 1 to {jobs.MAX_CALLS}"
        )
    packed, room = [], jobs.MAX_ARGUMENT_BYTES
    for index, one in enumerate(arguments):
        if not isinstance(one, tuple | list):
            raise ValueError(
                f"arguments[{index}] is {one!r}; it must be the tuple of what is passed"
            )
        try:
            packed.append(values.pack(list(one), limit=room))
        except ValueError as error:
            raise ValueError(f"arguments[{index}]: {error}") from None
        room -= len(json.dumps(packed[-1]))
    return packed
