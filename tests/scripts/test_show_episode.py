"""Episodes as a person reads them: what is told, what adds up, what is refused."""

import dataclasses
import io
import json
import re
import shutil

import jax
import numpy as np
import pytest
import rich.console
import toy_environment as toy

from agentic_grpo import episodes
from agentic_grpo.envs import code_execution
from experiments.config.build import build
from scripts import show_episode
from scripts.viewing import page, readers, replayed, terminal, wording


def options(*arguments):
    return show_episode.parse([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def story(run):
    """A group of the checkpoint, played anew."""
    return show_episode.tell(options(run))


def test_every_stage_of_every_member_is_told(story):
    assert [stage.name for stage in story.stages] == ["plan", "call", "revise"]
    assert story.statement.split()[0] in ("settled", "moving")
    assert len(story.endings) == 4
    first = story.stages[0]
    assert first.written_at == 0 and first.ready_at == 1 and first.version is not None
    for writing in first.writings:
        assert writing.num_tokens == 1 and writing.log_prob < 0.0
        assert writing.executed[0].startswith("reads from ")


def test_both_phases_add_up_to_one_outcome_advantage_per_member(story):
    # applied + corrected = A_outcome on every stage; a lost service would break it.
    for member, ending in enumerate(story.endings):
        sums = [
            writing.applied + writing.corrected
            for stage in story.stages
            if (writing := stage.writings[member]) is not None
        ]
        np.testing.assert_allclose(sums, sums[0], atol=1e-5)
        assert ending.verdict is not None
    last = story.services[-1]
    assert last.events[-1] == "verdict" and last.tick == story.verdict_at
    assert last.staleness["plan"] == last.tick  # one learner step per tick at most


def test_the_same_seed_and_group_tell_the_same_story_and_others_do_not(run, story):
    assert show_episode.tell(options(run)) == story
    other = show_episode.tell(options(run, "--group=1"))
    assert other.statement != story.statement


def test_the_page_needs_nothing_else_and_has_every_member(run, story, tmp_path, capsys):
    path = tmp_path / "pages" / "group.html"
    show_episode.main([str(run), f"--html={path}", "--width=120", "--members=0,2"])
    printed = capsys.readouterr().out
    assert "checkpoint of tick 8" in printed and "what the learner was given" in printed
    text = path.read_text(encoding="utf-8")
    assert "member 0" in text and "member 2" in text and "member 1" not in text
    assert not re.search(r"https?://|<link|<script|src=", text)
    assert text.count("<svg") == 1 and "<title>small, checkpoint" in text


#: A page would run it, rich would eat or refuse it, a terminal would obey it.
WILD = "<script>[draft][/b]\x1b[2J\x9b"


def made_wild(value):
    """The same story with something wild in every text of it."""
    if isinstance(value, str):
        return value + WILD
    if isinstance(value, tuple):
        return tuple(map(made_wild, value))
    if isinstance(value, dict):
        return {made_wild(key): item for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        changed = {
            f.name: made_wild(getattr(value, f.name)) for f in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **changed)
    return value


def test_what_is_told_stays_text_on_the_page_and_on_the_terminal(story):
    wild = made_wild(dataclasses.replace(story, awaited=("the verdict",)))
    text = page.render(wild, [0, 1])
    assert "<script" not in text and "&lt;script&gt;[draft]" in text
    stream = io.StringIO()
    terminal.show(wild, rich.console.Console(width=400, file=stream), [0, 1])
    printed = stream.getvalue()
    for title in (wild.title, wild.statement, wild.level, *wild.notes, *wild.awaited):
        assert title.replace("\x1b", "\\x1b").replace("\x9b", "\\x9b") in printed
    for stage in wild.stages:
        assert stage.name.partition("\x1b")[0] in printed
    assert "\x1b" not in printed and "\x9b" not in printed


def test_members_that_did_the_same_are_told_once_on_the_terminal(small_config):
    config = small_config()
    experiment = build(config)
    options_ = options("--config=x", "--group=3")
    told = replayed.tell(
        experiment.program,
        episodes.write_with(experiment.agent),
        experiment.program.credit_rule.init(),
        show_episode.group_key(options_, config),
        title="hasty agents",
        is_scripted=True,
    )
    assert all(w.log_prob is None for w in told.stages[0].writings if w)
    console = rich.console.Console(width=110, record=True, file=io.StringIO())
    terminal.show(told, console, [0, 1, 2, 3])
    plan = console.export_text().split("call  estimate")[0]
    rows = re.findall(r"(?m)^ +(\d[\d ]*?)   (?:cache|origin)", plan)
    assert len(rows) == len(set(told.stages[0].writings))
    assert sorted(" ".join(rows).split()) == ["0", "1", "2", "3"]


def test_a_row_in_flight_says_what_it_waits_for(run):
    with pytest.raises(
        ValueError, match=r"row=99 holds no episodes.*in flight: ([\d, ]+)"
    ) as e:
        show_episode.tell(options(run, "--row=99"))
    rows = re.search(r"in flight: ([\d, ]+)", str(e.value)).group(1).split(", ")
    told = [show_episode.tell(options(run, f"--row={row}")) for row in rows]
    awaited = [line for story in told for line in story.awaited]
    assert any(re.fullmatch(r"verdict: at tick \d+, in \d+", a) for a in awaited)
    assert any(a.startswith("still writing: ") for a in awaited)
    for story in told:
        later = [s for s in story.stages if s.ready_at is not None and s.ready_at > 8]
        assert all(w.reward is None for s in later for w in s.writings if w)
        for stage in story.stages:
            for writing in filter(None, stage.writings):
                assert writing.log_prob_now is not None and writing.executed == ()


def test_numbers_and_moments_are_worded_alike_everywhere():
    assert wording.number(None) == "-" and wording.number(-0.001) == "0.00"
    assert wording.signed(0.0) == "0.00" and wording.signed(0.25) == "+0.25"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--row=99"], "row=99 holds no episodes"),
        (["--tick=5"], "holds no step 5; it holds [0, 8]"),
        (["--split=weekend"], "split='weekend' must be"),
        (["--members=0,4"], "members='4' must be a number below 4"),
        (["--members=a"], "members='a'"),
    ],
)
def test_a_wrong_option_is_an_error_in_one_sentence(run, arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        show_episode.main([str(run), *arguments])
    assert words in str(caught.value) and "show_episode: " in str(caught.value)


def test_a_folder_without_a_run_or_checkpoint_is_said_so(run, tmp_path):
    with pytest.raises(SystemExit, match="no run is there"):
        show_episode.main([str(tmp_path)])
    shutil.copy(run / "config.json", tmp_path)
    with pytest.raises(SystemExit, match="holds no checkpoint"):
        show_episode.main([str(tmp_path)])


def test_a_checkpoint_of_another_environment_is_refused(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    config = json.loads((other / "config.json").read_text())
    config["env"]["name"] = "code_execution"
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(SystemExit, match=r"env\.name: 'tool_workflow' there, 'code_ex"):
        show_episode.main([str(other)])


def test_a_config_of_another_version_is_refused(run, tmp_path):
    config = json.loads((run / "config.json").read_text())
    del config["learner"]["num_microbatches"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        SystemExit, match=r"config\.json: 'learner\.num_microbatches' is missing"
    ):
        show_episode.main([str(tmp_path)])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["env.nam=x"], "did you mean 'env.name'"),
        (["env.name"], "needs a value"),
        (["rollout.group_size=x"], "rollout.group_size='x' must be an int"),
        (["env.name=chess"], "env.name='chess' must be one of"),
    ],
)
def test_a_wrong_change_of_a_config_is_refused(changes, words):
    config = "--config=experiments/configs/smoke.py"
    with pytest.raises(SystemExit) as caught:
        show_episode.main([config, *(f"--config.{change}" for change in changes)])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [[], ["runs/a", "--config=b"], ["a", "--config.seed=1"], ["a", "--set=seed=1"]],
)
def test_options_that_do_not_go_together_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        show_episode.parse(arguments)
    assert "error: " in capsys.readouterr().err


def test_an_environment_that_cannot_spell_is_read_as_numbers():
    reader = readers.reader_of(toy.ToyEnvironment())
    assert reader.spell(np.array([7, 0, 0, 9])) == "7 <pad> <pad> 9"
    assert reader.describe_problem(None, 0) == reader.describe_member(None, 0, 0) == []


def test_programs_are_read_with_mnemonics_and_what_became_of_their_tests():
    config = code_execution.CodeExecutionConfig(
        families=("multiples",), stages=("code",), hidden_rate=0.0
    )
    environment = code_execution.CodeExecution(config)
    agent = code_execution.ScriptedAgent(environment, efficient_share=0.0)
    reader = readers.reader_of(environment)
    keys = jax.random.split(jax.random.key(0), 1)
    state = environment.start(keys, split="train", num_members=1).state
    tokens, mask = agent(state, np.zeros(1, np.int32), keys)
    assert reader.describe_member(state, 0, 0) == []
    everyone, stage = np.ones((1, 1), bool), np.zeros(1, np.int32)
    after = environment.step(state, stage, tokens, mask, everyone, keys).state
    assert reader.spell([9999, -1, 0]) == "<9999> <-1> <pad>"
    lines = reader.describe_member(after, 0, 0)
    assert lines[0].startswith("program: n sum i")
    assert any(re.fullmatch(r"hidden n=\d+ m=\d+: out of fuel .*", x) for x in lines)
    secrets = reader.describe_problem(state, 0)
    assert secrets[0] == "family: multiples" and "brute force: n sum" in secrets[2]
