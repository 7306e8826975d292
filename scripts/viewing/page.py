"""A story as one self-contained HTML page; members side by side."""

import html
import pathlib

from scripts.viewing import wording
from scripts.viewing.story import Ending, Stage, Story, Writing

_STYLE = pathlib.Path(__file__).with_name("page.css")


def page(title: str, body: str) -> str:
    """A whole page that needs nothing else: no script files, fonts or pictures."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title>"
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def render(story: Story, members: list[int]) -> str:
    """The page of a story, with these members as columns."""
    escape = html.escape
    parts = [
        f"<h1>{escape(story.title)}</h1>",
        f'<div class="statement"><span class="faint">statement ({escape(story.level)})'
        f"</span><br><code>{escape(story.statement)}</code></div>",
    ]
    if story.awaited:
        lines = _list(story.awaited)
        parts.append(f'<div class="awaited"><b>Still awaited</b>{lines}</div>')
    if story.secrets:
        lines = _list(story.secrets, "mono")
        summary = "<summary>what the members are not told</summary>"
        parts.append(f"<details open>{summary}{lines}</details>")
    parts += [_timeline(story), _grid(story, members)]
    if story.services:
        parts.append(_services(story))
    parts += [f'<p class="faint">{escape(note)}</p>' for note in story.notes]
    return page(story.title, "\n".join(parts))


def _grid(story: Story, members) -> str:
    heads = "".join(_head(member, story.endings[member]) for member in members)
    rows = [_row(stage, story, members) for stage in story.stages]
    cells = "".join(f"<td>{_ending(story.endings[member])}</td>" for member in members)
    when = wording.of_verdict(story)
    rows.append(
        f'<tr><th>verdict<br><span class="faint">{when}</span></th>{cells}</tr>'
    )
    opens = "document.querySelectorAll('.grid details').forEach(d => d.open = !d.open)"
    return (
        f'<h2>Stage by stage <button onclick="{opens}">what was executed</button></h2>'
        f'<div class="scroll"><table class="grid"><thead><tr><th></th>{heads}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _head(member: int, ending: Ending) -> str:
    badge = {None: "", True: "solved", False: "not solved"}[ending.solved]
    name = {None: "", True: "yes", False: "no"}[ending.solved]
    mark = f' <span class="badge {name}">{badge}</span>' if badge else ""
    return f"<th>member {member}{mark}</th>"


def _row(stage: Stage, story: Story, members) -> str:
    about = html.escape(wording.of_stage(stage, story)).replace(", ", "<br>")
    cells = "".join(f"<td>{_cell(stage.writings[member])}</td>" for member in members)
    name = html.escape(stage.name)
    return f'<tr><th>{name}<br><span class="faint">{about}</span></th>{cells}</tr>'


def _cell(writing: Writing | None) -> str:
    if writing is None:
        return '<span class="faint">did not write</span>'
    escape = html.escape
    parts = [f'<div class="text mono">{escape(writing.text) or "(nothing)"}</div>']
    if writing.told:
        parts.append(f'<div class="told mono">&rarr; {escape(writing.told)}</div>')
    if writing.reward is not None:
        width = 100 * min(max(writing.reward, 0.0), 1.0)
        parts.append(f'<div class="bar"><i style="width:{width:.0f}%"></i></div>')
    numbers = [
        ("reward", wording.number(writing.reward)),
        ("applied", _signed(writing.applied)),
        ("corrected", _signed(writing.corrected)),
    ]
    if writing.log_prob is not None:
        numbers.append(("log-prob", _log_prob(writing)))
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in numbers)
    parts.append(f"<dl>{listed}</dl>")
    if writing.executed:
        lines = "<br>".join(map(escape, writing.executed))
        parts.append(
            f'<details><summary>executed</summary><div class="mono">{lines}</div>'
            "</details>"
        )
    return "".join(parts)


def _log_prob(writing: Writing) -> str:
    tokens = "token" if writing.num_tokens == 1 else "tokens"
    text = f"{wording.number(writing.log_prob)} of {writing.num_tokens} {tokens}"
    if writing.log_prob_now is not None:
        text += f"<br>now {wording.number(writing.log_prob_now)}"
    return text


def _signed(value) -> str:
    name = "" if not value else "plus" if value > 0 else "minus"
    return f'<span class="{name}">{wording.signed(value)}</span>'


def _ending(ending: Ending) -> str:
    verdict = wording.number(ending.verdict)
    return (
        f"<b>{verdict}</b><br><span class='faint'>{html.escape(ending.reason)}</span>"
    )


def _services(story: Story) -> str:
    rows = "".join(
        f"<tr><td>{service.tick}</td>"
        + "".join(
            f"<td>{html.escape(text)}</td>" for text in wording.of_service(service)
        )
        + "</tr>"
        for service in story.services
    )
    return (
        '<h2>What the learner was given</h2><table class="numbers"><thead><tr>'
        "<th>tick</th><th>ready</th><th>staleness in learner steps</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _timeline(story: Story) -> str:
    """A bar per stage, from writing to its rewards, and the verdict on one axis."""
    spans = [
        (stage.name, stage.written_at, stage.ready_at)
        for stage in story.stages
        if stage.written_at is not None
    ]
    if not spans:
        return ""
    last_written = max(start for _, start, _ in spans)
    spans.append(("verdict", last_written, story.verdict_at))
    end = max(ready if ready is not None else start for _, start, ready in spans)
    left, right, height = 110, 720, 22
    scale = (right - left) / max(end, 1)
    shapes = []
    for index, (name, start, ready) in enumerate(spans):
        y, x = index * height + 12, left + scale * start
        shapes.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">'
            f"{html.escape(name)}</text>"
        )
        if ready is None:
            shapes.append(f'<text class="soft" x="{x}" y="{y + 4}">no reward</text>')
            continue
        width = max(scale * (ready - start), 2)
        fill = "var(--good)" if name == "verdict" else "var(--accent)"
        shapes.append(
            f'<rect x="{x:.1f}" y="{y - 5}" width="{width:.1f}" height="10" rx="3"'
            f' style="fill:{fill}"/>'
            f'<text class="soft" x="{x + width + 6:.1f}" y="{y + 4}">'
            f"{start} &rarr; {ready}</text>"
        )
    total = len(spans) * height + 8
    return (
        "<h2>On the simulated clock, in ticks</h2>"
        f'<svg viewBox="0 0 800 {total}" width="800" height="{total}">'
        f"{''.join(shapes)}</svg>"
    )


def _list(lines, name="") -> str:
    items = "".join(f'<li class="{name}">{html.escape(line)}</li>' for line in lines)
    return f'<ul class="plain">{items}</ul>'
