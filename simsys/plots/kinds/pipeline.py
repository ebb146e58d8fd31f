"""The passes of an iteration over time: one lane of computation and one of communication for each pipeline stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simsys.contents.run import RunContent
from simsys.plots.drawing import (
    BLUE,
    GREEN,
    GREY,
    LETTER_IN,
    ORANGE,
    PALE,
    RED,
    SERIES,
    SKY,
    legend_below,
    new_figure,
    rectangles,
    time_unit,
    titled,
)
from simsys.plots.kind import WITH_PLOTS, kind, needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: Mapping[str, tuple[str, str]] = {
    "forward": (BLUE, ""),
    "backward": (SKY, ""),
    "optimizer": (GREEN, ".."),
    "tensor": (ORANGE, "////"),
    "data": (RED, "\\\\\\\\"),
    "pipeline": (GREY, ""),
}
"""Colour and hatching of what most iterations have."""
MANY = 4000
"""Slices from which on an SVG has them as an image."""
NAMED_LANES = 32


@dataclass(frozen=True)
class Slice:
    """Something that a lane does for some time.

    Args:
        lane: The lane, from the top.
        name: What it does.
        start_s: Its start.
        end_s: Its end.
        text: What is written into it, if there is room.
        beside: True for communication, which has the lower part of the lane.
    """

    lane: int
    name: str
    start_s: float
    end_s: float
    text: str = ""
    beside: bool = False


@kind(
    "pipeline",
    "passes of an iteration by pipeline stage, with bubbles",
    RunContent,
    needs(("training",), "activity", hint=WITH_PLOTS),
)
def pipeline(run: RunContent) -> Figure:
    """The observed iteration."""
    table = run.tables["activity"]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    stages = sorted({row["stage"] for row in rows})
    names = [f"stage {stage}" for stage in stages] if len(stages) > 1 else ["GPU"]
    slices = [_slice(row, stages.index(row["stage"])) for row in rows]
    bubbles = "; pale: bubbles and other waiting" if len(stages) > 1 else "; pale: waiting"
    return gantt(run.name, names, slices, f"one iteration{bubbles}")


def _slice(row: Mapping[str, Any], lane: int) -> Slice:
    text = "" if row["micro_batch"] is None else str(row["micro_batch"])
    return Slice(lane, row["what"], row["start_s"], row["end_s"], text, row["beside"] in (True, "True"))


def gantt(name: object, lanes: Sequence[str], slices: Sequence[Slice], subject: str = "") -> Figure:
    """Slices of time in lanes; what is not covered is pale."""
    begin_s = min((each.start_s for each in slices), default=0.0)
    end_s = max((each.end_s for each in slices), default=1.0)
    scale, unit = time_unit(end_s - begin_s)
    height_in = max(0.6, min(7.5, 0.36 * len(lanes)))
    figure, (axes,) = new_figure(9.0, height_in + 1.6)
    axes.barh(range(len(lanes)), scale * (end_s - begin_s), height=0.92, color=PALE)
    inch_s = (end_s - begin_s) / 7.6
    for what, (colour, hatch) in _looks(slices).items():
        own = [each for each in slices if each.name == what]
        few = len(own) < MANY and len(lanes) <= NAMED_LANES
        rectangles(
            axes,
            [
                (
                    scale * (each.start_s - begin_s),
                    scale * (each.end_s - begin_s),
                    each.lane + (0.34 if each.beside else -0.12),
                    0.24 if each.beside else 0.68,
                )
                for each in own
            ],
            facecolor=colour,
            hatch=hatch if few else "",
            edgecolor="white" if few else "none",
            linewidth=0.3 if few and not own[0].beside else 0.0,
            label=what,
            rasterized=len(slices) > MANY,
        )
        if few:
            _write(axes, own, begin_s, scale, inch_s, "white" if colour == BLUE else "black")
    if len(lanes) <= NAMED_LANES:
        axes.set_yticks(range(len(lanes)), lanes)
    else:
        axes.set_ylabel("lane" if "stage" not in lanes[0] else "pipeline stage")
    axes.set(xlabel=f"time ({unit})", xlim=(0.0, scale * (end_s - begin_s) or 1.0), ylim=(len(lanes) - 0.45, -0.55))
    legend_below(figure, axes)
    titled(figure, name, subject)
    return figure


def _looks(slices: Iterable[Slice]) -> dict[str, tuple[str, str]]:
    names = list(dict.fromkeys(each.name for each in slices))
    free = [colour for colour in SERIES if colour not in {LOOKS[name][0] for name in names if name in LOOKS}]
    others = [name for name in names if name not in LOOKS]
    found = {name: LOOKS[name] for name in LOOKS if name in names}
    found |= {
        name: ((free or SERIES)[place % len(free or SERIES)], ("//", "..", "xx", "--")[place % 4])
        for place, name in enumerate(others)
    }
    return found


def _write(axes: Axes, slices: Sequence[Slice], begin_s: float, scale: float, inch_s: float, colour: str) -> None:
    """The texts of the slices that have room for them."""
    for each in slices:
        if each.text and each.end_s - each.start_s > LETTER_IN * (1 + len(each.text)) * inch_s:
            middle = (each.start_s + each.end_s) / 2 - begin_s
            axes.text(
                scale * middle, each.lane - 0.12, each.text, ha="center", va="center", fontsize=7.0, color=colour
            )
