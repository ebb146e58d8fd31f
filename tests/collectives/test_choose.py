"""Which algorithm and protocol is taken for a message: by size, by place on the nodes, by what the hardware can do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.collectives import Algorithm, CollectiveKind, Path, Phase, get_algorithm
from simsys.collectives.base import Span, Way
from simsys.collectives.choose import PathsOf, as_nccl, best, cheapest, named
from simsys.collectives.nccl import NcclTuning
from simsys.errors import UnknownNameError, UsageError

ALL_REDUCE, ALL_GATHER = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
BROADCAST = CollectiveKind.BROADCAST
ORACLE = Path(latency_s=500e-9, bytes_per_s=50e9)
GIB = 2**30
HOPPER = NcclTuning("hopper", in_switch_reduction=True)
sizes_in_bytes = st.just(0.0) | st.floats(1.0, 1e12)
paths = st.builds(Path, st.floats(0.0, 1e-3, allow_subnormal=False), st.floats(1e6, 1e13))


def everywhere(path: Path) -> PathsOf:
    return lambda _: [path]


@given(st.sampled_from(list(CollectiveKind)), st.integers(1, 2000), sizes_in_bytes, paths, paths)
def test_the_best_is_the_cheaper_of_ring_and_tree_on_their_own_paths(
    kind: CollectiveKind, n: int, nbytes: float, ring_path: Path, tree_path: Path
) -> None:
    way = {"ring": [ring_path], "tree": [tree_path]}
    seconds = {
        name: get_algorithm(name).seconds(kind, n, nbytes, way[name])
        for name in way
        if kind in get_algorithm(name).kinds
    }
    chosen = best(cheapest(kind, n, lambda algorithm: way[algorithm.name]), nbytes)
    assert seconds[chosen.algorithm.name] == pytest.approx(min(seconds.values()), rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "n", "nbytes", "name"),
    [
        (ALL_REDUCE, 1024, 1024, "tree"),
        (ALL_REDUCE, 1024, GIB, "ring"),
        (ALL_REDUCE, 2, 1024, "ring"),  # the same number of steps, half the bytes
        (ALL_REDUCE, 2, 0, "ring"),  # equal, so the ring
        (ALL_GATHER, 1024, 1024, "ring"),
        (BROADCAST, 64, 1024, "tree"),
    ],
)
def test_the_best_in_known_cases(kind: CollectiveKind, n: int, nbytes: float, name: str) -> None:
    assert best(named("auto")(kind, n, everywhere(ORACLE), Span()), nbytes).algorithm.name == name


def test_groups_that_span_nodes_use_every_nic() -> None:
    def paths_of(algorithm: Algorithm) -> Sequence[Path]:
        slow = Path(5e-6, 25e9)
        return [Path(2e-6, 300e9), slow, Path(2e-6, 300e9)] if algorithm.name == "hierarchical" else [slow]

    assert best(cheapest(ALL_REDUCE, 16, paths_of, Span(2, 8)), 1e9).algorithm.name == "hierarchical"
    assert best(cheapest(ALL_REDUCE, 16, paths_of, Span(16, 1)), 1e9).algorithm.name == "ring"
    assert best(cheapest(ALL_REDUCE, 16, paths_of, Span(1, 16)), 1e9).algorithm.name == "ring"


def test_a_named_algorithm_is_taken_for_the_kinds_it_does() -> None:
    chooser = named("tree_allreduce")
    assert [plan.algorithm.name for plan in chooser(ALL_REDUCE, 1024, everywhere(ORACLE), Span())] == ["tree"]
    assert [plan.algorithm.name for plan in chooser(ALL_GATHER, 1024, everywhere(ORACLE), Span())] == ["ring"]


@pytest.mark.parametrize("name", ["rings", "ring/treee", "hierarchic/ring"])
def test_unknown_patterns_come_with_a_suggestion(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown communication pattern .* did you mean"):
        named(name)


def test_inside_and_across_are_named_with_a_slash() -> None:
    (plan,) = named("halving_doubling/ring")(ALL_REDUCE, 16, everywhere(ORACLE), Span(2, 8))
    assert (plan.algorithm.name, plan.algorithm.label) == ("hierarchical", "halving_doubling/ring")


def test_a_pipelined_algorithm_is_compared_with_more_and_fewer_chunks() -> None:
    plans = named("double_tree")(ALL_REDUCE, 64, everywhere(ORACLE), Span(64, 1))
    small, large = (best(plans, nbytes).algorithm.label for nbytes in (1e3, 1e9))
    assert (small, large) == ("double_tree*1", "double_tree*64")


# --- as NCCL chooses --------------------------------------------------------------------------------------------


def chosen(
    nbytes: float, span: Span, size: int, kind: CollectiveKind = ALL_REDUCE, tuning: NcclTuning = HOPPER
) -> str:
    def path_of(phase: Phase) -> Path:
        leaving = [pair for pair in phase.transfers if pair[0] // span.per_node != pair[1] // span.per_node]
        way = Way(phase.pattern, len(leaving) / len(phase.transfers))
        return Path(2.9e-6, 48e9, way) if leaving else Path(0.6e-6, 370e9, way)

    def paths_of(algorithm: Algorithm) -> Sequence[Path]:
        return [path_of(phase) for phase in algorithm.phases(kind, size)]

    plan = best(as_nccl(tuning, kind, size, paths_of, span), nbytes)
    return f"{plan.algorithm.label} {plan.protocol}"


def test_within_a_node_of_hopper_small_messages_go_around_with_ll_and_large_ones_through_the_switch() -> None:
    assert [chosen(nbytes, Span(1, 8), 8) for nbytes in (1024.0, GIB)] == ["ring LL", "nvls Simple"]


def test_without_reduction_in_the_switch_the_protocol_goes_from_ll_over_ll128_to_simple() -> None:
    ampere = NcclTuning("ampere")
    found = [chosen(float(2**power), Span(1, 8), 8, tuning=ampere) for power in range(10, 34)]
    assert list(dict.fromkeys(found)) == ["ring LL", "ring LL128", "ring Simple"]


def test_there_is_no_ll128_over_pcie() -> None:
    found = {chosen(2.0**power, Span(1, 8), 8, tuning=NcclTuning("ampere", "pci")) for power in range(10, 34)}
    assert found == {"ring LL", "ring Simple"}


def test_across_nodes_trees_serve_small_messages_and_rings_on_all_cards_large_ones() -> None:
    small, large = (chosen(nbytes, Span(4, 8), 32, tuning=NcclTuning("ampere")) for nbytes in (4096.0, 8.0 * GIB))
    assert small.startswith("ring/double_tree*1 ")
    assert large == "rail_ring Simple"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (CollectiveKind.ALL_TO_ALL, "direct"),
        (CollectiveKind.SEND_RECV, "ring"),
        (CollectiveKind.BROADCAST, "chain"),
        (CollectiveKind.REDUCE, "chain"),
    ],
)
@pytest.mark.parametrize(("span", "size"), [(Span(1, 8), 8), (Span(2, 8), 16), (Span(16, 1), 16)])
def test_other_kinds_have_one_algorithm(kind: CollectiveKind, name: str, span: Span, size: int) -> None:
    assert chosen(float(GIB), span, size, kind).split()[0] == name


@pytest.mark.parametrize("span", [Span(1, 8), Span(2, 4), Span(8, 1), Span(3, 1)])
@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_has_a_plan_for_every_group(kind: CollectiveKind, span: Span) -> None:
    plans = as_nccl(HOPPER, kind, 8, everywhere(ORACLE), span)
    assert all(0.0 < plan.seconds(1e6) < math.inf for plan in plans)
    assert len({(plan.algorithm.label, plan.protocol) for plan in plans}) == len(plans) > 0


@given(st.sampled_from(list(CollectiveKind)), sizes_in_bytes, sizes_in_bytes)
def test_more_bytes_never_take_less_time_whatever_is_chosen(kind: CollectiveKind, one: float, other: float) -> None:
    plans = as_nccl(HOPPER, kind, 16, everywhere(ORACLE), Span(2, 8))
    less, more = (best(plans, nbytes).seconds(nbytes) for nbytes in sorted((one, other)))
    assert less <= more * (1 + 1e-12)


def test_the_switch_is_used_only_where_it_reduces() -> None:
    with pytest.raises(UsageError, match="nvls needs switches that reduce"):
        named("nvls", NcclTuning("ampere"))
    with pytest.raises(UsageError, match="nvls needs switches that reduce"):
        named("nvls/ring", NcclTuning("hopper"))
    plans = named("nvls", HOPPER)(ALL_REDUCE, 8, everywhere(ORACLE), Span(1, 8))
    assert [(plan.algorithm.name, plan.protocol) for plan in plans] == [("nvls", "Simple")]
    across = named("nvls", HOPPER)(ALL_REDUCE, 8, everywhere(ORACLE), Span(8, 1))  # no switch joins these
    assert "nvls" not in {plan.algorithm.name for plan in across}
