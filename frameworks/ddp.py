"""Distributed data parallel: every rank holds the whole model and averages gradients with all other ranks.

Gradients are all-reduced in buckets during the backward pass, as in PyTorch's
``DistributedDataParallel`` (Li et al. 2020, §3.2.3); with gradient accumulation only the last micro-batch
communicates (``no_sync``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pydantic import Field, PositiveInt

from simsys.framework import Block, DataParallel, Event, OverlappedCollectives, Rank, Steps, TrainingPlan, register
from simsys.parallel.compression import ERROR_FEEDBACK, CompressedExchange, Compression, Method
from simsys.sums import ordered_sum
from simsys.units import Bytes


class Bucket:
    """Gradients that wait to be exchanged over a group, and the exchanges of this step that are under way.

    Args:
        over: Name of the group: the ranks that hold the same weights.
    """

    def __init__(self, over: str) -> None:
        self.over = over
        self.filled_bytes = 0.0
        self.pending: list[Event] = []


class BucketedGradients(DataParallel, ABC):
    """Gradients collected in buckets, each exchanged as soon as it is full; a subclass says how."""

    class Options(DataParallel.Options):
        """Bucket sizes are PyTorch's defaults: 1 MiB first, to start communication early, then 25 MiB.

        Without `overlap` all gradients are exchanged at once when the backward pass has ended. With `whole_tensors` a
        bucket ends with the gradient that fills it, as PyTorch's do; otherwise at exactly its size.
        """

        bucket_size: Bytes = 25 * 2**20
        first_bucket_size: Bytes = 2**20
        overlap: bool = True
        whole_tensors: bool = False

    same_every_step = same_first_step = True
    every_micro_batch = False
    options: Options

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Options) -> None:
        super().__init__(rank, plan, options)
        self.buckets: dict[str, Bucket] = {}
        self.overlapped = OverlappedCollectives(rank)
        self.after_passes = not options.overlap and not self.every_micro_batch

    @abstractmethod
    def exchange(self, nbytes: float, over: str) -> list[Event]:
        """Exchange one bucket over a group; the backward pass does not wait."""

    def overlaps(self) -> bool:
        """Whether full buckets are sent off during the backward pass."""
        return self.options.overlap

    def before_forward(self, block: Block) -> Event | None:
        """Overlapped buckets slow this computation."""
        self.overlapped.take()
        return None

    def before_backward(self, block: Block, *, last_micro_batch: bool) -> Event | None:
        """Overlapped buckets slow this computation."""
        self.overlapped.take()
        return None

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> None:
        """Send off every bucket that this block's gradients fill."""
        if not last_micro_batch:
            return
        bucket = self.buckets.setdefault(block.over, Bucket(block.over))
        whole = self.options.whole_tensors and block.tensor_bytes
        for nbytes in block.tensor_bytes if whole else (block.gradient_bytes,):
            bucket.filled_bytes += nbytes
            if self.overlaps():
                self.send_full(bucket)

    def finish(self) -> Event | Steps:
        """Send the last bucket and wait for all buckets."""
        return self.exchanged()

    def exchanged(self) -> Event:
        """Send the last bucket; return the event of all buckets."""
        pending: list[Event] = []
        for bucket in self.buckets.values():
            if self.options.overlap:
                self.send_full(bucket)
            self.send_rest(bucket)
            pending, bucket.pending = [*pending, *bucket.pending], []
        self.overlapped.clear()
        return self.rank.wait(pending)

    def send_full(self, bucket: Bucket) -> None:
        """Send all full buckets; the first one of a step is small."""
        first, later = self.options.first_bucket_size, self.options.bucket_size
        while bucket.filled_bytes >= (size := later if bucket.pending else first):
            self.send(bucket, bucket.filled_bytes if self.options.whole_tensors else size)

    def send_rest(self, bucket: Bucket) -> None:
        """Send off what fills no bucket."""
        if bucket.filled_bytes:
            self.send(bucket, bucket.filled_bytes)

    def send(self, bucket: Bucket, nbytes: float) -> None:
        """Send a bucket of this number of bytes."""
        bucket.filled_bytes -= nbytes
        bucket.pending += self.exchange(nbytes, bucket.over)


@register("ddp")
class DDP(BucketedGradients):
    """Bucketed all-reduce of the gradients, compressed if wanted, overlapped with the backward pass."""

    class Options(BucketedGradients.Options):
        """Names are those of PyTorch where it has the option.

        `compression` replaces a communication hook; `topk_ratio` is the share of the gradients that ``topk`` sends,
        `powersgd_rank` the rank of ``powersgd``'s approximation. With `static_graph` the first iteration only learns
        the graph and sends no bucket before its backward pass has ended (``Reducer::delay_all_reduce``). Without
        `gradient_as_bucket_view` the buckets are a second copy of the gradients; that is PyTorch's default, not ours.
        """

        compression: Method = "none"
        topk_ratio: float = Field(default=0.01, gt=0.0, le=1.0)
        powersgd_rank: PositiveInt = 1
        static_graph: bool = False
        gradient_as_bucket_view: bool = True

    options: Options

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Options) -> None:
        super().__init__(rank, plan, options)
        self.graph_known = self.same_first_step = not options.static_graph
        self.exchanges: dict[tuple[float, str], CompressedExchange] = {}
        self.compressed: list[CompressedExchange] = []  # of this step

    @classmethod
    def buffer_bytes(cls, options: Any, gradient_bytes: float) -> float:
        """The buckets, unless gradients are views of them, and the error that compression feeds back."""
        copies = (not options.gradient_as_bucket_view) + (options.compression in ERROR_FEEDBACK)
        return copies * gradient_bytes

    def overlaps(self) -> bool:
        """Not before the graph is known."""
        return super().overlaps() and self.graph_known

    def exchange(self, nbytes: float, over: str) -> list[Event]:
        """Compress one bucket and average it over a group; the backward pass computes on, but does not wait."""
        exchange = self.compressed_exchange(nbytes, over)
        if self.options.compression != "none":
            self.rank.compute(exchange.before, name="compress")
            self.compressed.append(exchange)
        return [
            self.overlapped.collective(kind, size, over=over, name="gradients") for kind, size in exchange.collectives
        ]

    def finish(self) -> Event | Steps:
        """Send the last bucket, wait for all buckets, then decompress them.

        Decompression waits for the end of the backward pass and for all buckets. On arrival of each bucket, it would
        delay the backward pass at times known to the network only. Levels of detail that read the clock at different
        times would then disagree.
        """
        self.graph_known = True
        return self.exchanged() if self.options.compression == "none" else self.exchange_and_decompress()

    def exchange_and_decompress(self) -> Steps:
        """The process of a `finish` with compression."""
        yield self.exchanged()
        for exchange in self.compressed:
            yield self.rank.compute(exchange.after, name="decompress")
        self.compressed.clear()

    def compressed_exchange(self, nbytes: float, over: str) -> CompressedExchange:
        """Computation and collectives of a bucket of this size."""
        if (nbytes, over) not in self.exchanges:
            blocks = [block for block in self.plan.blocks if block.over == over]
            compression = Compression(
                method=self.options.compression,
                ranks=self.rank.group(over).size,
                gradient_bytes=ordered_sum(block.gradient_bytes for block in blocks),
                matrices=tuple(matrix for block in blocks for matrix in block.matrices),
                topk_ratio=self.options.topk_ratio,
                powersgd_rank=self.options.powersgd_rank,
            )
            self.exchanges[nbytes, over] = compression.exchange(nbytes)
        return self.exchanges[nbytes, over]
