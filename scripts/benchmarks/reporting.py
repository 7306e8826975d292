"""The report of a benchmark: JSON, and one page of Markdown that says the same."""

import json
import os
import pathlib

from agentic_grpo.training import host as machine_description

VERSIONS = ("python", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def describe_machine() -> dict:
    """Processor, threads, devices, and the load that was there before we came."""
    described = machine_description.describe()
    load = os.getloadavg() if hasattr(os, "getloadavg") else (None,) * 3
    return {**described, "load_before": list(load)}


def report(machine: dict, rows: list[dict]) -> dict:
    """{"machine", "versions", "results"}; the versions are taken out of the machine."""
    versions = {name: machine[name] for name in VERSIONS if name in machine}
    rest = {name: value for name, value in machine.items() if name not in versions}
    return {"machine": rest, "versions": versions, "results": rows}


def write(path: pathlib.Path, report: dict, *, title: str) -> str:
    """Writes the JSON, and the page beside it; returns the page."""
    text = page(report, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    path.with_suffix(".md").write_text(text)
    return text


def page(report: dict, *, title: str) -> str:
    """One page of Markdown: the machine in a line, and a row per result."""
    machine, versions = report["machine"], report["versions"]
    load = machine.get("load_before", [None])[0]
    lines = [
        f"# {title}",
        "",
        f"{machine.get('processor')}, {machine.get('cpu_threads')} threads, "
        f"{machine.get('num_devices')} x {machine.get('device_kind')}; load before: "
        f"{load if load is None else round(load, 1)}. "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        "Medians; the spread is that of the middle half of the measurements, relative "
        "to the median. A ratio is how many times better than the reference.",
        "",
        "| suite | what | value | unit | spread | ratio | reference |",
        "|---|---|---:|---|---:|---:|---|",
    ]
    for row in report["results"]:
        spread, ratio = row.get("spread"), row["ratio"]
        reference = row["reference"] or ""
        if row["reference_value"] is not None:
            reference += f": {number(row['reference_value'])}"
        lines.append(
            f"| {row['suite']} | {row['name']} | {number(row['value'])} "
            f"| {row['unit']} | {'' if spread is None else f'{100 * spread:.0f}%'} "
            f"| {'' if ratio is None else f'{ratio:.2f}'} | {reference} |"
        )
    return "\n".join([*lines, ""])


def number(value: float) -> str:
    """Three significant digits, whole numbers whole."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def draw_scaling(path: pathlib.Path, rows: list[dict]) -> None:
    """Time and temporary memory over each size, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = [row for row in rows if "points" in row]
    figure, panels = plt.subplots(
        2, len(axes), figsize=(2.4 * len(axes), 4.4), sharey="row", squeeze=False
    )
    for column, row in enumerate(axes):
        points = row["points"]
        sizes = points["values"]
        label = row["name"].removeprefix("exponent of time, ").split(" .. ")[0]
        label = label.rsplit(" ", 1)[0]
        for panel, values, slope in (
            (panels[0, column], points["seconds"], row["value"]),
            (panels[1, column], points["mebibytes"], points["memory_exponent"]),
        ):
            panel.loglog(sizes, values, "o-", color="#0072B2", markersize=4)
            panel.set_title(f"exponent {slope:.2f}", fontsize=9, loc="left")
            panel.set_xticks(sizes, [str(size) for size in sizes])
            panel.minorticks_off()
            panel.grid(color="0.92")
        panels[1, column].set_xlabel(label)
    panels[0, 0].set_ylabel("seconds per tick")
    panels[1, 0].set_ylabel("temporary MiB")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
