"""A group's collectives: who has joined, which algorithm runs, what it costs on idle links.

The collectives of one group run one after another, as on the communication stream that PyTorch gives each
process group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from simpy.events import Event

from simsys.collectives.base import Algorithm, CollectiveKind, Path, Phase, Span, Way
from simsys.collectives.choose import Choose, best
from simsys.collectives.plan import Plan
from simsys.errors import UsageError
from simsys.executors.deadlock import ranks_shown
from simsys.executors.images import Images
from simsys.ops import Collective
from simsys.parallel.layout import Group
from simsys.platform.environment import Callback, Environment
from simsys.platform.network import LockStep, Network
from simsys.platform.occupancy import Footprint
from simsys.platform.part import NetworkPart
from simsys.platform.schedule import Schedule
from simsys.platform.traffic import Account


class Meeting:
    """One collective of a group, from the first member that joins to its end."""

    __slots__ = ("event", "missing", "op", "ready_s")

    def __init__(self, op: Collective, members: int, env: Environment) -> None:
        self.op = op
        self.event = Event(env)
        self.missing = members
        self.ready_s = 0.0


class Recurring:
    """A collective of one kind and size that a group carries out again and again.

    Args:
        account: Counts what it sends.
        nbytes: Its size.
        schedule: Its steps on the links.
        seconds: How long it takes on idle links, by when it begins.
    """

    __slots__ = ("_account", "_nbytes", "idle_s", "schedule", "seconds")

    def __init__(
        self, account: Account, nbytes: float, schedule: Schedule[Any], seconds: Callable[[float], float]
    ) -> None:
        self._account, self._nbytes = account, nbytes
        self.schedule, self.seconds = schedule, seconds
        self.idle_s = seconds(0.0)
        """How long it takes on idle links as they are at the beginning."""

    def start(self, done: Callback) -> None:
        """Carry it out on the links, from now on, and then call `done`."""
        self._account.nbytes += self._nbytes
        self.schedule.start(done)


class Communicator:
    """What the members of a group share.

    Args:
        group: The ranks, in the order of the algorithm.
        members: How many of them run a process (all, or one per role).
        network: Carries the transfers.
        choose: Says which algorithms and protocols are worth comparing.
        env: The environment.
        images: Finds groups that do the same, whose bytes are counted with those of this one.
    """

    def __init__(
        self,
        group: Group,
        members: int,
        network: Network[Any] | NetworkPart,
        choose: Choose,
        env: Environment,
        images: Images | None = None,
    ) -> None:
        self.group = group
        self.members = members
        """How many of the ranks run a process."""
        self.queue: deque[Meeting] = deque()
        """Complete meetings that wait for the running one (used by executors that simulate the steps)."""
        self.free_at_s = 0.0
        self.busy = False
        self._span = _span([network.node_of(rank) for rank in group.ranks])
        self._network, self._choose, self._env = network, choose, env
        self._images = images or Images({rank: rank for rank in group.ranks})
        self._calls: dict[int, int] = {}
        self._open: dict[int, Meeting] = {}
        self._paths: dict[tuple[str, CollectiveKind], tuple[Path, ...]] = {}
        self._phases: dict[tuple[str, CollectiveKind], tuple[Phase, ...]] = {}
        self._path_of: dict[tuple[tuple[int, int], ...], tuple[float, float]] = {}
        self._ways_of: dict[tuple[tuple[int, int], ...], set[tuple[float, float]]] = {}
        self._plans: dict[CollectiveKind, Sequence[Plan]] = {}
        self._chosen: dict[tuple[CollectiveKind, float], Plan] = {}
        self._seconds: dict[tuple[CollectiveKind, float, int], float] = {}
        self._footprints: dict[tuple[Plan, int], Footprint] = {}
        self._recurring: dict[tuple[CollectiveKind, float], Recurring] = {}
        self._accounts: dict[tuple[CollectiveKind, float], Account] = {}
        self._account_of: dict[tuple[str, CollectiveKind], Account] = {}

    def trivial(self, nbytes: float) -> bool:
        """True if there is nothing to communicate."""
        return self.group.size == 1 or nbytes == 0.0

    def join(self, op: Collective, ready_s: float) -> Meeting:
        """A member joins its next collective with its part ready at `ready_s`.

        Raises:
            UsageError: If another member has called a different collective at this point.
        """
        call = self._calls.get(op.rank, 0)
        if not call and op.rank not in self.group.ranks:
            message = f"rank {op.rank} calls {op.kind} {op.name!r} of a group that it is not in"
            raise UsageError(f"{message}: {ranks_shown(self.group.ranks)}")
        self._calls[op.rank] = call + 1
        meeting = self._open.get(call)
        if meeting is None:
            meeting = self._open[call] = Meeting(op, self.members, self._env)
        first = meeting.op
        if first.kind is not op.kind or first.nbytes != op.nbytes:
            raise UsageError(
                f"mismatched collectives: rank {op.rank} calls {op.kind} {op.name!r} of {op.nbytes:.0f} bytes where "
                f"rank {first.rank} called {first.kind} {first.name!r} of {first.nbytes:.0f} bytes"
            )
        meeting.missing -= 1
        if ready_s > meeting.ready_s:
            meeting.ready_s = ready_s
        if not meeting.missing:
            del self._open[call]
        return meeting

    def waiting(self, members: Iterable[int]) -> list[tuple[Meeting, list[int]]]:
        """Collectives that some of the members have not joined, and who these are."""
        return [
            (meeting, [rank for rank in members if self._calls.get(rank, 0) <= call])
            for call, meeting in self._open.items()
        ]

    def plan(self, kind: CollectiveKind, nbytes: float) -> Plan:
        """How this collective is carried out."""
        key = kind, nbytes
        found = self._chosen.get(key)
        if found is None:
            plans = self._plans.get(kind)
            if plans is None:
                plans = self._plans[kind] = self._choose(
                    kind, self.group.size, lambda algorithm: self.paths(algorithm, kind), self._span
                )
            found = self._chosen[key] = best(plans, nbytes)
        return found

    def algorithm(self, kind: CollectiveKind, nbytes: float) -> Algorithm:
        """The algorithm that carries out this collective."""
        return self.plan(kind, nbytes).algorithm

    def phases(self, algorithm: Algorithm, kind: CollectiveKind) -> tuple[Phase, ...]:
        """The algorithm's steps for this group, in indexes within the group."""
        key = algorithm.label, kind
        if key not in self._phases:
            self._phases[key] = algorithm.phases(kind, self.group.size)
        return self._phases[key]

    def start(self, kind: CollectiveKind, nbytes: float, done: Callback) -> None:
        """Carry out a collective on the links, from now on, and then call `done`."""
        self.recurring(kind, nbytes).start(done)

    def occupy(self, kind: CollectiveKind, nbytes: float, done: Callback) -> None:
        """Occupy the links for as long as a collective takes, from now on, and then call `done`."""
        self.count(kind, nbytes)
        steps, sent_bytes = self.steps(kind, nbytes)
        parts, seconds = [(self.footprint(kind, nbytes), nbytes)], self.seconds(kind, nbytes, self._env._now)
        self._network.occupancy.start(parts, seconds, done, steps=steps, nbytes=sent_bytes)

    def steps(self, kind: CollectiveKind, nbytes: float) -> tuple[int, float]:
        """How many steps such a collective has, and the bytes of one transfer in each, added up."""
        phases = self.phases(self.algorithm(kind, nbytes), kind)
        return sum(phase.repeat for phase in phases), nbytes * sum(phase.repeat * phase.fraction for phase in phases)

    def footprint(self, kind: CollectiveKind, nbytes: float) -> Footprint:
        """The links that such a collective occupies that begins now, for this group and those that do the same."""
        plan = self.plan(kind, nbytes)
        key = plan, self._network.epoch(self._env._now)
        found = self._footprints.get(key)
        if found is None:
            found = self._footprints[key] = self._network.occupancy.footprint(self._wires(plan), self._network.traffic)
        return found

    def loads(
        self, collectives: Iterable[tuple[CollectiveKind, float, int]]
    ) -> tuple[list[tuple[Footprint, float]], int, float]:
        """What collectives do to links that follow one another, each so many times.

        Returns:
            Footprints with their bytes, the number of steps, and the bytes of one transfer in each step, added up.
        """
        loads, steps, sent_bytes = dict[Footprint, float](), 0, 0.0
        for kind, nbytes, repeat in collectives:
            footprint = self.footprint(kind, nbytes)
            loads[footprint] = loads.get(footprint, 0.0) + nbytes * repeat
            each, each_bytes = self.steps(kind, nbytes)
            steps, sent_bytes = steps + repeat * each, sent_bytes + repeat * each_bytes
        return list(loads.items()), steps, sent_bytes

    def _wires(self, plan: Plan) -> Iterator[tuple[Sequence[int], float]]:
        """The links of every transfer and its share of the bytes, with what the protocol adds."""
        shifts, network = self._images.shifts(self.group.ranks), self._network
        for phase, idle, path in zip(self.phases(plan.algorithm, plan.kind), plan.paths, plan.effective, strict=True):
            share = phase.repeat * phase.fraction * idle.bytes_per_s / path.bytes_per_s
            for src, dst in self._pairs(phase):
                for shift in shifts:
                    yield network.path(src + shift, dst + shift), share

    def recurring(self, kind: CollectiveKind, nbytes: float) -> Recurring:
        """A collective that is made ready once and carried out as often as needed."""
        key = kind, nbytes
        found = self._recurring.get(key)
        if found is None:
            schedule = self._network.schedule(self._steps(kind, nbytes))
            seconds = partial(self.seconds, kind, nbytes)
            found = self._recurring[key] = Recurring(self.account(kind, nbytes), nbytes, schedule, seconds)
        return found

    def _steps(self, kind: CollectiveKind, nbytes: float) -> list[LockStep]:
        plan = self.plan(kind, nbytes)
        phases = self.phases(plan.algorithm, kind)
        pause_s = plan.idle_s(nbytes) / sum(phase.repeat for phase in phases)
        found: list[LockStep] = []
        for phase, idle, path in zip(phases, plan.paths, plan.effective, strict=True):
            each_bytes = phase.fraction * nbytes * (idle.bytes_per_s / path.bytes_per_s)
            wait_s = path.latency_s - idle.latency_s + pause_s
            if plan.algorithm.ways_differ:
                wait_s += self._early_s(phase, idle, each_bytes)
            found.append((self._pairs(phase), each_bytes, phase.repeat, wait_s))
        return found

    def _early_s(self, phase: Phase, idle: Path, nbytes: float) -> float:
        """How much earlier than by the longest latency and the least bandwidth a step's transfers arrive."""
        ways = self._ways_of.get(phase.transfers)
        if ways is None:
            ways = self._ways_of[phase.transfers] = self._network.idle_paths(self._pairs(phase))
        return idle.seconds(nbytes) - max(latency_s + nbytes / bytes_per_s for latency_s, bytes_per_s in ways)

    def count(self, kind: CollectiveKind, nbytes: float, times: float = 1) -> None:
        """Count such collectives in the communication graph."""
        self.account(kind, nbytes).nbytes += times * nbytes

    def account(self, kind: CollectiveKind, nbytes: float) -> Account:
        """Where such collectives are counted."""
        key = kind, nbytes
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = self._account(self.algorithm(kind, nbytes), kind)
        return found

    def _account(self, algorithm: Algorithm, kind: CollectiveKind) -> Account:
        """One account of all sizes: they differ by a factor."""
        key = algorithm.label, kind
        found = self._account_of.get(key)
        if found is None:
            found = self._network.traffic.account(lambda: self._shares(algorithm, kind))
            self._account_of[key] = found
        return found

    def shares(self, kind: CollectiveKind, nbytes: float) -> Iterator[tuple[int, int, float]]:
        """What a collective of this size sends from where to where, as shares of its bytes."""
        return self._shares(self.algorithm(kind, nbytes), kind)

    def _shares(self, algorithm: Algorithm, kind: CollectiveKind) -> Iterator[tuple[int, int, float]]:
        shifts = self._images.shifts(self.group.ranks)
        for phase in self.phases(algorithm, kind):
            share = phase.repeat * phase.fraction
            for src, dst in self._pairs(phase):
                for shift in shifts:
                    yield src + shift, dst + shift, share

    def _pairs(self, phase: Phase) -> list[tuple[int, int]]:
        ranks = self.group.ranks
        return [(ranks[src], ranks[dst]) for src, dst in phase.transfers]

    def paths(self, algorithm: Algorithm, kind: CollectiveKind) -> tuple[Path, ...]:
        """For each phase, the slowest path on idle links."""
        key = algorithm.label, kind
        if key not in self._paths:
            self._paths[key] = tuple(self._path(phase) for phase in self.phases(algorithm, kind))
        return self._paths[key]

    def _path(self, phase: Phase) -> Path:
        pairs = self._pairs(phase)
        found = self._path_of.get(phase.transfers)
        if found is None:
            found = self._path_of[phase.transfers] = self._network.idle_path(pairs)
        nodes = [(self._network.node_of(src), self._network.node_of(dst)) for src, dst in pairs]
        return Path(*found, _way(phase.pattern, pairs, nodes))

    def seconds(self, kind: CollectiveKind, nbytes: float, start_s: float = 0.0) -> float:
        """The closed form of a collective on idle links that begins at `start_s`, in seconds.

        Which algorithm it is, is decided with the links as they are at the beginning, as NCCL does when it makes a
        communicator. If they change while it goes on, this does not count.
        """
        if self.trivial(nbytes):
            return 0.0
        key = kind, nbytes, self._network.epoch(start_s) if self._network.changes_s else 0
        found = self._seconds.get(key)
        if found is None:
            found = self._seconds[key] = self._closed_form(kind, nbytes, self._network.steady(start_s))
        return found

    def seconds_from(self, start_s: float) -> Callable[[CollectiveKind, float], float]:
        """`seconds` of collectives that begin while the links are as they are at `start_s`."""
        return partial(self.seconds, start_s=start_s) if self._network.changes_s else self.seconds

    def _closed_form(self, kind: CollectiveKind, nbytes: float, network: Network[Any] | NetworkPart) -> float:
        if network is self._network:
            return self.plan(kind, nbytes).seconds(nbytes)
        total_s = 0.0
        for pairs, each_bytes, repeat, pause_s in self._steps(kind, nbytes):
            latency_s, bytes_per_s = network.idle_path(pairs)
            total_s += repeat * (latency_s + each_bytes / bytes_per_s + pause_s)
        return total_s


def check_group(group: Group, world_size: int) -> None:
    """Whether ranks can communicate as a group.

    Raises:
        UsageError: If there is none, one of them twice, or one that is not among the ranks of the job.
    """
    if not group.ranks:
        raise UsageError("a group of no ranks; name at least one")
    if len(set(group.ranks)) < group.size:
        twice = max(group.ranks, key=group.ranks.count)
        raise UsageError(f"rank {twice} is more than once in a group: {ranks_shown(group.ranks)}")
    outside = next((rank for rank in group.ranks if not 0 <= rank < world_size), None)
    if outside is not None:
        raise UsageError(f"rank {outside} of a group is outside the job, whose ranks are 0 to {world_size - 1}")


def _span(nodes: Sequence[int]) -> Span:
    """How a group lies on nodes whose numbers, rank by rank, are these."""
    each = nodes.count(nodes[0])
    count = len(set(nodes))
    even = all(len(set(nodes[i : i + each])) == 1 for i in range(0, len(nodes), each))
    return Span(count, each if even and count * each == len(nodes) else 1)


def _way(pattern: str, pairs: Sequence[tuple[int, int]], nodes: Sequence[tuple[int, int]]) -> Way:
    """How many transfers leave their nodes, and how many of those go out of each at once."""
    leaving = [src for src, dst in nodes if src != dst]
    lanes = len(leaving) / len(set(leaving)) if leaving else len(pairs) / len({src for src, _ in pairs})
    return Way(pattern, len(leaving) / len(pairs), lanes)
