"""Lists the fields of a config: each as its flag, with its default and what it is for.

  python -m experiments.describe [--config=quickstart] [--config.field=value] [WORDS]

With words, only the fields whose name or comment has one of them.
"""

from absl import flags

from experiments import front
from experiments.config import command_line, comments, fields

CONFIG = flags.DEFINE_string("config", "default", "Whose values are listed.")


def main(words):
    typed = [word for word in words if word.startswith("-")]
    sought = [word.lower() for word in words if not word.startswith("-")]
    changes = command_line.split(typed, "config")["config"]
    config = command_line.read_config(CONFIG.value, changes)
    print("\n".join(comments.lines(dict(fields.flatten(config)), sought)))


if __name__ == "__main__":
    front.run(main, takes_fields=True)
