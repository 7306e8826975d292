"""Lists the fields of a config: each as its flag, with its default and what it is for.

  python -m experiments.describe [--config=quickstart] [--config.field=value] [WORDS]

With words, only the fields whose name or comment has one of them.
"""

import sys
from typing import Any

from absl import app, flags

from agentic_grpo.training.plain_text import printable
from experiments.config import command_line, comments, fields
from experiments.configs import default

CONFIG = flags.DEFINE_string("config", "default", "Whose values are listed.")


def main(argv):
    dotted = [word for word in argv[1:] if word.startswith("-")]
    words = [word.lower() for word in argv[1:] if not word.startswith("-")]
    try:
        changes = command_line.split(dotted, "config")["config"]
        config = command_line.read_config(CONFIG.value, changes)
    except ValueError as error:
        sys.exit(printable(f"error: {error}"))
    print("\n".join(lines(dict(fields.flatten(config)), words)))


def lines(values: dict[str, Any], words: list[str]) -> list[str]:
    """One line per field: "--config.seed=3  (0)  what it is for".

    Args:
      values: {field: value}.
      words: small letters; some of them must be in the line.
    """
    usual = dict(fields.flatten(default.get_config()))
    told = []
    for field, value in values.items():
        parts = [f"--config.{field}={_typed(value)}"]
        if value != usual[field]:
            parts.append(f"(default {_typed(usual[field])})")
        if comments.of_fields()[field]:
            parts.append(f"# {comments.of_fields()[field]}")
        told.append("  ".join(parts))
    return [line for line in told if not words or any(w in line.lower() for w in words)]


def _typed(value):
    """As it is typed on a command line, but for the quotes that a shell wants."""
    return "none" if value is None else value


if __name__ == "__main__":
    app.run(main, argv=command_line.set_aside(sys.argv))
