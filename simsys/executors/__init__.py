"""How an operation is simulated: one executor per level of detail, chosen once, by name."""

from __future__ import annotations

from simsys.executors.base import Executor
from simsys.executors.high import HighDetail
from simsys.executors.medium import MediumDetail
from simsys.executors.occupying import OccupyingDetail

LEVELS: dict[str, type[Executor]] = {"high": HighDetail, "medium": MediumDetail}
"""The only place where a level of detail has a name."""


def executor_class(lod: str, *, occupy_links: bool = False) -> type[Executor]:
    """The executor of a level of detail.

    Args:
        lod: The level's name.
        occupy_links: Whether transfers slow each other also at medium, as they always do at high.
    """
    return OccupyingDetail if lod == "medium" and occupy_links else LEVELS[lod]


__all__ = ["LEVELS", "Executor", "HighDetail", "MediumDetail", "OccupyingDetail", "executor_class"]
