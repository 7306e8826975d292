"""Lists the fields of a config: each as its flag, with its default and what it is for.

  python -m experiments.describe [--config=quickstart] [--config.field=value] [WORDS]

With words, only the fields whose name or comment has one of them.
"""

import sys

from absl import app, flags

from agentic_grpo.training.plain_text import printable
from experiments.config import command_line, comments, fields

CONFIG = flags.DEFINE_string("config", "default", "Whose values are listed.")


def main(argv):
    dotted = [word for word in argv[1:] if word.startswith("-")]
    words = [word.lower() for word in argv[1:] if not word.startswith("-")]
    try:
        changes = command_line.split(dotted, "config")["config"]
        config = command_line.read_config(CONFIG.value, changes)
    except ValueError as error:
        sys.exit(printable(f"error: {error}"))
    print("\n".join(comments.lines(dict(fields.flatten(config)), words)))


if __name__ == "__main__":
    app.run(main, argv=command_line.set_aside(sys.argv))
