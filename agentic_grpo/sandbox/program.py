"""What runs behind the walls: one program, called and listened to.

Lines of JSON go to the host on descriptor 3, as soon as there is something to say:
``{"broken": why}`` if the walls could not be raised; else ``{"ready": true}``, before
the program has had a say; then ``{"raised": , "text": }`` if the program could not be
loaded or ``{"loaded": , "printed": }``; then one line per call (`_answer`). Everything
after "ready" is the word of the program, which may as well write here itself.
"""

import builtins
import io
import json
import os
import random
import struct
import sys
import types

from agentic_grpo.sandbox import values
from agentic_grpo.sandbox.jobs import MAX_ARGUMENT_BYTES, MAX_TEXT

LINE, PEER = 3, 4  # to the host; to the other process of a check
_NAME = "program"  # of the module that the program becomes
_FILE = "<program>"
_LENGTH = struct.Struct("=I")
_MAX_MESSAGE = 32 << 20  # the largest answer that `Limits` allow, and room around it


class _Kept(io.TextIOBase):
    """A standard output that keeps its first characters."""

    def __init__(self, room):
        self._room = room
        self._parts = []

    def writable(self):
        return True

    def write(self, text):
        kept = text[: self._room]
        if kept:
            self._room -= len(kept)
            self._parts.append(kept)
        return len(text)

    def take(self):
        text = "".join(self._parts)
        self._parts.clear()
        return text


class _Unanswered(BaseException):
    """The program's process is gone or sends no answers; no checker should catch it."""


def main(confine):
    """Reads the job, raises the walls, plays the part that the job says.

    Args:
      confine: raises the walls.
    """
    try:
        job = json.loads(_read_all(LINE))
        confine()
    except BaseException as error:
        _say({"broken": f"{type(error).__name__}: {error}"})
        os._exit(0)
    _say({"ready": True})
    random.seed(0)  # the same program gives the same answers in every worker
    sys.argv[:] = [_NAME]
    sys.stdin = io.StringIO("")
    sys.stdout = sys.stderr = printed = _Kept(job["printed_characters"])
    try:
        module = _load(job["source"])
    except BaseException as error:
        _say({**_raised(error), "printed": printed.take()})
        os._exit(0)
    _say({"loaded": True, "printed": printed.take()})
    {"calls": _answer_calls, "serve": _serve, "check": _check}[job["part"]](
        job, module, printed
    )
    os._exit(0)


def _load(source):
    module = types.ModuleType(_NAME)
    sys.modules[_NAME] = module  # dataclasses look there
    exec(compile(source, _FILE, "exec", dont_inherit=True), module.__dict__)
    return module


def _answer_calls(job, module, printed):
    room = job["answer_bytes"]
    for arguments in job["arguments"]:
        line = _answer(module, job["entry"], arguments, room)
        room -= len(json.dumps(line)) if "value" in line else 0
        _say({**line, "printed": printed.take()})


def _answer(module, entry, arguments, room):
    """One of value, raised (and text), not plain, too large, as the key of a dict."""
    try:
        value = getattr(module, entry)(*values.unpack(arguments))
    except BaseException as error:
        return _raised(error)
    try:
        return {"value": values.pack(value, limit=room)}
    except values.NotPlain as error:
        return {"not plain": str(error)}
    except values.TooLarge as error:
        return {"too large": str(error)}


def _raised(error):
    """An exception as two short texts, with the line of the program if it has one."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    where = "" if line is None else f"line {line}"
    text = text[: MAX_TEXT - len(where) - 3]
    return {
        "raised": type(error).__name__[:MAX_TEXT],
        "text": f"{text} ({where})" if text and where else text or where,
    }


# The two parts of a check. A message is its length and JSON.


def _serve(job, module, printed):
    """Answers the checker's process until it is done; it then ends this one."""
    while True:
        packed = json.loads(_receive())
        line = _answer(module, job["entry"], packed, job["answer_bytes"])
        printed.take()
        _post(line)


def _check(job, module, printed):
    """Runs ``check(candidate)`` and says what came of it in one line.

    {"passed": true}; {"failed": the exception}; {"candidate": the answer} if it is the
    exception that stands for an answer without a value; {"gone": why} if the other
    process ended; {"garbled": why} if what it sent is no answer.
    """
    raised, answer = None, None

    def candidate(*arguments):
        nonlocal raised, answer
        answer = _ask(arguments)
        if "value" in answer:
            return _unpacked(answer["value"])
        raised = _exception(answer)
        raise raised

    try:
        module.check(candidate)
        line = {"passed": True}
    except _Unanswered as error:
        line = error.args[0]
    except BaseException as error:
        own = error is raised
        line = {"candidate": answer} if own else {"failed": _raised(error)}
    _say(line)


def _ask(arguments):
    """The answer of the program's process to a call, a dict."""
    packed = values.pack(list(arguments), limit=MAX_ARGUMENT_BYTES)
    try:
        _post(packed)
        answer = values.parse(_receive())
    except (EOFError, OSError) as error:
        raise _Unanswered({"gone": str(error)}) from None
    except ValueError as error:
        raise _Unanswered({"garbled": str(error)}) from None
    if not isinstance(answer, dict):
        raise _Unanswered({"garbled": "an answer that is no object"})
    return answer


def _unpacked(value):
    try:
        return values.unpack(value)
    except ValueError as error:
        raise _Unanswered({"garbled": str(error)}) from None


def _exception(answer):
    """The built-in exception that was raised, else a RuntimeError that tells of it."""
    name, text = answer.get("raised"), str(answer.get("text", answer))
    kind = vars(builtins).get(name) if isinstance(name, str) else None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(text)
        except TypeError:  # wants more arguments, as UnicodeDecodeError does
            pass
    return RuntimeError(f"{name}: {text}")


# bytes


def _say(line):
    _write_all(LINE, json.dumps(line).encode() + b"\n")


def _post(message):
    text = json.dumps(message).encode()
    _write_all(PEER, _LENGTH.pack(len(text)) + text)


def _receive():
    (length,) = _LENGTH.unpack(_read_exactly(_LENGTH.size))
    if length > _MAX_MESSAGE:
        raise ValueError(f"a message of {length} bytes; at most {_MAX_MESSAGE}")
    return _read_exactly(length)


def _read_exactly(count):
    data = bytearray()
    while len(data) < count:
        part = os.read(PEER, min(count - len(data), 1 << 16))
        if not part:
            raise EOFError("the candidate's process has ended")
        data += part
    return bytes(data)


def _read_all(descriptor):
    parts = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def _write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]
