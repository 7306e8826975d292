"""Numbers and moments in words, the same on the terminal and on a page."""

import rich.text

from agentic_grpo.training.plain_text import printable
from scripts.viewing.story import Service, Stage, Story

MISSING = "-"


def plain(text: str, style: str = "") -> rich.text.Text:
    """For the terminal: neither markup nor control characters in it mean anything."""
    return rich.text.Text(printable(text), style)


def number(value: float | None) -> str:
    """A reward, a log-prob; never -0.00."""
    return MISSING if value is None else f"{round(value, 2) + 0.0:.2f}"


def signed(value: float | None) -> str:
    """An advantage; nothing at all is told apart from zero."""
    return MISSING if value is None else f"{value:+.2f}" if value else "0.00"


def of_stage(stage: Stage, story: Story) -> str:
    """Kind and moments of a stage."""
    parts = [stage.kind]
    if stage.written_at is not None:
        parts.append(f"written at tick {stage.written_at}")
    if stage.ready_at is not None:
        parts.append(f"rewards in at tick {stage.ready_at}")
    if stage.version is not None:
        parts.append(f"sampled at learner step {stage.version}")
    if stage.age is not None:
        parts.append(f"{stage.age} steps ago")
    stale = [
        str(service.staleness[stage.name])
        for service in story.services
        if stage.name in service.staleness
    ]
    if stale:
        parts.append(f"trained on {' and '.join(stale)} steps later")
    return ", ".join(parts)


def of_verdict(story: Story) -> str:
    if story.verdict_at is None:
        return "no tick yet"
    return f"in at tick {story.verdict_at}"


def of_service(service: Service) -> tuple[str, str]:
    """(what was ready, how stale it was)."""
    staleness = ", ".join(f"{name} {age}" for name, age in service.staleness.items())
    return ", ".join(service.events), staleness or "no tokens trained"
