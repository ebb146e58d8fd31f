"""What NCCL's protocols make of a path, and that times come out as its tuning model has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.build.cluster import build_cluster
from simsys.collectives import CollectiveKind, Path, busbw_bytes_per_s
from simsys.collectives.base import Way
from simsys.collectives.choose import named
from simsys.collectives.nccl import BASE_S, CALL_S, CHANNEL_LIMIT, LL_LIMIT, PROTOCOLS, SHARE, STEP_S, NcclTuning
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.errors import UsageError
from simsys.executors.communicator import Communicator
from simsys.parallel.layout import Group

ALL_REDUCE = CollectiveKind.ALL_REDUCE
HOPPER = NcclTuning("hopper", in_switch_reduction=True)
GENERATIONS = sorted(LL_LIMIT)


@pytest.mark.parametrize(
    ("protocol", "latency_s", "bytes_per_s"),
    [("LL", 0.6e-6, 141e9), ("LL128", 1.9e-6, 0.92 * 370e9), ("Simple", 3.4e-6, 370e9)],
)
def test_a_step_of_a_ring_over_nvlink(protocol: str, latency_s: float, bytes_per_s: float) -> None:
    path = HOPPER.over(Path(0.6e-6, 370e9), protocol, nodes=1)
    assert (path.latency_s, path.bytes_per_s) == pytest.approx((latency_s, bytes_per_s))


def test_a_slow_wire_is_not_counted_twice_nor_hidden() -> None:
    """NCCL's step contains its wire; a wire that takes longer than that decides."""
    assert HOPPER.over(Path(1e-6, 48e9, Way(crossing=1.0)), "LL128", 2).latency_s == 4e-6
    assert HOPPER.over(Path(9e-6, 48e9, Way(crossing=1.0)), "LL128", 2).latency_s == 9e-6


def test_a_step_of_which_some_transfers_leave_the_node_takes_the_mean() -> None:
    path = HOPPER.over(Path(2e-6, 48e9, Way(crossing=0.25)), "Simple", 2)
    assert path.latency_s == pytest.approx(0.25 * 14e-6 + 0.75 * 3.4e-6)


def test_what_a_node_can_send_with_ll_is_shared_by_its_cards() -> None:
    card = Path(2.7e-6, 48e9, Way(crossing=1.0, lanes=8.0))
    assert HOPPER.over(card, "LL", 2).bytes_per_s == 45e9 / 8
    assert HOPPER.over(card, "LL", 5).bytes_per_s == 35e9 / 8
    assert HOPPER.over(Path(2.7e-6, 10e9, Way(crossing=1.0)), "LL", 2).bytes_per_s == 5e9


def test_channels_limit_what_a_tree_can_send() -> None:
    path = Path(2.7e-6, 1e12, Way("tree", 1.0, 4.0))
    assert NcclTuning("ampere").over(path, "Simple", 3).bytes_per_s == 24 * 17.8e9 / 4


def test_the_switch_has_one_protocol() -> None:
    for protocol in PROTOCOLS:
        path = HOPPER.over(Path(0.6e-6, 370e9, Way("nvls")), protocol, 1)
        assert (path.latency_s, path.bytes_per_s) == (12.5e-6, pytest.approx(0.85 * 370e9))
    assert [HOPPER.offers("nvls", protocol) for protocol in PROTOCOLS] == [False, False, True]
    assert not any(NcclTuning("hopper").offers("nvls", protocol) for protocol in PROTOCOLS)


def test_there_is_no_ll128_without_nvlink() -> None:
    assert [NcclTuning("ampere", "pci").offers("ring", protocol) for protocol in PROTOCOLS] == [True, False, True]
    assert all(NcclTuning("ampere").offers("tree", protocol) for protocol in PROTOCOLS)


def test_only_generations_whose_switches_reduce_can_be_said_to() -> None:
    with pytest.raises(UsageError, match="switches reduce for hopper and blackwell GPUs, not for ampere"):
        NcclTuning("ampere", in_switch_reduction=True)


def test_the_tables_are_whole() -> None:
    for pattern in ("ring", "tree"):
        assert set(BASE_S[pattern]) == set(SHARE[pattern]) == set(PROTOCOLS)
        assert all(set(STEP_S[where][pattern]) == set(PROTOCOLS) for where in ("nvlink", "pci", "net"))
    assert all(sorted(table) == GENERATIONS for table in CHANNEL_LIMIT.values())


ways = st.builds(Way, st.sampled_from(["ring", "tree", "nvls"]), st.floats(0.0, 1.0), st.floats(1.0, 64.0))
idle_paths = st.builds(Path, st.floats(0.0, 1e-3), st.floats(1e6, 1e13), ways)


@given(idle_paths, st.sampled_from(PROTOCOLS), st.integers(1, 100))
def test_a_protocol_never_makes_a_path_faster(path: Path, protocol: str, nodes: int) -> None:
    over = HOPPER.over(path, protocol, nodes)
    assert over.latency_s >= path.latency_s
    assert 0.0 < over.bytes_per_s <= path.bytes_per_s


# --- on the shipped profiles ------------------------------------------------------------------------------------


def communicator(profile: str, nodes: int = 1, pattern: str = "auto", **network: Any) -> Communicator:
    hardware = HardwareConfig.model_validate({"profile": profile, "num_nodes": nodes})
    cluster = build_cluster(hardware, NetworkConfig.model_validate(network))
    platform = cluster.platform()
    group = Group(tuple(range(cluster.num_gpus)), "all")
    return Communicator(group, group.size, platform.network, named(pattern, cluster.tuning), platform.env)


@pytest.mark.parametrize(
    ("profile", "seconds"),
    [
        ("dgx-a100", 6.6e-6 + 14 * 0.6e-6),
        ("dgx-h100", 6.6e-6 + 14 * 0.6e-6),
        ("dgx-v100", 6.6e-6 + 14 * 0.6e-6),
        ("pcie-l40s-8", 6.6e-6 + 14 * 1.0e-6),
    ],
)
def test_tiny_messages_within_a_node_take_nccls_ring_with_ll(profile: str, seconds: float) -> None:
    """NCCL: base latency + 2(n-1) steps, and what a call takes besides; one byte adds next to nothing."""
    group = communicator(profile)
    assert group.seconds(ALL_REDUCE, 1e-9) == pytest.approx(CALL_S + seconds, rel=1e-6)
    assert (group.plan(ALL_REDUCE, 1.0).algorithm.label, group.plan(ALL_REDUCE, 1.0).protocol) == ("ring", "LL")


@pytest.mark.parametrize(
    ("profile", "nodes", "busbw"),
    [
        ("dgx-a100", 1, 240e9),
        ("dgx-h100", 1, 370.8e9 * 0.85 * 1.75 / 1.125),
        ("dgx-b200", 1, 721.8e9 * 0.74 * 1.75 / 1.125),
        ("dgx-a100", 4, 8 * 24e9),
        ("dgx-h100", 4, 8 * 48e9),
    ],
)
def test_huge_messages_reach_the_bus_bandwidth_of_the_wires(profile: str, nodes: int, busbw: float) -> None:
    group, nbytes = communicator(profile, nodes), 2.0**42
    found = busbw_bytes_per_s(ALL_REDUCE, group.group.size, nbytes, group.seconds(ALL_REDUCE, nbytes))
    assert found == pytest.approx(busbw, rel=0.02)


def test_without_tuning_collectives_take_what_the_links_say() -> None:
    group = communicator("dgx-a100", 1, "ring", tuning="none")
    assert group.seconds(ALL_REDUCE, 1e9) == pytest.approx(14 * (1e9 / 8 / 240e9 + 2 * 300e-9), rel=1e-12)
    assert group.plan(ALL_REDUCE, 1e9).protocol == ""


@pytest.mark.parametrize("profile", ["dgx-a100", "dgx-h100", "dgx-b200", "pcie-l4-8"])
@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_times_grow_with_size_and_bus_bandwidth_too(profile: str, nodes: int) -> None:
    group = communicator(profile, nodes)
    seconds = [group.seconds(ALL_REDUCE, 2.0**power) for power in range(36)]
    assert seconds == sorted(seconds)
    busbw = [busbw_bytes_per_s(ALL_REDUCE, 8 * nodes, 2.0**power, each) for power, each in enumerate(seconds)]
    assert busbw == sorted(busbw)


@pytest.mark.parametrize(
    ("profile", "nodes", "nbytes", "microseconds"),
    [
        # nccl-tests and torch on one and two nodes, large messages, where harnesses agree
        ("dgx-a100", 1, 2.0**30, 8203.9),  # stas00/ml-engineering, network/README.md
        ("dgx-h200", 1, 2.0**30, 4053.4),  # the same
        ("dgx-h200", 1, 2.0**33, 31484.6),
        ("dgx-b200", 1, 2.0**30, 2601.8),  # Vultr B200 cluster test summary
        ("mi300x-platform", 2, 2.0**30, 6412.6),  # rccl-tests
        ("dgx-h200", 4, 2.0**32, 22806.8),  # ml-engineering: AWS p5en
    ],
)
def test_large_all_reduces_take_what_others_measured(
    profile: str, nodes: int, nbytes: float, microseconds: float
) -> None:
    assert communicator(profile, nodes).seconds(ALL_REDUCE, nbytes) * 1e6 == pytest.approx(microseconds, rel=0.1)
