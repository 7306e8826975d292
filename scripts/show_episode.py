"""Shows one group of episodes as a person would want to read it.

    python scripts/show_episode.py runs/quickstart
    python scripts/show_episode.py runs/quickstart --tick=100 --group=3 --html=a.html
    python scripts/show_episode.py runs/quickstart --row=5
    python scripts/show_episode.py --config=experiments/configs/quickstart.py \
        --config.env.name=tool_workflow

Three kinds of episodes:

* of a checkpoint: a settled group is not kept, so one is *played anew* with the
  checkpoint's parameters, on the simulated clock, and paid by the run's credit rule
  with the moments that the checkpoint holds. No learner step comes in between, so this
  is what the group would earn, not one that was trained on; two calls with the same
  ``--seed`` and ``--group`` show the same problem;
* in flight (``--row``): what the checkpoint really holds of a group that is not settled
  yet, as it was sampled, with what it still waits for;
* of the scripted agent of a config (``--config``), paid by the rule at its start.

Stage by stage: the statement, what was written, what was executed, rewards, the ticks
at which they arrive, advantage applied and its correction, log-probs and staleness.
"""

import argparse
import pathlib
import sys

import jax
import rich.console

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agentic_grpo import episodes
from agentic_grpo.training import bases, paths, run_folder
from agentic_grpo.training.checkpoints import CheckpointError, Checkpoints
from agentic_grpo.training.plain_text import printable
from agentic_grpo.training.streams import Stream, key_of
from experiments.config import command_line
from experiments.config.build import build, state_shapes
from experiments.runs import finding, workdir
from scripts.viewing import in_flight, page, replayed, terminal
from scripts.viewing.story import Story


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        story = tell(options)
        members = chosen(options.members, len(story.endings))
    except (ValueError, OSError, CheckpointError) as error:
        sys.exit(printable(f"show_episode: {error}"))
    terminal.show(story, rich.console.Console(width=options.width), members)
    if options.html is not None:
        options.html.parent.mkdir(parents=True, exist_ok=True)
        options.html.write_text(page.render(story, members), encoding="utf-8")
        print(options.html)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("workdir", nargs="?", help="the folder of a run")
    add("--tick", help="of the checkpoint, or best; the newest by default")
    add("--row", type=int, help="of the checkpoint's table: a group in flight")
    add(
        "--config",
        metavar="FILE [--config.FIELD=VALUE ...]",
        help="its scripted agent, instead of a run",
    )
    add("--split", default="test", help="of the environment's problems")
    add("--seed", type=int, help="of the problems; the config's by default")
    add("--group", type=int, default=0, help="which problem of the seed")
    add("--greedy", action="store_true", help="the most probable tokens, not a draw")
    add("--members", default="", help="whom to show: 0,2,5; all by default")
    add("--html", type=pathlib.Path, help="write a page to this file as well")
    add("--width", type=int, help="columns of the terminal; found out by default")
    options, rest = parser.parse_known_args(arguments)
    try:
        options.changes = command_line.split(rest, "config")["config"]
        if options.workdir is not None:
            options.workdir = paths.locate_workdir(options.workdir)
    except ValueError as error:
        parser.error(str(error))
    if (options.workdir is None) == (options.config is None):
        parser.error("give either the folder of a run or --config=FILE")
    if options.changes and options.config is None:
        parser.error("--config.FIELD changes --config; a run's config is what it was")
    if options.row is not None and options.config is not None:
        parser.error("--row is a row of a checkpoint; a scripted agent has none")
    return options


def tell(options: argparse.Namespace) -> Story:
    """The story that the options ask for.

    Raises:
      ValueError: no run is there, or no such row, split or member.
      CheckpointError: no checkpoint is there, or it is another configuration's.
    """
    if options.config is not None:
        return of_scripted_agent(options)
    config, experiment = workdir.load_experiment(options.workdir)
    with Checkpoints(options.workdir / "checkpoints") as checkpoints:
        state, _ = bases.restore(
            checkpoints,
            experiment.frozen_base,
            state_shapes(experiment),
            finding.step_named(checkpoints, options.tick),
            check=lambda notes: run_folder.require_notes_of(
                notes, workdir.settings_of(config), options.workdir
            ),
        )
    if options.row is not None:
        return in_flight.tell(experiment.program, state, options.row)
    act = replayed.actor(
        experiment.program, state.learner.policy_params, greedy=options.greedy
    )
    with experiment.at_work():
        return replayed.tell(
            experiment.program,
            act,
            state.credit,
            group_key(options, config),
            title=f"{options.workdir.name}, checkpoint of tick {int(state.tick)}, "
            f"{options.split} problem {options.group}, "
            f"credit {config.algorithm.credit}",
            first_step=int(state.learner.step),
            split=options.split,
        )


def of_scripted_agent(options: argparse.Namespace) -> Story:
    """A group of the scripted agent of a config."""
    config = command_line.read_config(options.config, options.changes)
    experiment = build(config)
    if experiment.agent is None:
        raise ValueError(
            f"config={options.config!r} must have a scripted agent; it has none "
            "without a warm start: --config.warm_start.num_steps=25"
        )
    with experiment.at_work():
        return replayed.tell(
            experiment.program,
            episodes.write_with(experiment.agent),
            experiment.program.credit_rule.init(),
            group_key(options, config),
            title=f"scripted agent of {config.env.name}, {options.split} problem "
            f"{options.group}, credit {config.algorithm.credit}",
            split=options.split,
            is_scripted=True,
        )


def group_key(options: argparse.Namespace, config) -> jax.Array:
    """The key of a problem of the evaluation, of the config's seed or another."""
    seed = config.evaluation.seed if options.seed is None else options.seed
    return jax.random.fold_in(key_of(Stream.EVALUATION, seed), options.group)


def chosen(members: str, count: int) -> list[int]:
    """The members that ``0,2,5`` names; all of them where it is empty.

    Raises:
      ValueError: one is no number, or not in the group.
    """
    if not members:
        return list(range(count))
    numbers = members.split(",")
    bad = [n for n in numbers if not n.isdigit() or int(n) >= count]
    if bad:
        raise ValueError(f"members={bad[0]!r} must be a number below {count}")
    return [int(n) for n in numbers]


if __name__ == "__main__":
    main()
