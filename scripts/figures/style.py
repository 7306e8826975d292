"""How the figures look: colours, labels beside their curves, nothing to decode."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

#: Okabe and Ito's palette, told apart by colour-blind readers; yellow is too pale here.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
#: Once the colours are used up they come again with another line.
LINES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": "0.92",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "savefig.dpi": 200,
}

#: (label, value, colour) of the right end of a curve.
End = tuple[str, float, str]


def look_of(index: int) -> dict:
    """Colour and line of the k-th arm."""
    line = LINES[index // len(COLOURS) % len(LINES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": line}


def label_ends(axes: plt.Axes, ends: list[End], *, gap: float = 0.055) -> None:
    """Writes labels to the right of a plot of rates, moved apart where they meet."""
    ends = sorted(ends, key=lambda end: end[1])
    heights = move_apart([value for _, value, _ in ends], gap=gap, top=1.0)
    for (label, value, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            f"{label} {value:.2f}",
            xy=(1.0, height),
            xycoords=axes.get_yaxis_transform(),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )


def move_apart(values: list[float], *, gap: float, top: float) -> list[float]:
    """Ascending values moved as little as an upward and a downward pass need."""
    heights = list(values)
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + gap)
    ceiling = top
    for index in range(len(heights) - 1, -1, -1):
        heights[index] = min(heights[index], ceiling)
        ceiling = heights[index] - gap
    return heights
