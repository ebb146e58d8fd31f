"""Selection of algorithm and protocol of a collective: named in the experiment, or the fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from simsys.collectives import ALGORITHMS, Algorithm, CollectiveKind, Path, get_algorithm
from simsys.collectives.base import Span
from simsys.collectives.collective_plan import CollectivePlan
from simsys.collectives.measured_costs import MeasuredCosts
from simsys.collectives.nccl import PROTOCOLS, RAMP, NcclTuning
from simsys.errors import UnknownNameError, UsageError

PathsOf = Callable[[Algorithm], Sequence[Path]]
"""The slowest path of each phase of an algorithm in the group at hand."""

Choose = Callable[[CollectiveKind, int, PathsOf, Span], Sequence[CollectivePlan]]
"""The plans to compare for (kind, group size, paths, place on the nodes), of which `best` selects the fastest."""

Names: TypeAlias = tuple[str, ...]

Tuning: TypeAlias = NcclTuning | MeasuredCosts
"""What collectives cost in addition to the links, or in place of them."""

ONE_NODE = Span()
"""A group inside one node."""

FLAT = ("ring", "tree")
"""Algorithms compared without a tuning model; on a tie, the first wins."""

SPANNING = ("hierarchical",)
"""Further algorithms for groups that fill several nodes."""

OWN = "own"
"""Name of the protocol of an engine's own kernels."""

OWN_KERNELS: Names = ("one_shot", "direct")
"""The algorithms of these kernels; engines call the second two-shot."""

NCCL_INSIDE: Names = ("ring", "nvls")
"""What NCCL compares within a node."""

NCCL_SPANNING: Names = ("ring/double_tree", "nvls_tree", "rail_ring", "collnet", "collnet_nvls")
"""And in groups that fill several nodes: a stand-in for its trees, its NVLS trees, its rings, and CollNet."""

NCCL_ELSE: Names = ("ring", "double_tree", "collnet")
"""And in groups that have one rank in each node, or are spread unevenly."""

NCCL_SCATTERING: Names = ("hierarchical", "rail_ring")
"""The algorithms for all-gather and reduce-scatter there; the first replaces PAT, which also has few steps."""

NCCL_ALWAYS: dict[CollectiveKind, Names] = {
    CollectiveKind.ALL_TO_ALL: ("direct",),
    CollectiveKind.SEND_RECV: ("ring",),
    CollectiveKind.BROADCAST: ("chain",),
    CollectiveKind.REDUCE: ("chain",),
}
"""Kinds for which NCCL has one algorithm."""


def best(plans: Sequence[CollectivePlan], nbytes: float) -> CollectivePlan:
    """The cheapest plan for a full buffer of `nbytes`; of equally cheap ones the first."""
    return plans[0] if len(plans) == 1 else min(plans, key=lambda plan: plan.seconds(nbytes))


def cheapest(kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE) -> list[CollectivePlan]:
    """Ring, tree and, for a group that fills several nodes, hierarchical, with the times of the links alone.

    The tree serves small messages in large groups, where latency dominates.

    Args:
        kind: Which collective.
        size: Ranks in the group.
        paths_of: Returns the paths of the phases of an algorithm.
        span: How the group lies on the nodes.

    Raises:
        UsageError: `size` is less than 1.
    """
    names = FLAT + SPANNING if span.nodes > 1 and span.per_node > 1 else FLAT
    return [CollectivePlan(algorithm, kind, size, paths_of(algorithm)) for algorithm in _able(names, kind, span)]


def as_nccl(
    tuning: NcclTuning, kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE
) -> list[CollectivePlan]:
    """The algorithms and protocols that NCCL compares; its tuning model also ranks them by time.

    Args:
        tuning: Costs of protocols on the cluster.
        kind: Which collective.
        size: Ranks in the group.
        paths_of: Returns the paths of the phases of an algorithm.
        span: How the group lies on the nodes.

    Raises:
        UsageError: `size` is less than 1.
    """
    if kind in NCCL_ALWAYS:
        names = NCCL_ALWAYS[kind]
    elif span.nodes == 1:
        names = NCCL_INSIDE
    elif span.per_node == 1:
        names = NCCL_ELSE
    elif kind in (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER):
        names = NCCL_SCATTERING
    else:
        names = NCCL_SPANNING
    if not tuning.in_switch_reduction:
        names = tuple(name for name in names if "nvls" not in name)
    if not tuning.in_network_reduction:
        names = tuple(name for name in names if "collnet" not in name)
    if tuning.inside == "pci":  # the cards' traffic goes over the same links as the GPUs'
        names = tuple(name for name in names if name != "rail_ring")
    able = _able(names, kind, span)
    return [plan for algorithm in able for plan in _tuned(tuning, algorithm, kind, size, paths_of, span)]


def as_measured(
    costs: MeasuredCosts, kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE
) -> list[CollectivePlan]:
    """The ring, or the only algorithm of a kind, with measured costs; between nodes, `cheapest`.

    Args:
        costs: Costs of the kinds within a node.
        kind: Which collective.
        size: Ranks in the group.
        paths_of: Returns the paths of the phases of an algorithm.
        span: How the group lies on the nodes.

    Raises:
        UsageError: `size` is less than 1.
    """
    if span.nodes > 1:
        return cheapest(kind, size, paths_of, span)
    algorithm = algorithm_of(kind)
    return [CollectivePlan(algorithm, kind, size, paths_of(algorithm), over=partial(costs.over, kind))]


def algorithm_of(kind: CollectiveKind) -> Algorithm:
    """The algorithm whose steps measured costs are those of."""
    return get_algorithm(NCCL_ALWAYS.get(kind, ("ring",))[0])


def with_own_all_reduce(choose: Choose, overhead_s: float, kernels: Sequence[str] = OWN_KERNELS) -> Choose:
    """A chooser that also compares an engine's own all-reduce kernels, in groups inside one node.

    Serving engines have such kernels for small messages. Every rank reads the buffers of other ranks over NVLink:
    whole buffers, or its block and then the sums of other blocks (vLLM, csrc/custom_all_reduce.cuh; TensorRT-LLM,
    customAllReduceKernels.cu). Nothing goes through buffers in chunks, so there is no ramp.

    Args:
        choose: The chooser for all other plans.
        overhead_s: Time of the barrier before each step, with the launch.
        kernels: Kernels of the engine, of `OWN_KERNELS`.
    """

    def compared(
        kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE
    ) -> Sequence[CollectivePlan]:
        plans = choose(kind, size, paths_of, span)
        if kind is not CollectiveKind.ALL_REDUCE or span.nodes > 1:
            return plans
        own = [get_algorithm(name).for_nodes(size) for name in kernels]
        steps = [sum(phase.repeat for phase in each.phases(kind, size)) for each in own]
        return [
            *plans,
            *(
                CollectivePlan(each, kind, size, paths_of(each), OWN, overhead_s=count * overhead_s)
                for each, count in zip(own, steps, strict=True)
            ),
        ]

    return compared


def named(name: str, tuning: Tuning | None = None) -> Choose:
    """A chooser that compares the variants of the algorithm `name` if it supports the kind, else all algorithms.

    Args:
        name: ``auto``, a name of an algorithm, or ``inside/across``.
        tuning: Costs of protocols, or measured costs; None for the times of links alone.

    Raises:
        UnknownNameError: If there is no such algorithm.
        UsageError: It reduces in the switch, and the cluster's switches cannot.
    """
    everything: Choose = cheapest
    if isinstance(tuning, MeasuredCosts):
        everything, tuning = partial(as_measured, tuning), None
    elif tuning is not None:
        everything = partial(as_nccl, tuning)
    if name == "auto":
        return everything
    if ":" not in name:
        for part in name.split("/"):
            if part not in ALGORITHMS:
                raise UnknownNameError("communication pattern", part, ["auto", *ALGORITHMS.names()])
    wanted = get_algorithm(name)
    in_switch = not {"nvls", "nvls_tree", "collnet_nvls"}.isdisjoint(name.split("/"))
    if tuning is not None and not tuning.in_switch_reduction and in_switch:
        raise UsageError("nvls needs switches that reduce, as nodes of Hopper and later have (in_switch_reduction)")
    if isinstance(tuning, NcclTuning) and not tuning.in_network_reduction and name.startswith("collnet"):
        raise UsageError("collnet needs a fabric whose switches reduce: {extends: …, in_network_reduction: true}")

    def choose(kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span = ONE_NODE) -> Sequence[CollectivePlan]:
        if kind not in wanted.kinds or not wanted.suits(span):
            return everything(kind, size, paths_of, span)
        fitting = wanted.for_nodes(span.per_node).variants()
        if tuning is None:
            return [CollectivePlan(algorithm, kind, size, paths_of(algorithm)) for algorithm in fitting]
        return [plan for each in fitting for plan in _tuned(tuning, each, kind, size, paths_of, span)]

    return choose


def _able(names: Sequence[str], kind: CollectiveKind, span: Span) -> list[Algorithm]:
    """The variants of algorithms that support the kind in a group of this size."""
    found = (get_algorithm(name).for_nodes(span.per_node) for name in names)
    return [
        variant
        for algorithm in found
        if kind in algorithm.kinds and algorithm.suits(span)
        for variant in algorithm.variants()
    ]


def _tuned(
    tuning: NcclTuning, algorithm: Algorithm, kind: CollectiveKind, size: int, paths_of: PathsOf, span: Span
) -> Iterator[CollectivePlan]:
    """An algorithm with each protocol."""
    for protocol in PROTOCOLS:
        if tuning.offers(algorithm.pattern, protocol, span.nodes):
            yield CollectivePlan(
                algorithm,
                kind,
                size,
                paths_of(algorithm),
                protocol,
                partial(_over, tuning, protocol, span.nodes),
                tuning.overhead_s(algorithm.pattern, protocol),
                RAMP,
            )


def _over(tuning: NcclTuning, protocol: str, nodes: int, path: Path) -> Path:
    return tuning.over(path, protocol, nodes)
