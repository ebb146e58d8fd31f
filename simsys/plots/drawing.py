"""What all pictures share: colours, figures, scales of axes, and writing.

Pyplot is not used, since it keeps global state and needs the backend of a display. The same content gives the same
bytes. Colours are those of Okabe and Ito (2008, "Color Universal Design"); what lies side by side also differs in
lightness, hatching or dashes, so that it can be distinguished in grey.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsys.errors import UsageError
from simsys.report.files import write_files
from simsys.report.text import tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS: Mapping[str, Mapping[str, None]] = {".png": {"Software": None}, ".svg": {"Date": None}}
"""File endings, each with the metadata to leave out because it is not the result's."""
DPI = 150
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
RED, SKY, YELLOW, GREY, PALE, INK = "#d55e00", "#56b4e9", "#f0e442", "#8a8f98", "#e4e6e9", "#333333"
SERIES = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE, GREY, YELLOW)
DASHES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (9, 4)))
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo")
MARKERS = "os^vD<>ph*XP"
LETTER_IN = 0.075
"""About the width of a letter of a legend, in inches."""
LONGEST_NAME = 60
"""Letters of a title or a label, of which longer ones lose the middle."""
STYLE: Mapping[str, Any] = {
    "svg.hashsalt": "simsys",  # makes the ids of an SVG the same each time
    "text.parse_math": False,  # names may have dollar signs
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.0,
    "figure.titlesize": 11.0,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
}


@contextmanager
def styled() -> Iterator[None]:
    """The style of all pictures, for drawing and for writing; letters that the font lacks are drawn as boxes."""
    _import_quietly()
    import matplotlib

    style: Any = dict(STYLE)
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _import_quietly() -> None:
    """Import matplotlib; that it finds no folder to write its cache to changes no picture."""
    if "matplotlib" in sys.modules:
        return
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    import matplotlib.font_manager  # noqa: F401

    log.setLevel(level)


def shortened(text: object, most: int = LONGEST_NAME) -> str:
    r"""A text in one line of at most `most` letters; it loses its middle, since names often differ at their ends.

    Example:
        >>> shortened("a" * 9 + "b" * 9, 9), shortened("x\ty")
        ('aaaa…bbbb', 'x y')
    """
    line = "".join(letter if letter.isprintable() else " " for letter in str(text))
    if len(line) <= most:
        return line
    end = (most - 1) // 2
    return f"{line[: most - 1 - end]}…{line[-end:]}"


def time_unit(seconds: float) -> tuple[float, str]:
    """A factor and a unit in which times up to `seconds` are readable."""
    if seconds >= 1.0:
        return 1.0, "s"
    return (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def new_figure(width_in: float, height_in: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, Any]:
    """A figure and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **more)
    return figure, [axes for row in panels for axes in row]


def titled(figure: Figure, name: object, subject: str = "") -> None:
    """Write the name, and what is shown in a second line, above a figure."""
    figure.suptitle(f"{shortened(name)}\n{subject}" if subject else shortened(name))


def logarithmic(axes: Axes, which: str, base: int = 10) -> None:
    """Make an axis logarithmic, with ticks as short texts; of a short axis, between powers, too."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=base)
    low, high = sorted(axis.get_view_interval())
    short = base == 10 and high < 150 * low
    axis.set_major_locator(LogLocator(base, subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axis.set_minor_formatter(NullFormatter())


def rectangles(axes: Axes, spans: Sequence[tuple[float, float, float, float]], **look: Any) -> None:
    """Many rectangles of one look as one shape, which is much faster than bars.

    Args:
        axes: Where they are drawn.
        spans: Start, end, middle and height of each.
        look: Colours, hatching and label.
    """
    from matplotlib.collections import PolyCollection

    corners = [
        [(start, middle - size / 2), (start, middle + size / 2), (end, middle + size / 2), (end, middle - size / 2)]
        for start, end, middle, size in spans
    ]
    axes.add_collection(PolyCollection(corners, **look))


def write_names(axes: Axes, names: Sequence[tuple[str, float, float]], width_in: float, height_in: float) -> None:
    """Names beside points, where they cover neither each other nor other points; else further away, with a line.

    Args:
        axes: Where they are written; limits and scales do not change any more.
        names: Name and place of each point.
        width_in: About the width of the axes.
        height_in: About the height of the axes.
    """
    unit = axes.transData + axes.transAxes.inverted()
    places = [(x * width_in, y * height_in) for x, y in unit.transform([(x, y) for _, x, y in names])]
    taken = [(x - 0.05, x + 0.05, y - 0.05, y + 0.05) for x, y in places]
    for (name, *point), (x, y) in sorted(zip(names, places, strict=True), key=lambda each: -each[1][1]):
        width = 0.062 * len(name)
        boxes = ((x + shift, x + shift + width, y + rise, y + rise + 0.12) for shift, rise in _offsets(width))
        box = next(
            (
                each
                for each in boxes
                if min(each[0], each[2]) >= 0.0 and each[1] <= width_in and each[3] <= height_in
                and not any(_meet(each, other) for other in taken)
            ),
            (x + 0.05, x + 0.05 + width, y + 0.07, y + 0.19),
        )  # fmt: skip
        taken.append(box)
        offset = 72 * (box[0] - x), 72 * (box[2] - y)
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": GREY} if abs(offset[1]) > 15 else None
        axes.annotate(name, (point[0], point[1]), offset, textcoords="offset points", fontsize=7, arrowprops=line)


def _offsets(width: float) -> Iterator[tuple[float, float]]:
    """Places of a name from its point, in inches, the nearest first: above and below it, right and left of it."""
    for step in range(8):
        for rise in (0.07 + 0.13 * step, -0.19 - 0.13 * step):
            yield 0.05, rise
            yield -0.05 - width, rise


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def legend_below(figure: Figure, axes: Axes) -> None:
    """The legend of some axes below the whole figure, where it hides nothing, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        width_in = 0.55 + LETTER_IN * max(map(len, labels))
        columns = min(len(labels), max(1, int(figure.get_figwidth() / width_in)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure whole or not at all, by the file's ending.

    Raises:
        UsageError: If the ending is unknown.
        OutputError: If the file could not be written.
    """
    suffix = check_ending(path)
    image = io.BytesIO()
    with styled():
        figure.savefig(image, format=suffix[1:], dpi=DPI, metadata=dict(FORMATS[suffix]))
    write_files(path.parent, {path.name: lambda file: file.buffer.write(image.getvalue())})
    return path


def check_ending(path: Path) -> str:
    """The ending of a picture's file.

    Raises:
        UsageError: If it is unknown.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{path.name}: a picture's file ends with {' or '.join(FORMATS)}, not {suffix or 'nothing'}")
    return suffix


def few_parts(bars: Mapping[str, Mapping[str, float]], most: int = len(SERIES)) -> Sequence[str]:
    """Names of the parts of stacked bars that are above 0, at most `most`; the smallest ones are left out."""
    totals: dict[str, float] = {}
    for parts in bars.values():
        for name, value in parts.items():
            totals[name] = totals.get(name, 0.0) + max(0.0, value)
    kept = set(sorted((name for name in totals if totals[name] > 0.0), key=lambda name: -totals[name])[:most])
    return [name for name in totals if name in kept]
