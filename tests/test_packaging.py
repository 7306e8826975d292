"""What a user gets: a light import, a typed package, and nothing that is not ours."""

import importlib
import json
import pathlib
import pkgutil
import re
import subprocess
import sys

import agentic_grpo

ROOT = pathlib.Path(__file__).resolve().parents[1]

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
import agentic_grpo
names = [
    module.name
    for module in pkgutil.walk_packages(agentic_grpo.__path__, "agentic_grpo.")
]
for name in names:
    importlib.import_module(name)
import jax
# JAX refuses another number of CPU devices once its backends have started.
jax.config.update("jax_num_cpu_devices", 3)
extras = ("gguf", "jinja2", "matplotlib", "safetensors", "tokenizers")
heavy = [n for n in ("ml_collections", "tensorflow", *extras) if n in sys.modules]
print(json.dumps({"names": names, "devices": len(jax.devices()), "heavy": heavy}))
"""


def run_python(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_importing_every_module_starts_no_device(tmp_path):
    # An array made at import would claim the GPU, and fix the number of CPU devices.
    bootstrap = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{IMPORT_EVERYTHING}"
    done = run_python("-W", "error", "-c", bootstrap, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["devices"] == 3 and result["heavy"] == []
    assert {"agentic_grpo.records", "agentic_grpo.training.metrics"} <= set(
        result["names"]
    )


def test_every_public_name_resolves():
    assert len(agentic_grpo.__all__) == len(set(agentic_grpo.__all__)) > 0
    for name in agentic_grpo.__all__:
        assert getattr(agentic_grpo, name) is not None
    namespace = {}
    exec("from agentic_grpo import *", namespace)
    assert set(agentic_grpo.__all__) <= set(namespace)


def test_every_module_says_what_it_is():
    for module in pkgutil.walk_packages(agentic_grpo.__path__, "agentic_grpo."):
        if not module.ispkg:
            text = importlib.import_module(module.name).__doc__
            assert text and text.strip(), module.name


def test_the_built_package_holds_our_code_and_nothing_else(tmp_path):
    done = run_python(
        "setup.py", "-q", "build", "--build-base", str(tmp_path), cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    built = tmp_path / "lib"
    files = {path.relative_to(built).as_posix() for path in built.rglob("*.*")}
    assert {name.split("/")[0] for name in files} == {"agentic_grpo", "experiments"}
    assert not any(name.startswith("experiments/results/") for name in files)
    pages = {f"agentic_grpo/{room}/README.md" for room in ("envs", "models", "ops")}
    assert {"agentic_grpo/py.typed", *pages} <= files
    ours = {
        path.relative_to(ROOT).as_posix()
        for room in ("agentic_grpo", "experiments")
        for path in (ROOT / room).rglob("*.py")
    }
    assert ours <= files, f"modules left out: {sorted(ours - files)}"


def test_the_built_package_works_without_the_repository(tmp_path):
    run_python("setup.py", "-q", "build", "--build-base", str(tmp_path), cwd=ROOT)
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "import agentic_grpo, pathlib\n"
        "home = pathlib.Path(agentic_grpo.__file__)\n"
        "assert home.is_relative_to(pathlib.Path.cwd()), home\n"
        "from agentic_grpo.training import checkpoints, metrics\n"
        "from experiments.config import command_line\n"
        "assert command_line.read_config('smoke').num_ticks == 8\n"
    )
    done = run_python("-c", code, cwd=tmp_path / "lib")
    assert done.returncode == 0, done.stderr


def test_the_pinned_set_covers_every_dependency():
    # A dependency without a pin would be installed in whatever version is newest.
    requirements = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in requirements
        if line and not line.startswith("#")
    }
    namespace = {}
    setup = (ROOT / "setup.py").read_text().partition("setuptools.setup(")[0]
    exec(setup, namespace)
    lists = [namespace["REQUIRED"], *namespace["EXTRAS"].values()]
    lists = [  # accelerators have a plugin of their own beside the pinned jax
        [entry for entry in entries if "jax[" not in entry] for entries in lists
    ]
    wanted = [entry for entries in lists for entry in entries]
    names = {entry.partition(">=")[0].lower().replace("_", "-") for entry in wanted}
    assert names <= pinned, f"not pinned: {sorted(names - pinned)}"
    assert all(">=" in entry and "<" not in entry for entry in wanted)


def test_the_version_has_one_home(tmp_path):
    done = run_python("setup.py", "--version", cwd=ROOT)
    assert done.stdout.split()[-1] == agentic_grpo.__version__


def test_names_of_extras_are_one_word():
    """pip and setuptools spell an underscore differently, and install nothing."""
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\S+)": \[', text, flags=re.M)
    assert {"llm", "plots", "test"} <= set(names)
    assert all(re.fullmatch("[a-z0-9]+", name) for name in names)
