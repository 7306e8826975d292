"""Where results come from: commit, package versions, machine."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess

from agentic_grpo.training import host

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "chex",
    "ml-collections",
    "numpy",
    "scipy",
)


def describe() -> dict[str, str | int | bool]:
    """As JSON values; nothing in it names a person, a host or a folder."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return {
        "commit": _git("rev-parse", "HEAD") or "unknown",
        "changed_since": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        **versions,
        "processor": host.processor_slug(),
        "processors": os.cpu_count() or 1,
    }


def _git(*arguments):
    """What git says; empty where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
