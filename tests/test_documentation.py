"""What the pages and the configs tell people to type is run, at the smallest size."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import toy_environment

from agentic_grpo import records
from experiments.config import fields
from experiments.configs import quickstart, smoke

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGS = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "experiments" / "configs").rglob("*.py")
    if path.name not in ("__init__.py", "laboratory.py")  # what others share
)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands(text):
    """The commands of a page, a list of words each."""
    lines = text.replace("\\\n", " ").split("\n")
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def commands_of_docstring(path):
    """The lines of a module's docstring that call Python."""
    text = (ROOT / path).read_text(encoding="utf-8").split('"""')[1]
    lines = text.replace("\\\n", " ").split("\n")
    return [shlex.split(x) for x in lines if x.strip().startswith("python ")]


def smallest():
    """The flags that make a quickstart a smoke test."""
    wanted = dict(fields.flatten(smoke.get_config()))
    given = dict(fields.flatten(quickstart.get_config()))
    return [
        f"--config.{name}={value}"
        for name, value in wanted.items()
        if value != given[name]
    ]


def shrunk(words):
    """The same command, with less to do."""
    if words[0] == "scripts/test.sh":
        return [*words, "--version"]  # it is this very suite
    name = words[2] if words[1:2] == ["-m"] else words[0]
    told = {word.split("=")[0] for word in words}
    less = [flag for flag in smallest() if flag.split("=")[0] not in told]
    if name in ("experiments.train", "scripts/quickstart.sh"):
        return [*words, *less]
    if name == "experiments.sweep":
        return [*words, *less, "--seeds=2"]
    if name == "experiments.evaluate":
        return [*words, "--problems=8"]
    return words


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A copy of the repository, and a ``python`` that has its packages."""
    folder = tmp_path_factory.mktemp("workplace")
    for name in ("agentic_grpo", "experiments", "scripts", "tests"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, folder / name)
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return folder


def run(words, folder):
    path = f"PATH={folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["env", path, f"AGENTIC_GRPO_PYTHON={sys.executable}", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_commands_of_the_readme_run_in_their_order(workplace):
    told = [words for block in blocks("sh") for words in commands(block)]
    assert ["scripts/quickstart.sh"] in told
    for words in told:
        run(shrunk(words), workplace)
    assert (workplace / "runs" / "quickstart" / "learning_curve.png").is_file()
    assert (workplace / "runs" / "both.png").is_file()


@pytest.mark.slow
def test_the_command_of_the_smoke_config_runs_as_it_stands(workplace):
    (command,) = commands_of_docstring("experiments/configs/smoke.py")
    run(command, workplace)
    assert (workplace / "runs" / "smoke" / "summary.json").is_file()


def test_the_import_example_of_the_readme_runs():
    layout = toy_environment.ToyEnvironment().spec.layout
    groups, members, stages = 2, 3, layout.num_stages
    shape = (groups, members, stages)
    rewards = np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(shape)
    events = records.StageEvents(
        acted=jnp.ones(shape, bool),
        reward=jnp.asarray(rewards),
        reward_mask=jnp.ones(shape, bool),
        verdict=jnp.zeros((groups, members)),
        verdict_mask=jnp.zeros((groups, members), bool),
        lost=jnp.zeros((groups, members), bool),
        state_id=jnp.zeros(shape, jnp.int32),
        level=jnp.zeros((groups,), jnp.int32),
        ready=jnp.broadcast_to(jnp.array([True, True, False]), (groups, 3)),
        settled=jnp.zeros((groups,), bool),
        fresh=jnp.ones((groups, stages), bool),
        forecast=jnp.zeros(shape),
        forecast_mask=jnp.zeros(shape, bool),
        spent=jnp.zeros(shape),
        paid=jnp.zeros(shape, bool),
        divisor=jnp.ones((groups, stages)),
    )
    names = {
        "layout": layout,
        "events": events,
        "action_mask": jnp.ones((groups, members, layout.num_columns), bool),
    }
    (block,) = blocks("python")
    exec(block, names)
    # rewards rise with the member: the last of each group is pushed up, the first down
    advantage = names["token_credit"].advantage[0]
    on_stages = layout.segment_of_column > 0
    assert float(advantage[:, -1][:, on_stages].min()) > 0.0
    assert float(advantage[:, 0][:, on_stages].max()) < 0.0


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_a_config_tells_its_own_command(path):
    told = commands_of_docstring(path)
    assert any(path.stem in word for words in told for word in words)


@pytest.mark.parametrize("page", ["README.md", "BUILD_NOTES.md", *CONFIGS], ids=str)
def test_what_is_told_to_be_run_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for module in re.findall(r"python -m ([\w.]+)", text):
        source = ROOT.joinpath(*module.split("."))
        assert source.with_suffix(".py").is_file() or source.is_dir(), module
    for file in re.findall(r"(?:python |^)(scripts/[\w/]+\.(?:py|sh))", text, re.M):
        assert (ROOT / file).is_file(), file
