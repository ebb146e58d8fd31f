"""Model states in host memory: the common part of offloading in FSDP and ZeRO.

The update runs on the processors of the host and is bound by its memory bandwidth (Ren et al. 2021,
"ZeRO-Offload", §4 and 5).
"""

from __future__ import annotations

from collections.abc import Mapping

from simsys.framework import Event, Rank, TrainingPlan
from simsys.sums import ordered_sum

ROUNDING = 1e-9
"""Relative tolerance for sums of shards, which may be smaller than the whole by rounding."""
SUM_TRANSFERS = 3
"""A sum of gradients: two are read, one is written."""


class HostOptimizer:
    """The optimizer of one rank on its host, with the gradients that arrive there.

    Args:
        rank: The verbs.
        plan: The work of one training step.
        sharers: Number of ranks that share the update of weights, by the kind of group.
    """

    def __init__(self, rank: Rank, plan: TrainingPlan, sharers: Mapping[str, int]) -> None:
        self.rank = rank
        self.sharers = sharers
        self.shard_bytes = ordered_sum(block.gradient_bytes / sharers[block.over] for block in plan.blocks)
        self.arrived_bytes = 0.0

    def add(self, nbytes: float, *, after: Event) -> Event:
        """Copy a shard of the gradients, summed over the ranks at `after`, to the host.

        Gradients of later micro-batches are added to the sum on the host, as in PyTorch (``foreach_reduce`` of
        torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py).
        """
        event = self.rank.to_host(nbytes, name="gradient shards", after=after)
        if self.arrived_bytes > (1.0 - ROUNDING) * self.shard_bytes:
            event = self.rank.update_on_host(SUM_TRANSFERS * nbytes, name="gradient sum", after=event)
        self.arrived_bytes += nbytes
        return event

    def update(self, plan: TrainingPlan) -> Event:
        """Update the shard of the weights."""
        self.arrived_bytes = 0.0
        return self.rank.update_on_host(plan.host_update_bytes, name="optimizer")

    def update_and_fetch(self, plan: TrainingPlan) -> Event:
        """Update the shard, and copy it back in the precision that the passes compute in."""
        by_group = plan.parameter_bytes_by_group.items()
        nbytes = ordered_sum(each / self.sharers[over] for over, each in by_group)
        return self.rank.from_host(nbytes, name="updated parameters", after=self.update(plan))
