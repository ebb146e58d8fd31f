"""Which links the collectives of a group use: transfers of each phase, their paths on idle links, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, Way
from simsys.collectives.collective_plan import CollectivePlan
from simsys.executors.mirrors import AnyNetwork, shifted
from simsys.parallel.layout import Group
from simsys.platform.network import LockStep, Pairs
from simsys.platform.routing import Way as LinkWay


class GroupLinks:
    """The links of a group's collectives.

    Args:
        group: The ranks, in the order of the algorithm.
        network: Carries the transfers.
        shifts: Distances (in ranks) to groups with equal simultaneous work, including the group itself (0).
    """

    def __init__(self, group: Group, network: AnyNetwork, shifts: Sequence[int]) -> None:
        self.group, self.shifts = group, shifts
        self._network = network
        self._phases: dict[tuple[str, CollectiveKind], tuple[Phase, ...]] = {}
        self._paths: dict[tuple[str, CollectiveKind], tuple[Path, ...]] = {}
        self._path_of: dict[tuple[tuple[int, int], ...], tuple[float, float]] = {}
        self._ways_of: dict[tuple[tuple[int, int], ...], set[tuple[float, float]]] = {}

    def phases(self, algorithm: Algorithm, kind: CollectiveKind) -> tuple[Phase, ...]:
        """The algorithm's steps for this group, in indexes within the group."""
        key = algorithm.label, kind
        if key not in self._phases:
            self._phases[key] = algorithm.phases(kind, self.group.size)
        return self._phases[key]

    def pairs(self, phase: Phase) -> list[tuple[int, int]]:
        """The transfers of a phase by their ranks."""
        ranks = self.group.ranks
        return [(ranks[src], ranks[dst]) for src, dst in phase.transfers]

    def transfers(self, algorithm: Algorithm, kind: CollectiveKind) -> list[tuple[Pairs, float]]:
        """Transfers that start together in a phase, and the share of the bytes that each sends in such phases."""
        sent: dict[tuple[tuple[int, int], ...], float] = {}
        for phase in self.phases(algorithm, kind):
            sent[phase.transfers] = sent.get(phase.transfers, 0.0) + phase.repeat * phase.fraction
        ranks = self.group.ranks
        return [([(ranks[src], ranks[dst]) for src, dst in transfers], share) for transfers, share in sent.items()]

    def all_pairs(self, algorithm: Algorithm, kind: CollectiveKind) -> Pairs:
        """Every transfer of any phase once."""
        return list(dict.fromkeys(pair for pairs, _ in self.transfers(algorithm, kind) for pair in pairs))

    def paths(self, algorithm: Algorithm, kind: CollectiveKind) -> tuple[Path, ...]:
        """For each phase, the slowest path on idle links."""
        key = algorithm.label, kind
        if key not in self._paths:
            self._paths[key] = tuple(self._path(phase) for phase in self.phases(algorithm, kind))
        return self._paths[key]

    def _path(self, phase: Phase) -> Path:
        pairs = self.pairs(phase)
        found = self._path_of.get(phase.transfers)
        if found is None:
            found = self._path_of[phase.transfers] = self._network.idle_path(pairs)
        nodes = [(self._network.node_of(src), self._network.node_of(dst)) for src, dst in pairs]
        return Path(*found, _way(phase.pattern, pairs, nodes))

    def shares(self, algorithm: Algorithm, kind: CollectiveKind) -> Iterator[tuple[int, int, float]]:
        """Source, destination and share of the bytes of every transfer, of the mirrors too."""
        for phase in self.phases(algorithm, kind):
            share = phase.repeat * phase.fraction
            for src, dst in shifted(self.pairs(phase), self.shifts):
                yield src, dst, share

    def steps(self, plan: CollectivePlan, nbytes: float) -> list[LockStep]:
        """The steps of a collective of the group itself.

        A protocol with half the bandwidth sends twice the bytes. Its additional latency, its launch, and the ramp of
        its chunks (`CollectivePlan`) are pauses.
        """
        phases = self.phases(plan.algorithm, plan.kind)
        pause_s = plan.idle_s(nbytes) / sum(phase.repeat for phase in phases)
        found: list[LockStep] = []
        for phase, idle, path in zip(phases, plan.paths, plan.effective, strict=True):
            each_bytes = phase.fraction * nbytes * (idle.bytes_per_s / path.bytes_per_s)
            wait_s = path.latency_s - idle.latency_s + pause_s
            if plan.algorithm.ways_differ:
                wait_s += self._early_s(phase, idle, each_bytes)
            found.append((self.pairs(phase), each_bytes, phase.repeat, wait_s))
        return found

    def _early_s(self, phase: Phase, idle: Path, nbytes: float) -> float:
        """Lead of a step's transfers over the sum of the longest latency and the time at the least bandwidth."""
        ways = self._ways_of.get(phase.transfers)
        if ways is None:
            ways = self._ways_of[phase.transfers] = self._network.idle_paths(self.pairs(phase))
        return idle.seconds(nbytes) - max(latency_s + nbytes / bytes_per_s for latency_s, bytes_per_s in ways)

    def loads(self, plan: CollectivePlan) -> Iterator[tuple[LinkWay, float]]:
        """Path of every transfer, including mirrors, and its share of the bytes with protocol overhead."""
        for phase, idle, path in zip(self.phases(plan.algorithm, plan.kind), plan.paths, plan.effective, strict=True):
            share = phase.repeat * phase.fraction * idle.bytes_per_s / path.bytes_per_s
            for src, dst in shifted(self.pairs(phase), self.shifts):
                yield self._network.way(src, dst), share


def _way(pattern: str, pairs: Sequence[tuple[int, int]], nodes: Sequence[tuple[int, int]]) -> Way:
    """Number of transfers that leave their nodes, and of concurrent ones per node."""
    leaving = [src for src, dst in nodes if src != dst]
    lanes = len(leaving) / len(set(leaving)) if leaving else len(pairs) / len({src for src, _ in pairs})
    return Way(pattern, len(leaving) / len(pairs), lanes)
