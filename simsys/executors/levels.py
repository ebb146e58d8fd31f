"""The levels of detail: a table of combinations of components."""

from __future__ import annotations

from enum import Enum

from simsys.errors import UsageError
from simsys.executors.communication.closed_form import ClosedForms
from simsys.executors.communication.occupied import Loads
from simsys.executors.communication.selected import SelectedSteps
from simsys.executors.communication.steps import Steps
from simsys.executors.computation import Ahead, Stepwise
from simsys.executors.executor import Combination
from simsys.executors.iterations.foreseen import ForeseenPrograms
from simsys.executors.iterations.on_links import StretchedPrograms
from simsys.executors.steps.occupying_passes import OccupyingPasses
from simsys.executors.steps.run_passes import MultiStepRuns
from simsys.executors.steps.segment_passes import FoldedPasses, SegmentPasses
from simsys.model.model import Model


class Links(Enum):
    """Treatment of transfers at medium; at high they are always carried out step by step."""

    IDLE = "idle"
    """They have the time of idle links."""
    STEPS = "steps"
    """They are carried out on the links; a collective is one event while its links are uncontended."""
    LOADS = "loads"
    """They load the links evenly for their duration, and slow down where loads exceed bandwidth."""


MEDIUM: dict[Links, Combination] = {
    Links.IDLE: Combination(Ahead, ClosedForms, MultiStepRuns, ForeseenPrograms, one_per_role=True, repeats=True),
    Links.STEPS: Combination(Ahead, SelectedSteps, MultiStepRuns, StretchedPrograms, one_per_role=True, repeats=True),
    Links.LOADS: Combination(Ahead, Loads, OccupyingPasses, one_per_role=True, repeats=True),
}
"""Phases instead of layers, roles instead of ranks, and multi-step runs instead of steps."""

LEVELS: dict[str, Combination] = {
    "high": Combination(Stepwise, Steps, SegmentPasses),
    "medium": MEDIUM[Links.IDLE],
}
"""The only place where a level of detail has a name. High is the definition: every rank a process, every layer an
event, every collective its steps on links."""

MIXTURES: dict[str, Combination] = {
    "macro operations": Combination(Ahead, Steps, FoldedPasses),
    "analytical collectives": Combination(Stepwise, ClosedForms, SegmentPasses),
    "both abstractions": Combination(Ahead, ClosedForms, FoldedPasses),
}
"""Between high and medium, for comparisons: one abstraction without the other, and every rank a process. No scenario
can name them."""


def combination(lod: str, links: Links = Links.IDLE) -> Combination:
    """The components of a level of detail.

    Args:
        lod: Its name.
        links: Treatment of transfers at medium.
    """
    return MEDIUM[links] if lod == "medium" else LEVELS[lod]


def chooses_links(lod: str) -> bool:
    """Whether transfers of a level of detail have more than one treatment (`Links`)."""
    return combination(lod, Links.STEPS) is not combination(lod, Links.IDLE)


def costed_model(model: Model, lod: str) -> Model:
    """The model with the amounts that a level of detail costs.

    Raises:
        UsageError: Nothing but the macro operations of the model is known, and the level needs its layers.
    """
    if combination(lod).computation.aggregates:
        return model.aggregated
    if not model.layered:
        raise UsageError(
            f"of {model.name}, the model DB has aggregated_ops alone; {lod} detail needs its layers, medium does not"
        )
    return model
