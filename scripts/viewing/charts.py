"""Curves without a plotting library: blocks on the terminal, SVG on a page."""

import html

#: Okabe and Ito's palette, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#777777")

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 420, 190, 34, 22


def sparkline(points: list[tuple[float, float]], width: int) -> str:
    """A curve between 0 and 1 as a line of blocks."""
    if not points:
        return ""
    count = min(width, len(points))
    means = []
    for index in range(count):
        start, stop = (len(points) * (index + k) // count for k in range(2))
        part = [value for _, value in points[start:stop]]
        means.append(sum(part) / len(part))
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(min(max(mean, 0.0), 1.0) * top)] for mean in means)


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def svg(title: str, curves: list[list[tuple[float, float]]]) -> str:
    """Curves between 0 and 1 in one small panel, coloured in their order."""
    last = max((points[-1][0] for points in curves if points), default=1) or 1
    right, top = _WIDTH - 44, 10

    def place(tick, value):
        x = _LEFT + (right - _LEFT) * tick / last
        y = top + (_HEIGHT - _BOTTOM - top) * (1.0 - min(max(value, 0.0), 1.0))
        return x, y

    shapes = []
    for level in (0.0, 0.5, 1.0):
        x, y = place(0, level)
        shapes.append(
            f'<line x1="{x}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"'
            f' style="stroke:var(--line)"/>'
            f'<text class="soft" x="{x - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{level:g}</text>"
        )
    ends = []
    for index, points in enumerate(curves):
        if not points:
            continue
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{colour(index)}"'
            ' stroke-width="2" stroke-linejoin="round"/>'
        )
        x, y = place(*points[-1])
        if len(points) == 1:
            shapes.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour(index)}"/>'
            )
        ends.append((y, f"{points[-1][1]:.2f}", index))
    shapes += _labels(ends, right + 6)
    shapes.append(
        f'<text class="soft" x="{right}" y="{_HEIGHT - 6}" text-anchor="end">'
        f"tick {last:g}</text>"
    )
    return (
        f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0'
        f' {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">'
        f"{''.join(shapes)}</svg></figure>"
    )


def _labels(ends, x) -> list[str]:
    """The last values beside the ends of their curves, moved apart."""
    shapes, lowest = [], -13.0
    for y, text, index in sorted(ends):
        lowest = max(y + 4, lowest + 13)
        shapes.append(
            f'<text x="{x}" y="{lowest:.1f}" style="fill:{colour(index)}">{text}</text>'
        )
    return shapes
