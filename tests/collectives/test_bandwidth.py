"""Algorithm and bus bandwidth are those of nccl-tests."""

from __future__ import annotations

import pytest

from simsys.collectives import CollectiveKind, Path, algbw_bytes_per_s, busbw_bytes_per_s, get_algorithm
from simsys.errors import UsageError


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 2 * 7 / 8),
        ("barrier", 2 * 7 / 8),
        ("all_gather", 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_to_all", 7 / 8),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("send_recv", 1.0),
    ],
)
def test_the_factors_of_nccl_tests(kind: str, factor: float) -> None:
    assert algbw_bytes_per_s(1e9, 0.01) == 1e11
    assert busbw_bytes_per_s(CollectiveKind(kind), 8, 1e9, 0.01) == pytest.approx(factor * 1e11, rel=1e-15)


def test_a_published_line_of_nccl_tests() -> None:
    """Azure ND A100 v4, 4 GPUs: 1 GiB all-reduce in 7173.7 us, algbw 149.68 GB/s, busbw 224.52 GB/s."""
    assert algbw_bytes_per_s(2**30, 7173.7e-6) / 1e9 == pytest.approx(149.68, abs=0.005)
    assert busbw_bytes_per_s(CollectiveKind.ALL_REDUCE, 4, 2**30, 7173.7e-6) / 1e9 == pytest.approx(224.52, abs=0.005)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"])
@pytest.mark.parametrize("n", [2, 3, 64])
def test_a_ring_without_latency_has_the_bus_bandwidth_of_its_links(kind: str, n: int) -> None:
    seconds = get_algorithm("ring").seconds(CollectiveKind(kind), n, 1e9, [Path(0.0, 50e9)])
    assert busbw_bytes_per_s(CollectiveKind(kind), n, 1e9, seconds) == pytest.approx(50e9, rel=1e-12)


def test_what_took_no_time_has_no_bandwidth() -> None:
    assert busbw_bytes_per_s(CollectiveKind.ALL_REDUCE, 1, 1e9, 0.0) == 0.0
    with pytest.raises(UsageError, match="at least one rank, not 0"):
        busbw_bytes_per_s(CollectiveKind.ALL_REDUCE, 0, 1e9, 1.0)
