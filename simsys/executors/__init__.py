"""How an operation is simulated: one executor per level of detail, chosen once, by name."""

from __future__ import annotations

from enum import Enum

from simsys.errors import UsageError
from simsys.executors.base import Executor
from simsys.executors.high import HighDetail
from simsys.executors.medium import MediumDetail
from simsys.executors.mixed import AnalyticalCollectives, BothAbstractions, MacroOperations
from simsys.executors.occupying import OccupyingDetail
from simsys.executors.on_links import OnLinksDetail
from simsys.model.model import Model

LEVELS: dict[str, type[Executor]] = {"high": HighDetail, "medium": MediumDetail}
"""The only place where a level of detail has a name."""

MIXTURES: dict[str, type[Executor]] = {
    "macro operations": MacroOperations,
    "analytical collectives": AnalyticalCollectives,
    "both abstractions": BothAbstractions,
}
"""Between the levels, for comparisons; no scenario can name them."""


class Links(Enum):
    """What becomes of transfers at medium; at high they are always carried out step by step."""

    IDLE = "idle"
    """They take the time of links that no others use."""
    STEPS = "steps"
    """They are carried out on the links; a collective is one event while its links are uncontended."""
    LOADS = "loads"
    """They load the links evenly while they last, and go on more slowly where loads exceed bandwidth."""


_MEDIUM = {Links.IDLE: MediumDetail, Links.STEPS: OnLinksDetail, Links.LOADS: OccupyingDetail}


def executor_class(lod: str, links: Links = Links.IDLE) -> type[Executor]:
    """The executor of a level of detail, or of a mixture.

    Args:
        lod: Its name.
        links: What becomes of transfers at medium.
    """
    if lod in MIXTURES:
        return MIXTURES[lod]
    return _MEDIUM[links] if lod == "medium" else LEVELS[lod]


def costed_model(model: Model, lod: str) -> Model:
    """The model with the amounts that a level of detail, or a mixture, costs.

    Raises:
        UsageError: Nothing but the macro operations of the model is known, and the level needs its layers.
    """
    if executor_class(lod).aggregates:
        return model.aggregated
    if not model.layered:
        raise UsageError(
            f"of {model.name}, the model DB has aggregated_ops alone; {lod} detail needs its layers, medium does not"
        )
    return model


__all__ = [
    "LEVELS",
    "MIXTURES",
    "AnalyticalCollectives",
    "BothAbstractions",
    "Executor",
    "HighDetail",
    "Links",
    "MacroOperations",
    "MediumDetail",
    "OccupyingDetail",
    "OnLinksDetail",
    "costed_model",
    "executor_class",
]
