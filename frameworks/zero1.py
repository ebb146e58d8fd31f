"""ZeRO stage 1: each data-parallel rank holds the optimizer states of a shard of the weights and updates that shard.

Gradients are reduce-scattered in buckets while the last backward pass goes on, and the updated weights are
all-gathered after the optimizer: together the volume of an all-reduce (Rajbhandari et al. 2020, §7.1).
"""

from __future__ import annotations

from typing import Any

from frameworks.ddp import BucketedGradients
from simsys.framework import Event, Shards, register


@register("zero1")
class ZeRO1(BucketedGradients):
    """DDP's buckets, reduce-scattered; the options are those of buckets.

    They lie in the gradients' own buffer, as in Megatron Core ("Distributed Optimizer" of its user guide), so there is
    no second copy of the gradients.
    """

    @classmethod
    def shards(cls, options: Any, ranks: int) -> Shards:
        """The optimizer's states are divided."""
        return Shards(optimizer=ranks)

    def exchange(self, nbytes: float, over: str) -> list[Event]:
        """Reduce one bucket to shards; the backward pass does not wait."""
        return [self.rank.reduce_scatter(nbytes, over=over, name="gradients")]

    def after_optimizer(self) -> Event:
        """Collect the weights that the other ranks have updated, in the precision that the passes compute in."""
        by_group = self.plan.parameter_bytes_by_group.items()
        gathers = [self.rank.all_gather(nbytes, over=over, name="parameters") for over, nbytes in by_group]
        return self.rank.wait(gathers)
