"""A comparison of runs on the terminal and as a page."""

import html

import rich.box
import rich.console
import rich.table
import rich.text

from scripts.viewing import charts, page, runs, wording
from scripts.viewing.runs import Run
from scripts.viewing.wording import plain

_SPARKS = 32


def show(compared: list[Run], console: rich.console.Console) -> None:
    """Prints what differs, the summaries, and a line of blocks per curve."""
    differing = runs.differing(compared)
    if differing:
        table = _table("what differs", ["field", *(run.name for run in compared)])
        for name, values in differing.items():
            table.add_row(plain(name), *(plain(spelled(value)) for value in values))
        console.print(table)
    else:
        console.print("the configs are the same in every field")
    table = _table("summaries", ["", *(run.name for run in compared)])
    table.add_row("", *(plain(run.progress) for run in compared))
    for name, title in runs.SUMMARY.items():
        table.add_row(title, *(plain(_of_summary(run, name)) for run in compared))
    console.print(table)
    table = _table("curves, from 0 to 1", ["", "run", "", "last"])
    for name in runs.curve_names(compared):
        for index, run in enumerate(compared):
            points = runs.curve(run, name)
            last = wording.number(points[-1][1] if points else None)
            sparks = rich.text.Text(
                charts.sparkline(points, _SPARKS), charts.colour(index)
            )
            shown = plain("" if index else name)
            table.add_row(shown, plain(run.name), sparks, last)
        table.add_section()
    console.print(table)


def render(compared: list[Run]) -> str:
    """The same as one self-contained page."""
    escape = html.escape
    heads = "".join(
        f'<th><span style="color:{charts.colour(index)}">&#9632;</span> '
        f"{escape(run.name)}</th>"
        for index, run in enumerate(compared)
    )
    differing = [
        (name, list(map(spelled, values)))
        for name, values in runs.differing(compared).items()
    ]
    summaries = [("state", [run.progress for run in compared])] + [
        (title, [_of_summary(run, name) for run in compared])
        for name, title in runs.SUMMARY.items()
    ]
    panels = "".join(
        charts.svg(name, [runs.curve(run, name) for run in compared])
        for name in runs.curve_names(compared)
    )
    same = '<p class="faint">The configs are the same in every field.</p>'
    title = f"{len(compared)} runs side by side"
    return page.page(
        title,
        f"<h1>{title}</h1>"
        f"<h2>What differs</h2>{_rows(heads, differing) if differing else same}"
        f"<h2>Summaries</h2>{_rows(heads, summaries)}"
        f'<h2>Curves</h2><div class="panels">{panels or "no metrics yet"}</div>',
    )


def spelled(value) -> str:
    """A value of a config; nothing at all for a field that a run does not have."""
    if value is None:
        return wording.MISSING
    if isinstance(value, list):
        return ", ".join(map(spelled, value)) or "()"
    return str(value)


def _of_summary(run: Run, name: str) -> str:
    value = None if run.summary is None else run.summary.get(name)
    return (
        f"{value:.3f}"
        if name.startswith("solve") and value is not None
        else spelled(value)
    )


def _table(title, columns) -> rich.table.Table:
    table = rich.table.Table(
        title=title,
        title_justify="left",
        title_style="bold cyan",
        box=rich.box.SIMPLE_HEAD,
    )
    for column in columns:
        table.add_column(plain(column), overflow="fold")
    return table


def _rows(heads, rows) -> str:
    body = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(value)}</td>" for value in values)
        + "</tr>"
        for name, values in rows
    )
    return (
        '<div class="scroll"><table class="numbers"><thead><tr><th></th>'
        f"{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
