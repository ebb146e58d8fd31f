"""The network with the load of its links: GPUs below, switches above, or GPUs on a circle if they have none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, INK, ORANGE, new_figure, shortened, titled
from simsys.plots.kind import WITH_PLOTS, kind, needs
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_OF_A_KIND = 64
"""Vertices of a kind in a picture; of more, neighbours share one."""
NAMED = 16
"""Vertices of a tier with names."""
Place = tuple[float, float]
_LINKS, _LOADS = needs((), "links"), needs((), "loads", hint=WITH_PLOTS)


@kind(
    "topology",
    "the network, with the load of each used link",
    RunContent,
    lambda run: _LINKS(run) and _LOADS(run),
)
def topology(run: RunContent) -> Figure:
    """Links between vertices, coloured by the busy share of their busier direction."""
    table = run.tables.get("links") or run.tables["loads"]
    names: dict[int, str] = {}
    for end, text in (("src", "from"), ("dst", "to")):
        names |= dict(zip(table[end], table[text], strict=True))
    merged, labels, size = _merged(names)
    loads: dict[tuple[int, int], float] = {}
    for src, dst, share in zip(table["src"], table["dst"], table["utilization"], strict=True):
        ends = merged[src], merged[dst]
        if ends[0] != ends[1]:
            pair = min(ends), max(ends)
            loads[pair] = max(share, loads.get(pair, 0.0))
    tiers = _tiers(labels, loads)
    rows = 1 + max(tiers.values()) - min(tiers.values())
    figure, (axes,) = new_figure(9.0, 1.6 + 1.3 * rows if rows > 1 else 7.0)
    places = _places(tiers, labels, loads) if rows > 1 else _circle(list(labels))
    _draw_links(figure, axes, loads, places, tiers)
    _draw_vertices(axes, labels, places, tiers)
    axes.set_axis_off()
    joined = f"; up to {size} neighbours are one dot" if size > 1 else ""
    titled(figure, run.name, f"{len(table['src']):,} used links, of two directions the busier one{joined}")
    return figure


def _merged(names: Mapping[int, str]) -> tuple[dict[int, int], dict[int, str], int]:
    """For each vertex the one that stands for it, the names of these, and the most that one stands for."""
    kinds: dict[str, list[int]] = {}
    for vertex in sorted(names):
        kinds.setdefault(_kind_of(names[vertex]), []).append(vertex)
    merged, labels, largest = dict[int, int](), dict[int, str](), 1
    for own in kinds.values():
        size = 1
        while len(own) > size * MOST_OF_A_KIND:
            size *= 2  # so that the GPUs of a node stay together
        largest = max(largest, size)
        for place, vertex in enumerate(own):
            merged[vertex] = own[place // size * size]
            labels.setdefault(merged[vertex], names[vertex])
    return merged, labels, largest


def _kind_of(name: str) -> str:
    """The name of a vertex without numbers."""
    return re.sub(r"\s*\d+", "", name)


def _tiers(labels: Mapping[int, str], loads: Mapping[tuple[int, int], float]) -> dict[int, int]:
    """The row of each vertex: GPUs 0; above them by distance; below them what leads to GPUs alone, such as NVSwitches.

    All GPUs are in one row, also if there are no switches, so that a direct network has one row.
    """
    neighbours = _neighbours(labels, loads)
    gpus = {vertex for vertex, name in labels.items() if name.startswith("gpu")} or set(labels)
    tiers = dict.fromkeys(sorted(gpus), 0)
    reached = list(tiers)
    for vertex in reached:  # grows while it is followed
        for other in sorted(neighbours[vertex]):
            if other not in tiers:
                tiers[other] = tiers[vertex] + 1
                reached.append(other)
    ends = {vertex for vertex in labels if vertex not in gpus and neighbours[vertex] <= gpus}
    if len(ends) + len(gpus) == len(labels):  # the fewest of a kind are above, such as one switch over NVSwitches
        kinds = [_kind_of(labels[vertex]) for vertex in ends]
        above = min(sorted(set(kinds)), key=kinds.count, default="")
        ends = {vertex for vertex in ends if _kind_of(labels[vertex]) != above}
    return {vertex: -1 if vertex in ends else tiers.get(vertex, 0) for vertex in labels}


def _neighbours(labels: Mapping[int, str], loads: Mapping[tuple[int, int], float]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {vertex: set() for vertex in labels}
    for one, other in loads:
        found[one].add(other)
        found[other].add(one)
    return found


def _places(
    tiers: Mapping[int, int], labels: Mapping[int, str], loads: Mapping[tuple[int, int], float]
) -> dict[int, Place]:
    """Vertices of a row side by side, evenly, in the order of what they are joined to nearer to the GPUs."""
    rows: dict[int, list[int]] = {}
    for vertex in sorted(tiers):
        rows.setdefault(tiers[vertex], []).append(vertex)
    neighbours = _neighbours(labels, loads)
    places: dict[int, Place] = {}
    for tier in sorted(rows, key=abs):

        def middle(vertex: int) -> float:
            xs = [places[other][0] for other in neighbours[vertex] if other in places]
            return ordered_sum(xs) / len(xs) if xs else 0.0

        row = sorted(rows[tier], key=lambda vertex: (middle(vertex), vertex)) if tier else rows[tier]
        for place, vertex in enumerate(row):
            places[vertex] = (place + 0.5) / len(row), float(tier)
    return places


def _circle(vertices: Sequence[int]) -> dict[int, Place]:
    angles = {vertex: 2 * math.pi * place / len(vertices) for place, vertex in enumerate(sorted(vertices))}
    return {vertex: (math.sin(angle), math.cos(angle)) for vertex, angle in angles.items()}


def _draw_links(
    figure: Figure,
    axes: Axes,
    loads: Mapping[tuple[int, int], float],
    places: Mapping[int, Place],
    tiers: Mapping[int, int],
) -> None:
    """Busy links last, so that they are on top."""
    from matplotlib.collections import LineCollection

    ordered = sorted(loads.items(), key=lambda item: item[1])
    layered = any(tiers.values())
    most = max((share for _, share in ordered), default=0.0) or 1.0
    lines = [
        _line(places[one], places[other], bent=layered and tiers[one] == tiers[other]) for (one, other), _ in ordered
    ]
    shares = [100 * share for _, share in ordered]
    widths = [0.8 + 3.2 * share / most for _, share in ordered]
    drawn = LineCollection(lines, cmap="cividis_r", linewidths=widths, array=shares, rasterized=len(lines) > 2000)
    drawn.set_clim(0.0, 100 * most)
    axes.add_collection(drawn)
    figure.colorbar(drawn, ax=axes, label="link busy (% of the time)", shrink=0.8)


def _line(one: Place, other: Place, *, bent: bool) -> np.ndarray:
    """A straight line, or an arc below vertices of one tier."""
    import numpy as np

    share = np.linspace(0.0, 1.0, 17 if bent else 2)
    xs, ys = (start + (end - start) * share for start, end in zip(one, other, strict=True))
    if bent:
        ys = ys - 4 * share * (1 - share) * 0.8 * abs(other[0] - one[0])
    return np.column_stack([xs, ys])


def _draw_vertices(
    axes: Axes, labels: Mapping[int, str], places: Mapping[int, Place], tiers: Mapping[int, int]
) -> None:
    layered = any(tiers.values())
    rows: dict[int, list[int]] = {}
    for vertex in sorted(tiers):
        rows.setdefault(tiers[vertex], []).append(vertex)
    for tier, row in rows.items():
        xs, ys = zip(*(places[vertex] for vertex in row), strict=True)
        look: dict[str, Any] = {"color": BLUE, "marker": "s"} if tier == 0 else {"color": ORANGE, "marker": "o"}
        axes.scatter(xs, ys, s=36 if len(row) <= 64 else 12, edgecolors=INK, linewidths=0.5, zorder=3, **look)
        if layered:
            kinds = ", ".join(dict.fromkeys(_kind_of(labels[vertex]).removesuffix(" of node") for vertex in row))
            axes.text(-0.02, tier, shortened(kinds, 24), ha="right", va="center")
        if len(row) <= NAMED or not layered:
            for vertex in row[:: 1 + (len(row) - 1) // 32]:
                x, y = places[vertex]
                below: dict[str, Any] = {"xytext": (0, -9 if tier == 0 else 7), "va": "top" if tier == 0 else "bottom"}
                if not layered:
                    below = {"xytext": (12 * x, 12 * y), "va": "center"}
                text = _short(labels[vertex], layered=layered)
                axes.annotate(text, (x, y), ha="center", textcoords="offset points", fontsize=7, **below)
    axes.autoscale_view()
    axes.margins(0.06)
    if not layered:
        axes.set_aspect("equal")


def _short(name: str, *, layered: bool) -> str:
    """The numbers of a name, the node first, such as ``1.0`` for GPU 0 of node 1; the name if it has none."""
    numbers = re.findall(r"\d+", name)
    return ".".join(reversed(numbers)) if numbers else shortened(name, 12) if not layered else ""
