"""Pictures of own data under the names of an earlier design: the time line, the communication graph, scaling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsys.errors import UsageError
from simsys.metrics.history import HistoryEvent
from simsys.plots.drawing import styled, write_figure
from simsys.plots.kinds.pipeline import Slice, gantt
from simsys.plots.kinds.scaling import scaling_efficiency
from simsys.plots.kinds.traffic import from_mapping, matrix

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure


class Visualizer:
    """Draws data that need not come from a run.

    Example:
        >>> from simsys.plots.visualizer import Visualizer
        >>> figure = Visualizer().plot_scaling_efficiency(num_devices=[1, 2, 4], throughput=[100, 195, 380])
        >>> [axes.get_xlabel() for axes in figure.axes]
        ['GPUs', 'GPUs']
    """

    def plot_training_timeline(self, events: Iterable[HistoryEvent], title: str = "training") -> Figure:
        """Computation and communication of each rank over time.

        Args:
            events: The event history, as `DistributedAISimulator.engine.event_history` has it.
            title: The title.

        Raises:
            UsageError: If there are no operations in it.
        """
        slices: list[Slice] = []
        open_since: dict[tuple[int, str, str], list[float]] = {}
        ranks: dict[int, int] = {}
        for event in sorted(events, key=lambda each: each.timestamp):
            sort, _, edge = event.event_type.rpartition("_")
            if sort == "ITERATION":
                continue
            lane = ranks.setdefault(event.node_id, len(ranks))
            started = open_since.setdefault((event.node_id, sort, event.name), [])
            if edge == "START":
                started.append(event.timestamp)
            elif started:
                slices.append(Slice(lane, event.name, started.pop(0), event.timestamp, beside=sort != "COMPUTE"))
        if not slices:
            raise UsageError("there is no operation in these events; set simulation.collect_events to collect them")
        ordered = {rank: place for place, rank in enumerate(sorted(ranks))}
        lanes = {lane: ordered[rank] for rank, lane in ranks.items()}
        moved = [Slice(lanes[each.lane], each.name, each.start_s, each.end_s, "", each.beside) for each in slices]
        with styled():
            return gantt(title, [f"rank {rank}" for rank in ordered], moved)

    def plot_communication_graph(
        self, adjacency: Mapping[Any, Any] | Sequence[Sequence[float]] | np.ndarray, title: str = "communication"
    ) -> Figure:
        """Bytes from rank to rank as a matrix.

        Args:
            adjacency: A square matrix, bytes by pair of ranks, or columns ``src``, ``dst``, ``nbytes`` as
                `RunResult.traffic` has them.
            title: The title.

        Raises:
            UsageError: If a matrix is not square, or empty.
        """
        cells = from_mapping(adjacency)
        if cells.ndim != 2 or cells.shape[0] != cells.shape[1] or not cells.size:
            raise UsageError(f"a communication graph is a square matrix, not one of shape {cells.shape}")
        with styled():
            return matrix(title, cells)

    def plot_scaling_efficiency(
        self, num_devices: Sequence[int], throughput: Sequence[float], title: str = "scaling"
    ) -> Figure:
        """Throughput and efficiency over the number of devices.

        Args:
            num_devices: Numbers of devices.
            throughput: Throughput of each, in samples per second.
            title: The title.

        Raises:
            UsageError: If they differ in length, there are none, or a number is not positive.
        """
        points = sorted(zip(num_devices, throughput, strict=False))
        if len(num_devices) != len(throughput) or not points:
            raise UsageError(
                f"each number of devices has one throughput; these are {len(num_devices)} and {len(throughput)}"
            )
        if points[0][0] < 1 or min(throughput) <= 0:
            raise UsageError("numbers of devices and throughputs are positive")
        with styled():
            return scaling_efficiency(title, {"throughput": points})

    def save_figure(self, figure: Figure, path: str | Path) -> Path:
        """Write a figure, as PNG or SVG by the file's ending; return the file.

        Raises:
            UsageError: If the ending is unknown.
            OutputError: If the file could not be written.
        """
        return write_figure(figure, Path(path))
