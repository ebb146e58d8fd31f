"""Reduction in the switch: every link to and from it carries a buffer once, whatever the number of GPUs."""

from __future__ import annotations

from collections import Counter

import pytest

from simsys.collectives import CollectiveKind, Path, get_algorithm
from simsys.collectives.base import Span

ALL_REDUCE = CollectiveKind.ALL_REDUCE
SWITCH = Path(600e-9, 370e9)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize(
    ("kind", "buffers"),
    [
        (ALL_REDUCE, lambda n: 1 + 1 / n),
        (CollectiveKind.ALL_GATHER, lambda n: 1),
        (CollectiveKind.REDUCE_SCATTER, lambda n: 1),
    ],
)
def test_every_gpu_sends_and_receives_about_its_buffer(kind: CollectiveKind, buffers: object, size: int) -> None:
    sent, received = Counter[int](), Counter[int]()
    for phase in get_algorithm("nvls").phases(kind, size):
        for src, dst in phase.transfers:
            sent[src] += phase.fraction  # type: ignore[assignment]
            received[dst] += phase.fraction  # type: ignore[assignment]
    expected = dict.fromkeys(range(size), pytest.approx(buffers(size)))  # type: ignore[operator]
    assert sent == received == expected


def test_a_large_all_reduce_beats_any_ring_by_nearly_two() -> None:
    nbytes = 1e12
    ring, nvls = (get_algorithm(name).seconds(ALL_REDUCE, 8, nbytes, [SWITCH]) for name in ("ring", "nvls"))
    assert ring / nvls == pytest.approx(1.75 / 1.125, rel=1e-5)


def test_its_time_does_not_grow_with_the_number_of_gpus() -> None:
    few, many = (get_algorithm("nvls").seconds(ALL_REDUCE, n, 1e9, [SWITCH]) for n in (4, 72))
    assert many < few


def test_it_is_for_groups_on_one_switch() -> None:
    assert get_algorithm("nvls").suits(Span(1, 8))
    assert not get_algorithm("nvls").suits(Span(2, 8))
