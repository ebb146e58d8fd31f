"""Fully sharded data parallel: every rank holds a shard of each block and gathers the rest when it is needed.

As PyTorch's ``FullyShardedDataParallel`` (Zhao et al. 2023, §3–4): the weights of a block are all-gathered before
its forward and again before its backward pass, and its gradients are reduce-scattered after the latter. The
collectives of a group run in order on one communication stream, so gradients wait for weights that were requested
earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import PositiveInt

from frameworks.offload import HostOptimizer
from simsys.errors import UsageError
from simsys.framework import (
    Block,
    CollectiveKind,
    DataParallel,
    Event,
    Group,
    OverlappedCollectives,
    Rank,
    Shards,
    State,
    TrainingPlan,
    register,
)
from simsys.model.work import FP32_BYTES

Unit = tuple[Block, int]
"""A block and its place in its chunk; equal layers are the same block."""


@register("fsdp")
class FSDP(DataParallel):
    """Each block is a unit of its own. The last one stays gathered, since the backward pass begins with it."""

    class Options(DataParallel.Options):
        """Names are those of PyTorch where it has the option.

        `reshard_after_forward` frees the gathered weights after the forward pass. `forward_prefetch` and
        `backward_prefetch` request the next unit's weights before a unit computes; without them, all-gathers are
        exposed. `shard_size` divides the model among this number of ranks only and reduces gradient shards over the
        replicas (hybrid shard). `no_sync` keeps whole gradients until the last micro-batch. `reduce_in_half` reduces
        gradients in 16 bit (``MixedPrecision.reduce_dtype``).

        `offload` selects the states in host memory: ``optimizer`` (and with it the gradients' shards and the
        weights in fp32; Ren et al. 2021), or ``parameters`` too, as ``CPUOffload`` and ``CPUOffloadPolicy`` do. Then
        a shard of the weights is copied to the GPU before each all-gather, in fp32, and cast there
        (``all_gather_inputs`` of torch/distributed/fsdp/_fully_shard/_fsdp_param.py).

        Without `overlap` every collective is waited for at once, as on CPUs, where ``fully_shard`` has no streams.
        `buffer_copies` counts the copies between weights, gradients and the flat buffers of collectives.
        """

        reshard_after_forward: bool = True
        forward_prefetch: bool = True
        backward_prefetch: bool = True
        shard_size: PositiveInt | None = None
        no_sync: bool = False
        reduce_in_half: bool = False
        offload: Literal["none", "optimizer", "parameters"] = "none"
        overlap: bool = True
        buffer_copies: bool = False

    same_every_step = same_first_step = True
    same_every_micro_batch = True
    options: Options

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Options) -> None:
        super().__init__(rank, plan, options)
        self.groups: dict[str, tuple[Group, Group]] = {}
        self.coming: deque[Unit] = deque()
        self.gathered: dict[Unit, Event] = {}
        self.pending: list[Event] = []
        self.overlapped = OverlappedCollectives(rank)
        self.used_bytes = 0.0
        """Bytes of the weights of the previous unit until they are released."""
        self.host: HostOptimizer | None = None
        if options.offload != "none":
            self.host = HostOptimizer(rank, plan, {block.over: self.sharers(block)[0].size for block in plan.blocks})

    @classmethod
    def shards(cls, options: Options, ranks: int) -> Shards:
        """All states are divided among the ranks that share a model."""
        size = min(options.shard_size or ranks, ranks)
        if ranks % size:
            raise UsageError(f"shard_size {size} does not divide the {ranks} data-parallel ranks")
        return Shards(
            weights=size,
            gradients=1 if options.no_sync else size,
            optimizer=size,
            gathered="units" if options.reshard_after_forward else "all",
            on_host=cls.on_host(options),
        )

    @staticmethod
    def on_host(options: Options) -> tuple[State, ...]:
        """The states that live on the host; whole gradients stay on the GPU until they are reduced."""
        if options.offload == "none":
            return ()
        gradients: tuple[State, ...] = () if options.no_sync else ("gradients",)
        parameters: tuple[State, ...] = ("parameters",) if options.offload == "parameters" else ()
        return (*parameters, *gradients, "optimizer")

    @classmethod
    def copied_bytes_per_weight(cls, options: Any, ranks: int, weight_bytes: float) -> tuple[float, float]:
        """Copies of ``fully_shard``: shards into a buffer and whole weights out of it; gradients into another one.

        foreach_all_gather and foreach_reduce_scatter of torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
        """
        size = cls.shards(options, ranks).weights
        if not options.buffer_copies or size == 1:
            return 0.0, 0.0
        gathered = 2.0 * weight_bytes * (1.0 + 1.0 / size)
        return gathered, gathered + weight_bytes + FP32_BYTES

    def begin_pass(self, blocks: Sequence[Block], *, forward: bool, last_micro_batch: bool) -> None:
        """Note the order of the units."""
        self.give_back()
        places = range(len(blocks)) if forward else reversed(range(len(blocks)))
        self.coming = deque(zip(blocks, places, strict=True))

    def before_forward(self, block: Block) -> Event:
        """Wait for the weights of the unit; request those of the next unit."""
        self.unit, event = self.unshard(prefetch=self.options.forward_prefetch)
        self.overlapped.take()
        return event if self.options.overlap else self.rank.wait([*self.gathered.values()])

    def after_forward(self, block: Block) -> None:
        """Release the weights of the unit."""
        if self.options.reshard_after_forward and self.coming:
            del self.gathered[self.unit]
            self.used_bytes = self.whole_bytes(block)
            self.give_back()

    def before_backward(self, block: Block, *, last_micro_batch: bool) -> Event:
        """Wait for the weights of the unit, which are always released afterwards; request those of the next unit."""
        self.give_back()
        unit, event = self.unshard(prefetch=self.options.backward_prefetch)
        event = event if self.options.overlap else self.rank.wait([*self.gathered.values()])
        del self.gathered[unit]
        self.used_bytes = self.whole_bytes(block)
        self.overlapped.take()
        return event

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> Event | None:
        """Reduce the unit's gradients to shards, and these over the replicas."""
        if self.options.no_sync and not last_micro_batch:
            return None
        sharers, replicas = self.sharers(block)
        if nbytes := self.unreduced_bytes(block):
            self.rank.allocate(nbytes, name="gathered")
            self.rank.release(nbytes, name="gathered")
        self.give_back()
        sent_bytes = block.gradient_bytes / 2.0 if self.options.reduce_in_half else block.gradient_bytes
        shard_bytes = block.gradient_bytes / sharers.size
        start = self.overlapped.collective if self.options.overlap else self.rank.collective
        reduce = CollectiveKind.ALL_REDUCE
        event = start(CollectiveKind.REDUCE_SCATTER, sent_bytes, over=sharers, name="gradients")
        event = start(reduce, sent_bytes / sharers.size, over=replicas, name="gradient shards", after=event)
        if self.host is not None:
            event = self.host.add(shard_bytes, after=event)
        self.pending.append(event)
        return None if self.options.overlap else event

    def finish(self) -> Event:
        """Wait for all gradients."""
        self.give_back()
        self.overlapped.clear()
        pending, self.pending = self.pending, []
        return self.rank.wait(pending)

    def update(self) -> Event:
        """Update the rank's shard, where the optimizer lives."""
        if self.host is None:
            return super().update()
        return self.host.update(self.plan) if self.offloads_parameters else self.host.update_and_fetch(self.plan)

    @property
    def offloads_parameters(self) -> bool:
        """Whether the weights live on the host."""
        return self.options.offload == "parameters"

    def unshard(self, *, prefetch: bool) -> tuple[Unit, Event]:
        """Return the next unit and the event of its gathered weights."""
        unit = self.coming.popleft()
        event = self.gather(unit)
        if prefetch and self.coming:
            self.gather(self.coming[0], ahead=True)
        return unit, event

    def gather(self, unit: Unit, *, ahead: bool = False) -> Event:
        """All-gather a unit's weights, unless gathered or in flight; `ahead` overlaps with the previous unit."""
        if unit not in self.gathered:
            block, (sharers, _) = unit[0], self.sharers(unit[0])
            if nbytes := self.whole_bytes(block):
                self.rank.allocate(nbytes, name="gathered")
            there = None
            if self.offloads_parameters:  # in fp32, as the gradients are
                there = self.rank.from_host(block.gradient_bytes / sharers.size, name="parameter shards")
            start = self.overlapped.collective if ahead and self.options.overlap else self.rank.collective
            self.gathered[unit] = start(
                CollectiveKind.ALL_GATHER, block.whole_bytes, over=sharers, name="parameters", after=there
            )
        return self.gathered[unit]

    def whole_bytes(self, block: Block) -> float:
        """Bytes of a gathered block, with its shard in flight from the host; 0 if every rank holds it."""
        size = self.sharers(block)[0].size
        staged = block.gradient_bytes / size if self.offloads_parameters else 0.0
        return block.whole_bytes + staged if size > 1 or self.offloads_parameters else 0.0

    def unreduced_bytes(self, block: Block) -> float:
        """Bytes of a block's gradients before sharding, and of a shard in flight to the host."""
        size = self.sharers(block)[0].size
        if self.options.no_sync or (size == 1 and self.host is None):
            return 0.0
        return block.gradient_bytes * (1.0 + (1.0 / size if self.host is not None else 0.0))

    def give_back(self) -> None:
        """Free the weights of the unit that has run."""
        if self.used_bytes:
            self.rank.release(self.used_bytes, name="gathered")
        self.used_bytes = 0.0

    def sharers(self, block: Block) -> tuple[Group, Group]:
        """The ranks that share a block's weights, and the ranks with equal shards."""
        if block.over not in self.groups:
            size = self.shards(self.options, self.rank.group(block.over).size).weights
            self.groups[block.over] = self.rank.layout.split(self.rank.index, block.over, size)
        return self.groups[block.over]
