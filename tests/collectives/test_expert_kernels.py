"""The kernels that send tokens to experts, against the published figures of DeepEP (README, low-latency kernels)."""

from __future__ import annotations

import pytest

from simsys.collectives.base import CollectiveKind, Path, Span, Way
from simsys.collectives.choose import cheapest
from simsys.collectives.expert_kernels import EXPERT_KERNELS, with_expert_kernel

TOKENS, HIDDEN, CHOSEN = 128, 7168, 8
SENT, BACK = TOKENS * CHOSEN * HIDDEN * (1 + 4 / 128), TOKENS * CHOSEN * HIDDEN * 2.0
LOW_LATENCY = {8: (77, 114), 16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}
"""Microseconds of dispatch and combine by number of ranks."""
CARD, NVLINK = 50e9, 160e9


def seconds(name: str, ranks: int, nbytes: float) -> float:
    """On H800 with a card of 400 Gb/s each; transfers of a rank share its link."""
    nodes = ranks // 8
    outside = ranks - 8 if nodes > 1 else 0
    way = Way(crossing=outside / (ranks - 1))
    path = Path(0.0, CARD / outside if outside else NVLINK / (ranks - 1), way)
    choose = with_expert_kernel(cheapest, EXPERT_KERNELS[name])
    (plan,) = choose(CollectiveKind.ALL_TO_ALL, ranks, lambda _: [path], Span(nodes, 8))
    return plan.seconds(nbytes)


@pytest.mark.parametrize("ranks", LOW_LATENCY)
def test_low_latency_kernels_take_about_as_long_as_published(ranks: int) -> None:
    for nbytes, measured_us in zip((SENT, BACK), LOW_LATENCY[ranks], strict=True):
        assert seconds("deepep_low_latency", ranks, nbytes) * 1e6 == pytest.approx(measured_us, rel=0.2)


@pytest.mark.parametrize("name", EXPERT_KERNELS)
def test_the_time_is_a_constant_and_the_bytes_over_a_share_of_the_bandwidth(name: str) -> None:
    kernel = EXPERT_KERNELS[name]
    empty, full = seconds(name, 64, 0.0), seconds(name, 64, 64e6)
    assert empty == pytest.approx(kernel.overhead_s)
    assert full - empty == pytest.approx(64e6 * 56 / 64 / (kernel.across * CARD))


def test_other_collectives_are_as_before() -> None:
    choose = with_expert_kernel(cheapest, EXPERT_KERNELS["deepep_low_latency"])
    paths = [Path(1e-6, 1e9)]
    plans = choose(CollectiveKind.ALL_REDUCE, 4, lambda _: paths, Span())
    assert [each.protocol for each in plans] == ["" for _ in plans]
