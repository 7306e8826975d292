"""What machine this is: a bit-identical continuation depends on it."""

import importlib.metadata
import os
import pathlib
import platform
import re
import zlib
from typing import Any

import jax

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def describe() -> dict[str, Any]:
    """Versions, processor, threads and devices, as JSON values. Starts the backend."""
    devices = jax.devices()
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        "processor": processor_slug(),
        "cpu_threads": cpu_threads(),
        "device_kind": devices[0].device_kind,
        "num_devices": len(devices),
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What differs between two descriptions: ["jax: 0.10.2, now 0.11.2", ...]."""
    return [
        f"{name}: {one.get(name)}, now {other.get(name)}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]


def cpu_threads() -> int:
    """Processors that this process may use; XLA starts as many threads."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_slug() -> str:
    """Model and instruction sets of the CPU, fit for a file name: "amd-epyc-1f2e3d4c".

    Hypervisors give very different machines one model name, hence the checksum of the
    instruction sets, where the system tells them.
    """
    details = _cpuinfo()
    model = details.get("model name") or platform.processor() or platform.machine()
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "cpu"
    features = details.get("flags") or details.get("Features")
    return f"{slug}-{zlib.crc32(features.encode()):08x}" if features else slug


def _cpuinfo() -> dict[str, str]:
    """The first processor of /proc/cpuinfo; empty where there is none."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = text.strip().split("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}
