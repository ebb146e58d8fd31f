"""ZeRO stage 2: stage 1, with the gradients divided too (Rajbhandari et al. 2020, §5.2).

A rank keeps only its shard of the gradients, so every micro-batch reduces its gradients instead of adding them to
whole gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frameworks.zero1 import ZeRO1
from simsys.framework import Block, Shards, State, register
from simsys.units import Bytes


@register("zero2")
class ZeRO2(ZeRO1):
    """Buckets of 5e8 elements in 16 bit, DeepSpeed's default of ``reduce_bucket_size`` (runtime/zero/config.py)."""

    class Options(ZeRO1.Options):
        """As for ZeRO-1."""

        bucket_size: Bytes = 10**9
        first_bucket_size: Bytes = 10**9

    options: Options

    every_micro_batch = True
    same_every_micro_batch = True

    @classmethod
    def shards(cls, options: Any, ranks: int) -> Shards:
        """The gradients and the optimizer's states are divided."""
        on_host: tuple[State, ...] = () if options.offload == "none" else ("gradients", "optimizer")
        return Shards(gradients=ranks, optimizer=ranks, on_host=on_host)

    @classmethod
    def buffer_bytes(cls, options: Any, gradient_bytes: float) -> float:
        """Bytes of whole gradients: a bucket that fills and one that is reduced; without overlap, all gradients.

        As DeepSpeed's two buffers of ``reduce_bucket_size`` with ``overlap_comm`` (runtime/zero/stage_1_and_2.py).
        """
        return min(2.0 * options.bucket_size, gradient_bytes) if options.overlap else gradient_bytes

    def begin_pass(self, blocks: Sequence[Block], *, forward: bool, last_micro_batch: bool) -> None:
        """Send the last bucket of the previous pass."""
        for bucket in self.buckets.values():
            self.send_rest(bucket)

    def after_backward(self, block: Block, *, last_micro_batch: bool) -> None:
        """Send off every bucket that this block's gradients fill, in every micro-batch."""
        super().after_backward(block, last_micro_batch=True)
