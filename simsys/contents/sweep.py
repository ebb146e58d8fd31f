"""The content of a sweep: its table, and which columns are settings that vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.sweeps.store import Store
from simsys.sweeps.table import table_of


@dataclass(frozen=True)
class SweepContent:
    """What is known of a sweep.

    Args:
        name: Its scenario.
        columns: Its table (`simsys.sweeps.table.table_of`).
        settings: The columns that are settings.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    settings: Sequence[str]

    @property
    def varied(self) -> list[str]:
        """The settings that have several values."""
        return [name for name in self.settings if len(set(map(str, self.columns[name]))) > 1]

    def known(self, *names: str) -> list[int]:
        """The rows in which all these columns are numbers; none if one of the columns is missing."""
        if any(name not in self.columns for name in names):
            return []
        rows = range(len(self.columns[names[0]]))
        return [row for row in rows if all(is_number(self.columns[name][row]) for name in names)]


def content_of_store(store: Store, metrics: Sequence[str] = ()) -> SweepContent:
    """The content of an open store.

    Args:
        store: The store.
        metrics: Metrics that are needed; those of the sweep's own table by default.
    """
    return SweepContent(store.meta().get("name", store.folder.name), table_of(store, metrics), store.paths())


def is_number(value: Any) -> bool:
    """Whether a cell is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """The points than which no other has both more of the first and less of the second (Pareto), by the first value.

    Example:
        >>> frontier([(1.0, 1.0), (2.0, 3.0), (1.5, 4.0)])
        [0, 1]
    """
    found: list[int] = []
    least = float("inf")
    for place in sorted(range(len(points)), key=lambda place: (-points[place][0], points[place][1])):
        if points[place][1] < least:
            found.append(place)
            least = points[place][1]
    return found[::-1]
