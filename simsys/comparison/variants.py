"""Ways to simulate one scenario: the two levels of detail, and the mixtures that lie between them."""

from __future__ import annotations

from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError

HIGH, MEDIUM = "high", "medium"
MACRO, ANALYTICAL, BOTH, JUMPS = "macro operations", "analytical collectives", "both", "both and jumps"
OCCUPIED = "medium, occupied links"
ATTRIBUTION = (HIGH, MACRO, ANALYTICAL, BOTH, JUMPS)
"""In this order each says what one abstraction is worth."""


def as_variant(config: SimulationConfig, variant: str) -> SimulationConfig:
    """The scenario as a variant simulates it; the seed and the workload stay.

    `JUMPS` is medium on idle links; `OCCUPIED` and `MEDIUM` are medium as the scenario asks for it.
    """
    if variant in (HIGH, MEDIUM, OCCUPIED):
        return _with(config, lod=HIGH if variant == HIGH else MEDIUM)
    if variant not in (BOTH, JUMPS):
        return _with(config, lod=variant)
    idle = _with(config, lod=MEDIUM, occupy_links=False)
    if variant == JUMPS:
        return idle
    if config.serving is None:
        return _with(config, lod="both abstractions")
    stepping = config.serving.model_copy(update={"stepping": True})
    return idle.model_copy(update={"serving": stepping}).located_in(config.folder)


def attribution_variants(config: SimulationConfig) -> tuple[str, ...]:
    """The variants that tell what each abstraction is worth in a scenario.

    Raises:
        UsageError: If several jobs share the cluster, which have a level of detail in common.
    """
    if config.jobs is not None:
        raise UsageError(f"{config.name}: attribution is of one job, not of several that share a cluster")
    return ATTRIBUTION if config.simulation.occupy_links is False else (*ATTRIBUTION, OCCUPIED)


def _with(config: SimulationConfig, **settings: object) -> SimulationConfig:
    simulation = config.simulation.model_copy(update=settings)
    return config.model_copy(update={"simulation": simulation}).located_in(config.folder)
