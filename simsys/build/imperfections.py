"""From a scenario's jitter and slowdowns to simulated variation, and to assumptions."""

from __future__ import annotations

from simsys.config.experiment import SimulationConfig
from simsys.costs.jitter import Jitter


def build_jitter(config: SimulationConfig) -> Jitter | None:
    """The random variation of computations in a scenario; None if there is none."""
    given = config.hardware.jitter
    return None if given is None else Jitter(given.compute, config.simulation.seed, given.distribution)


def imperfections(config: SimulationConfig) -> list[str]:
    """Assumptions of a scenario about imperfect hardware, one line each."""
    found = []
    if jitter := config.hardware.jitter:
        per = "iteration" if config.training is not None else "step"
        how = f"{jitter.compute:.3g} of their mean ({jitter.distribution})"
        found.append(f"computations vary by {how}, for each GPU and {per}")
    if count := len(config.hardware.slowdowns):
        found.append(f"slowdowns of GPUs: {count}")
    if count := len(config.network.degradations):
        found.append(f"degradations of links: {count}")
    return found
