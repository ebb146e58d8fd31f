"""Distributed data parallel: every rank holds the whole model and averages gradients with all others.

Gradients are exchanged in buckets while the backward pass goes on, as in PyTorch's
``DistributedDataParallel`` (Li et al. 2020, §3.2.3); with gradient accumulation only the last micro-batch
communicates (``no_sync``).
"""

from __future__ import annotations

from simsys.framework import Block, DataParallel, Event, Rank, TrainingPlan, register
from simsys.units import Bytes


@register("ddp")
class DDP(DataParallel):
    """Bucketed all-reduce of the gradients, overlapped with the backward pass."""

    class Options(DataParallel.Options):
        """Bucket sizes are PyTorch's defaults: 1 MiB first, to start communication early, then 25 MiB."""

        bucket_size: Bytes = 25 * 2**20
        first_bucket_size: Bytes = 2**20
        overlap: bool = True

    same_every_step = True
    every_micro_batch = False
    options: Options

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Options) -> None:
        super().__init__(rank, plan, options)
        self.pending: list[Event] = []
        self.filled_bytes = 0.0

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> None:
        """Send off every bucket that this block's gradients fill."""
        if not last_micro_batch:
            return
        self.filled_bytes += block.gradient_bytes
        while self.options.overlap and self.filled_bytes >= self.bucket_bytes():
            self.exchange(self.bucket_bytes())

    def finish(self) -> Event:
        """Send off what is left and wait for all buckets."""
        if self.filled_bytes:
            self.exchange(self.filled_bytes)
        pending, self.pending = self.pending, []
        return self.rank.wait(pending)

    def bucket_bytes(self) -> float:
        """Size of the bucket being filled."""
        return self.options.bucket_size if self.pending else self.options.first_bucket_size

    def exchange(self, nbytes: float) -> None:
        """Average one bucket over the data-parallel group; the backward pass does not wait."""
        self.filled_bytes -= nbytes
        self.pending.append(self.rank.all_reduce(nbytes, over="data", name="gradients"))
