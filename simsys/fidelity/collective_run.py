"""A collective on an idle cluster, as nccl-tests measures it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simsys.build.cluster import build_cluster
from simsys.collectives import CollectiveKind
from simsys.collectives.choose import named
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.executors.communicator import Communicator
from simsys.fidelity.case import Figures, Unsupported
from simsys.parallel.layout import Group
from simsys.platform.environment import executors_clock

KINDS = {
    "all_reduce": CollectiveKind.ALL_REDUCE,
    "all_gather": CollectiveKind.ALL_GATHER,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER,
    "alltoall": CollectiveKind.ALL_TO_ALL,
    "broadcast": CollectiveKind.BROADCAST,
    "reduce": CollectiveKind.REDUCE,
    "sendrecv": CollectiveKind.SEND_RECV,
}
"""Collectives by the name of the program of nccl-tests."""
CALL_S = 8e-6
"""Overhead of each call in nccl-tests, which launches calls one by one.

Fitted to published results of messages below 1 MiB: the mean error of 19 systems, each counted once, is 25.9, 25.1,
24.8, 24.7 and 25.0 % with 4, 6, 8, 10 and 12 us. Without any, nearly all predictions are too fast.
"""


@dataclass(frozen=True)
class CollectiveRun:
    """One collective of all GPUs of a cluster.

    Args:
        hardware: The ``hardware`` of an experiment, as JSON.
        collective: A key of `KINDS`.
        nbytes: The full buffer.
        algorithm: As ``communication_pattern`` of an experiment.
    """

    hardware: str
    collective: str
    nbytes: float
    algorithm: str = "auto"

    @classmethod
    def of(cls, hardware: Mapping[str, Any], collective: str, nbytes: float, algorithm: str = "auto") -> CollectiveRun:
        """Return the run on hardware given as nested mappings.

        Raises:
            Unsupported: There is no such collective.
        """
        name = collective.lower().replace("_perf", "").replace("all_to_all", "alltoall")
        if name not in KINDS:
            raise Unsupported(f"unknown collective {collective!r}")
        return cls(json.dumps(hardware, sort_keys=True), name, nbytes, algorithm)

    def expected_cpu_s(self) -> float:
        """Return the approximate processor time: nearly none, as the links are idle."""
        return 0.0

    def figures(self) -> Figures:
        """Return the time of a call on idle links, as ``time_s``."""
        cluster = build_cluster(HardwareConfig.model_validate(json.loads(self.hardware)), NetworkConfig())
        platform = cluster.platform()
        choose = named(self.algorithm, cluster.tuning)
        group = Group(tuple(range(cluster.num_gpus)), "all")
        communicator = Communicator(group, cluster.num_gpus, platform.network, choose, executors_clock(platform.env))
        return {"time_s": CALL_S + communicator.seconds(KINDS[self.collective], self.nbytes)}
