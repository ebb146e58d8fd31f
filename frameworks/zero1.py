"""ZeRO stage 1: each data-parallel rank holds the optimizer states of a shard of the weights and updates that shard.

Gradients are reduce-scattered in buckets during the last backward pass, and the updated weights are all-gathered after
the optimizer. Both together have the volume of an all-reduce (Rajbhandari et al. 2020, §7.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import PositiveInt

from frameworks.ddp import BucketedGradients
from frameworks.offload import HostOptimizer
from simsys.errors import UsageError
from simsys.framework import CollectiveKind, Event, Group, Rank, Shards, TrainingPlan, register


@register("zero1")
class ZeRO1(BucketedGradients):
    """DDP's buckets, reduce-scattered; options as for DDP.

    Buckets lie in the gradient buffer itself, as in Megatron Core ("Distributed Optimizer" of its user guide), so
    there is no second copy of the gradients.
    """

    class Options(BucketedGradients.Options):
        """With `offload: optimizer`, the optimizer states and the fp32 weights are in host memory (Ren et al. 2021).

        The rank's gradient shard is copied there, and the updated weights are copied back. `shard_size` divides the
        optimizer states among this number of neighbouring ranks only. With `reduce_in_half`, gradients are reduced in
        16 bit (Megatron Core: ``grad_reduce_in_bf16``). With `broadcast_parameters`, ranks update whole matrices
        instead of equal shards, and broadcast them, one rank after another (PyTorch's ``ZeroRedundancyOptimizer``;
        InternLM's hybrid_zero_optim.py). With `all_reduce`, every rank gets whole gradients, and
        tensors are assigned to ranks, in 32 bit, as in ``ZeroRedundancyOptimizer``, which lies on top of DDP.
        """

        offload: Literal["none", "optimizer"] = "none"
        shard_size: PositiveInt | None = None
        reduce_in_half: bool = False
        broadcast_parameters: bool = False
        all_reduce: bool = False

    options: Options

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Options) -> None:
        super().__init__(rank, plan, options)
        self.groups: dict[str, tuple[Group, Group]] = {}
        self.host: HostOptimizer | None = None
        if options.offload != "none":
            self.host = HostOptimizer(rank, plan, {block.over: rank.group(block.over).size for block in plan.blocks})

    @classmethod
    def shards(cls, options: Any, ranks: int) -> Shards:
        """The optimizer's states are divided."""
        size = min(options.shard_size or ranks, ranks)
        if ranks % size:
            raise UsageError(f"shard_size {size} does not divide the {ranks} data-parallel ranks")
        return Shards(optimizer=size, on_host=() if options.offload == "none" else ("optimizer",))

    def exchange(self, nbytes: float, over: str) -> list[Event]:
        """Reduce one bucket to shards, and these over the replicas; the backward pass does not wait."""
        sharers, replicas = self.sharers(over)
        nbytes = nbytes / 2.0 if self.options.reduce_in_half else nbytes
        start, reduce = self.overlapped.collective, CollectiveKind.ALL_REDUCE
        if self.options.all_reduce:
            return [start(reduce, nbytes, over=over, name="gradients")]
        event = start(CollectiveKind.REDUCE_SCATTER, nbytes, over=sharers, name="gradients")
        if replicas.size > 1:
            event = start(reduce, nbytes / sharers.size, over=replicas, name="gradient shards", after=event)
        if self.host is not None:
            event = self.host.add(nbytes / self.host.sharers[over], after=event)
        return [event]

    def update(self) -> Event:
        """Update the rank's shard, where the optimizer lives."""
        return super().update() if self.host is None else self.host.update_and_fetch(self.plan)

    def after_optimizer(self) -> Event:
        """Collect the weights that the other ranks have updated, in the precision that the passes compute in."""
        by_group = self.plan.parameter_bytes_by_group.items()
        collect = self.broadcasts if self.options.broadcast_parameters else self.gathers
        return self.rank.wait([event for over, nbytes in by_group for event in collect(nbytes, over)])

    def gathers(self, nbytes: float, over: str) -> list[Event]:
        """Collect equal shards at once."""
        return [self.rank.all_gather(nbytes, over=self.sharers(over)[0], name="parameters")]

    def broadcasts(self, nbytes: float, over: str) -> list[Event]:
        """Assign matrices to ranks; each rank has at least one, and about equal bytes."""
        sharers, _ = self.sharers(over)
        tensors = [each for block in self.plan.blocks if block.over == over for each in block.tensor_bytes]
        if self.options.all_reduce and tensors:
            parts = assigned(tensors, sharers.size)
            return [self.rank.broadcast(part, over=sharers, name="parameters") for part in parts if part]
        matrices = sum(count for block in self.plan.blocks if block.over == over for _, _, count in block.matrices)
        owners = max(1, min(sharers.size, matrices))
        return [self.rank.broadcast(nbytes / owners, over=sharers, name="parameters") for _ in range(owners)]

    def sharers(self, over: str) -> tuple[Group, Group]:
        """The ranks of a group that share optimizer states, and the ranks with equal shards."""
        if over not in self.groups:
            size = min(self.options.shard_size or self.rank.group(over).size, self.rank.group(over).size)
            self.groups[over] = self.rank.layout.split(self.rank.index, over, size)
        return self.groups[over]


def assigned(tensors: Sequence[float], ranks: int) -> list[float]:
    """Bytes of each rank if whole tensors are assigned, the largest first, each to the rank with the fewest bytes.

    ``ZeroRedundancyOptimizer._partition_parameters`` of torch/distributed/optim/zero_redundancy_optimizer.py.

    Example:
        >>> assigned([1.0, 5.0, 3.0], 2)
        [5.0, 4.0]
    """
    parts = [0.0] * ranks
    for nbytes in sorted(tensors, reverse=True):
        parts[parts.index(min(parts))] += nbytes
    return parts
