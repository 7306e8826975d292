"""What the mains share: flags that mean the same everywhere, and how a program ends.

A main is a function of the words that absl leaves of the command line, and returns the
exit status (as ``sys.exit`` takes it). ``run`` runs it: a refusal is one line on stderr
and status 1.
"""

import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import jax
from absl import app, flags, logging

from agentic_grpo.training import paths
from agentic_grpo.training.checkpoint_errors import CheckpointError
from agentic_grpo.training.plain_text import printable
from experiments.config import command_line

#: Exit status after SIGINT or SIGTERM, by which scripts tell it from a failure.
INTERRUPTED = 130

flags.disclaim_key_flags()  # they belong to the main that asks for them: so says --help


def run(
    main: Callable[[Sequence[str]], object],
    *,
    takes_fields: bool = False,
    refusals: Sequence[type[Exception]] = (),
    goes_on: bool = False,
) -> NoReturn:
    """Runs a main and ends the program.

    Args:
      main: words -> exit status.
      takes_fields: whether flags of fields, as --config.FIELD=VALUE, may be among the
        words; else they are unknown flags.
      refusals: errors that are told in one line besides ValueError and CheckpointError;
        of any other the traceback is told.
      goes_on: whether the same command takes up what Ctrl-C has stopped, and says so.
    """

    def program(argv):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # Orbax tells a lot at INFO
        try:
            return main(argv[1:])
        except (ValueError, CheckpointError, *refusals) as error:
            refuse(str(error))
        except KeyboardInterrupt:
            if not goes_on:
                raise
            print("stopped, all saved; the same command goes on", file=sys.stderr)
            return INTERRUPTED

    argv = command_line.set_aside(sys.argv) if takes_fields else sys.argv
    app.run(program, argv=argv)


def refuse(why: str) -> NoReturn:
    """Ends the program with one line on stderr and status 1."""
    sys.exit(printable(f"error: {why}"))


def require_only_flags(words: Sequence[str], example: str) -> None:
    """Raises a ValueError, which shows how a flag looks, if any word is left."""
    if words:
        raise ValueError(f"{words[0]!r} is no flag; flags look like {example}")


def leave_accelerators_to_the_runs() -> None:
    """For a program that only starts others: what it computes itself is on the CPU."""
    jax.config.update("jax_platforms", "cpu")


def define_workdir(help_text: str = "The run's folder."):
    """--workdir, which has to be given."""
    return flags.DEFINE_string("workdir", None, help_text, required=True)


def define_tick():
    """--tick, of a checkpoint."""
    return flags.DEFINE_string(
        "tick", None, "Which checkpoint, or best; the newest by default."
    )


def define_compile_cache():
    """--compile_cache, for ``compile_cache.enable``."""
    return flags.DEFINE_string(
        "compile_cache", None, 'Folder of compiled programs; "off" for none.'
    )


def define_warm_start_cache(
    help_text: str = "Folder of base models that runs share; none by default.",
):
    """--warm_start_cache, for ``warm_start_folder``."""
    return flags.DEFINE_string("warm_start_cache", None, help_text)


def warm_start_folder(typed: str | None) -> pathlib.Path | None:
    """The folder that --warm_start_cache names; None if it names none."""
    return paths.locate(typed, "warm_start_cache") if typed else None


def define_parallel():
    """--parallel, of programs that start many runs."""
    return flags.DEFINE_integer("parallel", 1, "Runs side by side.", lower_bound=1)


def define_shard():
    """--shard, for ``scheduler.shard``."""
    return flags.DEFINE_string("shard", "1/1", "Which share of the runs, as 2/8.")


def define_vmap_seeds():
    """--vmap_seeds, of programs that start many runs."""
    return flags.DEFINE_bool(
        "vmap_seeds", False, "All seeds of a point in one program."
    )
