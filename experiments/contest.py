"""Contests: a run's checkpoint among a field, on unseen problems, against the clock.

  python -m experiments.contest --workdir=runs/quickstart [--adapt] \
      [--field=runs/a,runs/b] [--scripted=100] [--schedule=by_difficulty] \
      [--contests=50] [--problems=7] [--compositions=2] [--ticks=60] [--budget=16]

A contest is a few unseen problems of rising level, a clock in ticks and a budget of
members that write a stage per tick. The agent decides by visible tests and its own what
to hand in; verdicts come late, wrong ones cost (``experiments.contests.scoring``). With
--adapt it keeps learning during each contest, from its checkpoint anew in each, on what
a contestant has. The scripted field is a stand-in for people and nothing more
(``experiments.contests.contestants``).

Prints the standings of the first contest and the ranks over all; writes
contest.json, or with --adapt contest_adapted.json, into the run's folder, or --output.

  python scripts/show_contest.py runs/quickstart/contest.json --html=contest.html
"""

import pathlib

import jax
from absl import flags

from agentic_grpo.errors import require
from agentic_grpo.training import compile_cache, paths
from agentic_grpo.training.json_files import write_json
from agentic_grpo.training.streams import Stream, key_of
from experiments import front
from experiments.contests import contestants, problems, results, standings, study
from experiments.contests.desk import DeskSettings
from experiments.contests.entering import Entry, enter, read_env
from experiments.contests.play import play
from experiments.runs import finding

WORKDIR = front.define_workdir()
TICK = front.define_tick()
FIELD = flags.DEFINE_list("field", [], "Folders of runs that compete in the same.")
ADAPT = flags.DEFINE_bool("adapt", False, "Keep learning during each contest.")
SCRIPTED = flags.DEFINE_integer("scripted", 100, "Scripted contestants.")
FIELD_SEED = flags.DEFINE_integer("field_seed", 0, "Of the scripted contestants.")
CONTESTS = flags.DEFINE_integer("contests", 50, "How many.")
PROBLEMS = flags.DEFINE_integer("problems", 7, "Of a contest.")
COMPOSITIONS = flags.DEFINE_integer(
    "compositions", 2, "Of them, how many are held-out compositions."
)
TICKS = flags.DEFINE_integer("ticks", 60, "Of the clock.")
BUDGET = flags.DEFINE_integer("budget", 16, "Members that write a stage in each tick.")
SCHEDULE = flags.DEFINE_string(
    "schedule", "round_robin", "What is worked on: round_robin, by_difficulty."
)
LIMIT = flags.DEFINE_integer("limit", 6, "Submissions that a problem allows.")
PER_GROUP = flags.DEFINE_integer(
    "per_group", 2, "Programs of a group that are handed in together."
)
LEARNING_RATE = flags.DEFINE_float(
    "learning_rate", None, "With --adapt; the peak of the run's own by default."
)
AT_ONCE = flags.DEFINE_integer(
    "at_once", 1, "Contests that learn side by side; more for an accelerator."
)
SEED = flags.DEFINE_integer("seed", 0, "Of the contests.")
OUTPUT = flags.DEFINE_string("output", None, "A JSON file; in the run's folder else.")
COMPILE_CACHE = front.define_compile_cache()


def main(words):
    front.require_only_flags(words, "--ticks=60")
    folder = paths.locate_workdir(WORKDIR.value)
    compile_cache.enable(COMPILE_CACHE.value)
    output = _output(folder)
    found = run(folder)
    write_json(output, results.to_json(found, _settings()))
    agents = range(len(found.desks))
    print(standings.table(found.contests[0], always=agents), end="\n\n")
    print(standings.overview(found.records), end="\n\n")
    print(output)


def run(folder: pathlib.Path) -> results.Results:
    """Plays the contests of the flags.

    Raises:
      ValueError: names the flag or field, its value and the rule.
    """
    entry = Entry(
        num_ticks=TICKS.value,
        budget=BUDGET.value,
        learning_rate=LEARNING_RATE.value,
        compositions=COMPOSITIONS.value > 0,
    )
    require(
        LEARNING_RATE.value is None or ADAPT.value,
        "learning_rate",
        LEARNING_RATE.value,
        "left out without --adapt: nothing is learnt",
    )
    require(AT_ONCE.value >= 1, "at_once", AT_ONCE.value, "at least 1")
    settings = DeskSettings(
        schedule=SCHEDULE.value, limit=LIMIT.value, per_group=PER_GROUP.value
    )
    field = contestants.draw(SCRIPTED.value, FIELD_SEED.value)
    env = read_env(folder, entry)
    agents = [enter(folder, env, entry, name=folder.name, tick=TICK.value)]
    for name, other in _field_folders(folder).items():
        agents.append(enter(other, env, entry, name=name))
    key = key_of(Stream.CONTEST, SEED.value)
    program = agents[0].program
    drawn = problems.draw(
        program.environment,
        jax.random.fold_in(key, 0),
        num_contests=CONTESTS.value,
        num_problems=PROBLEMS.value,
        num_compositions=COMPOSITIONS.value,
        num_members=program.rollout.num_members,
    )
    desks = {
        agent.name: play(
            agent,
            drawn,
            jax.random.fold_in(key, 1),
            settings,
            num_ticks=entry.num_ticks,
            adapts=ADAPT.value,
            at_once=AT_ONCE.value,
        )
        for agent in agents
    }
    return results.compete(desks, field, drawn, entry.num_ticks)


def _field_folders(folder) -> dict[str, pathlib.Path]:
    """{name: folder} of --field; a name is as much of a path as tells it apart."""
    found = [paths.locate(path, "field") for path in FIELD.value]
    for path in found:
        require(
            path.is_dir() and finding.holds_run(path),
            "field",
            str(path),
            "the folder of a run (or leave it out for the scripted field alone)",
        )
    every = [folder, *found]
    require(
        len(set(every)) == len(every), "field", FIELD.value, "other runs, each once"
    )
    depth = 1
    while len({path.parts[-depth:] for path in every}) < len(every):
        depth += 1
    return {"/".join(path.parts[-depth:]): path for path in found}


def _output(folder) -> pathlib.Path:
    if OUTPUT.value is None:
        return folder / study.FILES[ADAPT.value]
    output = paths.locate(OUTPUT.value, "output")
    require(not output.is_dir(), "output", str(output), "a file, not a folder")
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


def _settings() -> dict:
    """The flags that say what was played."""
    chosen = (WORKDIR, TICK, FIELD, ADAPT, SCRIPTED, FIELD_SEED, CONTESTS, PROBLEMS)
    chosen += (COMPOSITIONS, TICKS, BUDGET, SCHEDULE, LIMIT, PER_GROUP, LEARNING_RATE)
    return {flag.name: flag.value for flag in (*chosen, SEED)}


if __name__ == "__main__":
    front.run(main, refusals=[OSError])
