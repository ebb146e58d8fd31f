"""Whether GPUs that differ from the others can do what the scenario asks of all."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.build.training import training_precision
from simsys.check.findings import Findings
from simsys.config.experiment import SimulationConfig

EXCEPTIONS = ("hardware", "exceptions")


def check_exceptions(config: SimulationConfig, cluster: Cluster, found: Findings) -> None:
    """Book what is wrong with them."""
    if config.training is not None:
        dtype = training_precision(config.training, cluster.spec).compute
        if dtype in cluster.spec.peak_flop_per_s:
            found.attempt(EXCEPTIONS, lambda: cluster.mean_peak_flop_per_s(dtype))
    elif any(each.gpu is not None for each in config.hardware.exceptions):
        found.error(EXCEPTIONS, "serving on GPUs of several models is not available yet; remove gpu (speed is)")
