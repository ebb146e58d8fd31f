"""From the section `search` of a scenario to the axes of its space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import DATA_STRATEGIES
from simsys.errors import UsageError, did_you_mean
from simsys.parallel.activations import Recompute
from simsys.searches.scenarios import AUTO, is_written
from simsys.searches.training.base import Base
from simsys.searches.training.space import INTERLEAVED, PLAIN, Axes, divisors, useful_stages

SCHEDULES = (PLAIN, "gpipe", INTERLEAVED, "zero_bubble")
KEYS = {
    "parallelism.tp_degree": "tensor",
    "parallelism.cp_degree": "context",
    "parallelism.ep_degree": "expert",
    "parallelism.pp_stages": "pipeline",
    "parallelism.virtual_stages": "virtual",
    "parallelism.schedule": "schedules",
    "parallelism.strategy": "kinds",
    "parallelism.sequence_parallel": "sequence_parallel",
    "training.batch_size_per_gpu": "samples",
    "training.activation_recompute": "recompute",
}
"""The settings of a layout, each with its axis."""
FOLLOWS = {
    "parallelism.dp_degree": "it follows from the number of GPUs and the other degrees",
    "training.gradient_accumulation_steps": "it follows from training.global_batch_size",
    "training.global_batch_size": "layouts with different batches are no alternatives",
}
"""Settings that cannot be searched, with the reason."""
COUNTS = ("tensor", "context", "expert", "pipeline", "virtual", "samples")


def layout_axes(base: Base, over: Mapping[str, Any] | str) -> Axes:
    """The axes of a search.

    Args:
        base: The training.
        over: As `SearchConfig.over`; keys that belong to no axis are ignored.

    Raises:
        UsageError: If a value does not belong to its axis.
    """
    found: dict[str, Any] = {}
    for key, axis in KEYS.items():
        if over != AUTO and key in over and isinstance(over, Mapping) and over[key] != AUTO:
            found[axis] = _values(key, axis, over[key])
        elif (over == AUTO and not is_written(base.config, key)) or (over != AUTO and key in over):
            found[axis] = _useful(base, axis)
        else:
            found[axis] = _as_given(base.config, key, axis)
    stage_layers = base.config.parallelism.stage_layers is not None
    gpus_per_node = base.cluster.gpus_per_node
    return Axes(**found, layers=base.layers, gpus_per_node=gpus_per_node, stage_layers=stage_layers)


def _useful(base: Base, axis: str) -> tuple[Any, ...] | None:
    """All values of an axis that may be of use."""
    gpus, model = base.cluster.num_gpus, base.model
    if axis in ("virtual", "sequence_parallel"):
        return None
    if axis == "expert":
        return divisors(model.experts)
    if axis == "pipeline":
        return useful_stages(base.layers, gpus)
    if axis == "samples":
        return divisors(base.samples)
    if axis in ("tensor", "context"):
        return divisors(gpus)
    return {"schedules": SCHEDULES, "kinds": DATA_STRATEGIES, "recompute": tuple(map(str, Recompute))}[axis]


def _as_given(config: SimulationConfig, key: str, axis: str) -> tuple[Any, ...]:
    """The only value of an axis that does not vary."""
    section, _, name = key.partition(".")
    value = getattr(getattr(config, section), name)
    if axis != "kinds":
        return (value,)
    named = [part for part in DATA_STRATEGIES if part in config.parallelism.parts]
    return (named[0] if named else DATA_STRATEGIES[0],)


def _values(key: str, axis: str, given: Sequence[Any]) -> tuple[Any, ...]:
    """The values that the user lists."""
    allowed: Sequence[Any] | None = None
    if axis in COUNTS:
        wrong = [each for each in given if isinstance(each, bool) or not isinstance(each, int) or each < 1]
        if wrong:
            raise UsageError(f"search.over: {key}: positive integers are needed, not {wrong[0]!r}")
    elif axis == "kinds":
        allowed = DATA_STRATEGIES
    elif axis == "recompute":
        allowed = tuple(map(str, Recompute))
    elif axis == "sequence_parallel":
        allowed = (True, False)
    for each in given:
        if allowed is not None and each not in allowed:
            hint = "; degrees are searched under their own keys" if axis == "kinds" else ""
            raise UsageError(
                f"search.over: {key}: unknown value {each!r}{did_you_mean(each, map(str, allowed))}{hint}"
            )
    return tuple(dict.fromkeys(given))
