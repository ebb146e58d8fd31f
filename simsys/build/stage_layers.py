"""The layers of each pipeline stage of an engine that serves."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.config.engine_schema import EngineProfile
from simsys.config.parallelism import ParallelismConfig
from simsys.parallel.stages import divided_layers


def serving_stage_layers(given: ParallelismConfig, engine: EngineProfile, layers: int) -> Sequence[int] | None:
    """Layers of each stage, as given or as the engine divides what does not divide evenly; None for equal numbers.

    Args:
        given: The settings of parallelism.
        engine: The engine.
        layers: Layers of the model.
    """
    longer, stages = engine.longer_stages, given.pp_stages
    if given.stage_layers is not None or longer is None or layers % stages == 0 or layers < stages:
        return given.stage_layers
    return divided_layers(layers, stages, longer)
