"""Checks whether GPUs that differ from the rest can run the scenario."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_precision import DEFAULT, followed, precision_of
from simsys.build.training import training_precision
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model

EXCEPTIONS, NODES = ("hardware", "exceptions"), ("hardware", "nodes")


@rule("hardware.exceptions")
def unequal_gpus(parts: Parts, found: Findings) -> None:
    """All GPUs compute in the precision of the scenario, and a serving replica has GPUs of one model."""
    config, cluster, model = parts.config, parts.cluster, parts.model
    if cluster is None or not cluster.exceptions:
        return
    place = EXCEPTIONS if config.hardware.exceptions else NODES
    if config.training is not None:
        dtype = training_precision(config.training, cluster.spec).compute
        if dtype in cluster.spec.peak_flop_per_s:
            found.attempt(place, lambda: cluster.mean_peak_flop_per_s(dtype))
    else:
        _check_replicas(config, cluster, model, place, found)


def _check_replicas(
    config: SimulationConfig, cluster: Cluster, model: Model | None, place: KeyPath, found: Findings
) -> None:
    """A serving replica has GPUs of one model, and all of them compute in the precision of the served model."""
    assert config.serving is not None
    specs, size = cluster.specs, config.parallelism.tp_degree
    dtype = config.serving.precision or DEFAULT
    if model is not None and followed(config.serving, model) is not None:
        dtype = precision_of(config.serving, cluster.spec, model).compute
    for first in range(0, len(specs) - size + 1, size):
        names = list(dict.fromkeys(spec.name for spec in specs[first : first + size]))
        if len(names) > 1:
            message = (
                f"a replica has GPUs of one model, but GPUs {first} to {first + size - 1} are {' and '.join(names)}"
            )
            found.error(place, message)
            return
    lacking = next((spec for spec in specs if dtype not in spec.peak_flop_per_s), None)
    if lacking is not None and dtype in cluster.spec.peak_flop_per_s:
        known = ", ".join(lacking.peak_flop_per_s)
        found.error(place, f"{lacking.name} has no {dtype} arithmetic; it has {known}")
