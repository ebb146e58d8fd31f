"""How an operation is simulated: one executor per level of detail, chosen once, by name."""

from __future__ import annotations

from simsys.executors.base import Executor
from simsys.executors.high import HighDetail
from simsys.executors.medium import MediumDetail
from simsys.executors.mixed import AnalyticalCollectives, BothAbstractions, MacroOperations
from simsys.executors.occupying import OccupyingDetail

LEVELS: dict[str, type[Executor]] = {"high": HighDetail, "medium": MediumDetail}
"""The only place where a level of detail has a name."""

MIXTURES: dict[str, type[Executor]] = {
    "macro operations": MacroOperations,
    "analytical collectives": AnalyticalCollectives,
    "both abstractions": BothAbstractions,
}
"""Between the levels, for comparisons; no scenario can name them."""


def executor_class(lod: str, *, occupy_links: bool = False) -> type[Executor]:
    """The executor of a level of detail, or of a mixture.

    Args:
        lod: Its name.
        occupy_links: Whether transfers slow each other also at medium, as they always do at high.
    """
    if lod in MIXTURES:
        return MIXTURES[lod]
    return OccupyingDetail if lod == "medium" and occupy_links else LEVELS[lod]


__all__ = [
    "LEVELS",
    "MIXTURES",
    "AnalyticalCollectives",
    "BothAbstractions",
    "Executor",
    "HighDetail",
    "MacroOperations",
    "MediumDetail",
    "OccupyingDetail",
    "executor_class",
]
