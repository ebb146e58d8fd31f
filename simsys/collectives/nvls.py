"""Reduction in the switch: NVLink SHARP, which NCCL calls NVLS.

The NVSwitches of Hopper and later sum data from the GPUs and multicast data of one GPU to all (Klenk et al. 2020, "An
In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives", ISCA). Each of N GPUs owns a block
of S/N bytes. To reduce, the switch fetches the block from every GPU and sends the sum to the owner. To gather, the
owner sends its block once and every GPU receives it. So every GPU sends and receives, at bandwidth B and with latency
L::

    reduce-scatter   S up, S/N down                  L + S/B
    all-gather       S/N up, S down                  L + S/B
    all-reduce       S + S/N up, S/N + S down        (L + S/B) + (L + S/(N·B))

The transfers of a step form a ring of GPUs, which loads every link to and from the switch once; sums in the switch
have no single sender.
"""

from __future__ import annotations

from simsys.collectives.base import Algorithm, CollectiveKind, Phase, Span, register_algorithm
from simsys.collectives.ring import shifted_pairs


@register_algorithm
class Nvls(Algorithm):
    """The NVSwitch adds up and copies: every GPU sends its buffer once and receives it once."""

    name = "nvls"
    pattern = "nvls"
    kinds = frozenset(
        {
            CollectiveKind.ALL_REDUCE,
            CollectiveKind.ALL_GATHER,
            CollectiveKind.REDUCE_SCATTER,
            CollectiveKind.BARRIER,
        }
    )

    def suits(self, span: Span) -> bool:
        """The GPUs are on one switch."""
        return span.nodes == 1

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """The larger traffic of every GPU, up or down, and for all-reduce also the smaller one."""
        around = shifted_pairs(size, 1)
        buffer = Phase(around, 1.0, pattern=self.pattern)
        if kind != CollectiveKind.ALL_REDUCE:
            return (buffer,)
        return (buffer, Phase(around, 1.0 / size, pattern=self.pattern))
