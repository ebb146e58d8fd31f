"""The communication graph: bytes from GPU to GPU as a matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.contents.run import RunContent
from simsys.plots.drawing import new_figure, titled
from simsys.plots.kind import WITH_PLOTS, kind, needs
from simsys.units import Dimension, pretty

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

MOST_CELLS = 128
"""Rows of a matrix; of more GPUs, neighbours share one."""


@kind("traffic", "bytes sent from each GPU to each other", RunContent, needs((), "traffic", hint=WITH_PLOTS))
def traffic(run: RunContent) -> Figure:
    """The communication graph of the run."""
    columns = run.tables["traffic"]
    return matrix(run.name, *_summed(columns["src"], columns["dst"], columns["nbytes"]))


def _summed(sources: Sequence[int], targets: Sequence[int], nbytes: Sequence[float]) -> tuple[np.ndarray, int]:
    """Bytes by cell, and the GPUs that share a row of cells."""
    import numpy as np

    gpus = 1 + max(*sources, *targets)
    share = math.ceil(gpus / MOST_CELLS)
    cells = np.zeros((math.ceil(gpus / share),) * 2)
    np.add.at(cells, (np.asarray(sources) // share, np.asarray(targets) // share), np.asarray(nbytes, float))
    return cells, share


def matrix(name: object, cells: np.ndarray, share: int = 1) -> Figure:
    """A matrix of bytes, on a logarithmic scale of colours; white where nothing was sent.

    Args:
        name: The title.
        cells: Bytes from row to column.
        share: Number of GPUs in a row.
    """
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, (axes,) = new_figure(6.4, 5.6)
    some = cells[cells > 0]
    low, high = (some.min(), some.max()) if some.size else (1.0, 10.0)
    norm = LogNorm(low if low < high else high / 10, high)
    shown = np.ma.masked_less_equal(cells, 0.0)
    size = share * len(cells)
    image = axes.imshow(
        shown, cmap="cividis_r", norm=norm, interpolation="nearest", extent=(-0.5, size - 0.5, size - 0.5, -0.5)
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    axes.set(xlabel="receiving GPU", ylabel="sending GPU", facecolor="white")
    bar = figure.colorbar(image, ax=axes, shrink=0.9)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: pretty(float(value), Dimension.BYTES)))
    bar.ax.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    if high < 10 * low:
        bar.set_ticks([low, math.sqrt(low * high), high] if low < high else [high])
    total = pretty(float(cells.sum()), Dimension.BYTES)
    sharing = f"; each cell is of {share} × {share} GPUs" if share > 1 else ""
    titled(figure, name, f"{total} in all; white: none{sharing}")
    return figure


def from_mapping(adjacency: Mapping[Any, Any] | Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """A square matrix from rows, from columns ``src``, ``dst`` and ``nbytes``, or from bytes by pair of ranks."""
    import numpy as np

    if not isinstance(adjacency, Mapping):
        return np.asarray(adjacency, dtype=float)
    if {"src", "dst", "nbytes"} <= set(adjacency):
        pairs = list(zip(*(adjacency[name] for name in ("src", "dst", "nbytes")), strict=True))
    else:
        pairs = [(src, dst, nbytes) for (src, dst), nbytes in adjacency.items()]
    size = 1 + max((max(src, dst) for src, dst, _ in pairs), default=0)
    cells = np.zeros((size, size))
    for src, dst, nbytes in pairs:
        cells[src, dst] += nbytes
    return cells
