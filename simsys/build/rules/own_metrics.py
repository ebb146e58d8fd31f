"""Checks whether the metrics and analyses of the user's own that a scenario names exist."""

from __future__ import annotations

from functools import partial

from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.config.experiment import SimulationSettings
from simsys.metrics.definitions import shipped_metrics
from simsys.metrics.own import own_analysis, own_metric


def own_names_exist(given: SimulationSettings, found: Findings) -> None:
    """Record each name that is not that of a complete class, whose metric has a name of its own.

    Args:
        given: The section ``simulation``.
        found: Where the errors are recorded.
    """
    shipped = shipped_metrics()
    for index, name in enumerate(given.metrics):
        found.attempt(("simulation", "metrics", index), partial(own_metric, name, shipped))
    for index, name in enumerate(given.analyses):
        found.attempt(("simulation", "analyses", index), partial(own_analysis, name, shipped))


@rule("simulation.metrics")
def own_metrics_exist(parts: Parts, found: Findings) -> None:
    """Each name is that of a complete class, whose metric has a name of its own."""
    own_names_exist(parts.config.simulation, found)
