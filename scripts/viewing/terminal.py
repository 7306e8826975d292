"""A story on the terminal."""

import rich.box
import rich.console
import rich.table
import rich.text

from scripts.viewing import wording
from scripts.viewing.story import Stage, Story, Writing
from scripts.viewing.wording import plain


def show(story: Story, console: rich.console.Console, members: list[int]) -> None:
    """Prints a story: one table per stage, one row per member, or for all alike.

    Args:
      story: to tell.
      console: of rich.
      members: whom to show.
    """
    console.rule(plain(story.title, "bold"))
    console.print(
        rich.text.Text.assemble(
            ("statement ", "bold"),
            plain(story.statement),
            plain(f"   ({story.level})", "dim"),
        )
    )
    for line in story.secrets:
        console.print(plain(f"not told: {line}", "dim"))
    for line in story.awaited:
        console.print(plain(f"awaited: {line}", "yellow"))
    for stage in story.stages:
        if any(writing is not None for writing in stage.writings):
            console.print()
            console.print(_stage(stage, story, members))
    console.print()
    console.print(_endings(story, members))
    if story.services:
        console.print(_services(story))
    for note in story.notes:
        console.print(plain(note, "dim"))


def _stage(stage: Stage, story: Story, members) -> rich.table.Table:
    title = rich.text.Text.assemble(
        plain(stage.name, "bold cyan"), plain(f"  {wording.of_stage(stage, story)}")
    )
    shows_now = any(
        w is not None and w.log_prob_now is not None for w in stage.writings
    )
    table = rich.table.Table(
        title=title, title_justify="left", box=rich.box.SIMPLE_HEAD, expand=True
    )
    table.add_column("", justify="right", style="bold")
    table.add_column("wrote, and what was executed", ratio=1, overflow="fold")
    for name in ("reward", "applied", "corrected", "log-prob", *["now"] * shows_now):
        table.add_column(name, justify="right", no_wrap=True)
    for alike, writing in _alike(stage, members):
        if writing is None:
            cells = [rich.text.Text("did not write", "dim")]
        else:
            cells = [_wrote(writing), *_numbers(writing)]
            if shows_now:
                cells.append(wording.number(writing.log_prob_now))
        table.add_row(" ".join(map(str, alike)), *cells)
    return table


def _alike(stage: Stage, members) -> list[tuple[list[int], Writing | None]]:
    """Members whose stages are the same in everything, told once."""
    groups: dict[Writing | None, list[int]] = {}
    for member in members:
        groups.setdefault(stage.writings[member], []).append(member)
    return [(alike, writing) for writing, alike in groups.items()]


def _wrote(writing: Writing) -> rich.text.Text:
    text = plain(writing.text or "(nothing)", "bold")
    if writing.told:
        text.append_text(plain(f"  -> {writing.told}", "not bold green"))
    if writing.executed:
        executed = " · ".join(writing.executed)
        text.append_text(plain(f"\n{executed}", "not bold dim"))
    return text


def _numbers(writing: Writing) -> list[rich.text.Text]:
    return [
        rich.text.Text(wording.number(writing.reward)),
        _signed(writing.applied),
        _signed(writing.corrected),
        rich.text.Text(wording.number(writing.log_prob)),
    ]


def _signed(value) -> rich.text.Text:
    style = "dim" if not value else "green" if value > 0 else "red"
    return rich.text.Text(wording.signed(value), style)


def _endings(story: Story, members) -> rich.table.Table:
    title = f"verdict  {wording.of_verdict(story)}"
    table = rich.table.Table(
        title=title, title_justify="left", box=rich.box.SIMPLE_HEAD, title_style="bold"
    )
    for name in ("", "ended", "verdict", "solved"):
        table.add_column(name)
    for member in members:
        ending = story.endings[member]
        solved = "" if ending.solved is None else "yes" if ending.solved else "no"
        style = "green" if ending.solved else ""
        table.add_row(
            str(member),
            plain(ending.reason),
            wording.number(ending.verdict),
            solved,
            style=style,
        )
    return table


def _services(story: Story) -> rich.table.Table:
    table = rich.table.Table(
        title="what the learner was given",
        title_justify="left",
        box=rich.box.SIMPLE_HEAD,
    )
    for name in ("tick", "ready", "staleness in learner steps"):
        table.add_column(name)
    for service in story.services:
        table.add_row(str(service.tick), *map(plain, wording.of_service(service)))
    return table
