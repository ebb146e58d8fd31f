"""Ways to simulate one scenario: the two levels of detail, and the mixtures that lie between them."""

from __future__ import annotations

from typing import NamedTuple

from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.executors import MIXTURES, Combination
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

HIGH, MEDIUM = "high", "medium"
MACRO, ANALYTICAL, BOTH, RUNS = "macro operations", "analytical collectives", "both", "both and runs of steps"
OCCUPIED = "medium, occupied links"
ATTRIBUTION = (HIGH, MACRO, ANALYTICAL, BOTH, RUNS)
"""In this order each says what one abstraction is worth."""


class Variant(NamedTuple):
    """One way to simulate a scenario.

    Args:
        config: The scenario, at a level of detail; the seed and the workload are those of the other variants.
        made_of: The components of the executor, if not those of the level.
    """

    config: SimulationConfig
    made_of: Combination | None = None

    def simulate(self) -> RunResult:
        """Simulate the scenario this way."""
        return simulate(self.config, made_of=self.made_of)


def as_variant(config: SimulationConfig, variant: str) -> Variant:
    """The variant of a scenario that has a name.

    `RUNS` is medium on idle links; `OCCUPIED` and `MEDIUM` are medium as the scenario asks for it. All others are
    `HIGH`, mixtures or `BOTH`, which is medium with single steps in serving and a mixture in training.
    """
    if variant in (HIGH, MEDIUM, OCCUPIED):
        return Variant(_with(config, lod=HIGH if variant == HIGH else MEDIUM))
    if variant == RUNS:
        return Variant(_with(config, lod=MEDIUM, occupy_links=False))
    if variant == BOTH and config.serving is not None:
        stepping = config.serving.model_copy(update={"stepping": True})
        return Variant(_with(config.model_copy(update={"serving": stepping}), lod=MEDIUM, occupy_links=False))
    made_of = MIXTURES["both abstractions" if variant == BOTH else variant]
    # The level says which amounts of the model are costed: those of its macro operations, or of its layers.
    return Variant(_with(config, lod=MEDIUM if made_of.computation.aggregates else HIGH), made_of)


def attribution_variants(config: SimulationConfig) -> tuple[str, ...]:
    """The variants that say what each abstraction is worth in a scenario.

    Raises:
        UsageError: If several jobs share the cluster, which have a level of detail in common.
    """
    if config.jobs is not None:
        raise UsageError(f"{config.name}: attribution is of one job, not of several that share a cluster")
    return ATTRIBUTION if config.simulation.occupy_links is False else (*ATTRIBUTION, OCCUPIED)


def _with(config: SimulationConfig, **settings: object) -> SimulationConfig:
    simulation = config.simulation.model_copy(update=settings)
    return config.model_copy(update={"simulation": simulation}).located_in(config.folder)
