"""Services for all parts of an executor: the hardware, the ranks, their groups, and the costs of their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from simpy.events import Event

from simsys.costs.compute_speed import ComputeSpeed
from simsys.costs.measured_passes import MeasuredPassCost
from simsys.costs.pass_cost import PassCost
from simsys.executors.clocks import Clocks
from simsys.executors.communicator import Communicator
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.idle_links import IdleLinks
from simsys.executors.images import Images
from simsys.executors.mail import Mail
from simsys.executors.meeting import check_group
from simsys.executors.streams import Stream
from simsys.executors.tally import Tally
from simsys.model.batch import Batch
from simsys.ops import Forward, Operation
from simsys.parallel.cycle import Step
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.partition import Hardware
from simsys.probes import Probes


class Core(Clocks):
    """The services of an executor that do not depend on the level of detail.

    Args:
        platform: The hardware.
        model: Overheads and algorithms of the software stack.
        roles: Sets of ranks that do the same work at the same time.
        probes: Observers.
        one_per_role: Whether the first rank of a role runs a process for all of it, instead of each rank for itself.
        queues: Whether all computations and transfers queue for GPUs and links, so that processes may request these.
        joins_steps: Whether equal steps of a collective that follow one another are carried out as one; never beside
            processes of the user, where each level of detail carries out the same transfers.
    """

    def __init__(
        self,
        platform: Hardware,
        model: ExecutionModel,
        roles: Sequence[Sequence[int]],
        probes: Probes,
        *,
        one_per_role: bool,
        queues: bool,
        joins_steps: bool,
    ) -> None:
        super().__init__(platform, probes, queues=queues)
        self.model = model
        # Processes of the user's own may request the GPU of any rank.
        folded = one_per_role and self.own is None
        self._representative = {rank: role[0] if folded else rank for role in roles for rank in role}
        self.images = Images(self._representative)
        """The groups represented by the simulated ones."""
        self.stands_for = stands_for = dict[int, list[int]]()
        """By representative rank, the ranks that it represents, including itself."""
        for rank, representative in self._representative.items():
            stands_for.setdefault(representative, []).append(rank)
        self.compute_speed = ComputeSpeed(
            platform.devices, model.per_layer_s, model.launches.per_layer_s, model.jitter, stands_for
        )
        self.mail = Mail(self.env, self._representative)
        self.streams: dict[tuple[int, Group], Stream] = {}
        """Collectives that a rank has issued and that wait for events, by rank and group."""
        self.each_pass = False
        """Whether passes of training are carried out one by one, since an observer wants to hear of each."""
        self._joins_steps = joins_steps and self.own is None
        self._communicators: dict[Group, Communicator] = {}
        self._pass_costs: dict[tuple[ForwardPass, int, int, int], PassCost] = {}
        self._costs_of_teams: dict[tuple[Group, ForwardPass, int], PassCost] = {}
        self._surroundings: dict[Group, int] = {}
        self._signatures: dict[tuple[object, ...], int] = {}
        self._checks: list[Callable[[], None]] = []
        self._tells: list[Callable[[], None]] = []
        self._handlers: dict[type, Callable[[Any], Event]] = {}
        tally = Tally(platform.network.traffic, self.images, self.communicator, self.pass_cost)
        self.idle = IdleLinks(platform.network, self.images, tally, lambda: self.env._now, model.precision)
        """Closed forms of transfers on idle links."""
        self.steps_of: Callable[[int, Sequence[Step]], Iterator[tuple[int, int]]] = _every_step
        """The places of the steps of a rank that are simulated; see `Rank.steps_of`."""

    def start(self, op: Operation) -> Event:
        """Start any operation: the single entry of all verbs."""
        return self._handlers[op.__class__](op)

    def ranks(self) -> list[int]:
        """The ranks that run a process of their own."""
        return sorted(set(self._representative.values()))

    def members(self, group: Group) -> int:
        """Number of simulated ranks of a group."""
        return len({self._representative[rank] for rank in group.ranks})

    def communicator(self, group: Group) -> Communicator:
        """The communicator of a group, made on first use."""
        found = self._communicators.get(group)
        if found is None:
            check_group(group, self._representative)
            found = self._communicators[group] = Communicator(
                group,
                self.members(group),
                self.platform.network,
                self.model.own_algorithms.get(group.ranks, self.model.algorithm),
                self.env,
                self.images,
                joined=self._joins_steps,
            )
        return found

    def communicators(self) -> Sequence[Communicator]:
        """Communicators of all groups used so far."""
        return list(self._communicators.values())

    def pass_cost(self, op: Forward, start_s: float | None = None) -> PassCost:
        """The cost model of a forward pass, made on first use; on equal links teams share it.

        Args:
            op: The pass.
            start_s: When it begins; by default, when its first rank is ready.
        """
        if start_s is None:
            start_s = self.now(op.rank)
        key = op.team, op.plan, self.platform.epoch(start_s)
        found = self._costs_of_teams.get(key)
        if found is None:
            found = self._costs_of_teams[key] = self._shared_cost(op, start_s)
        return found

    def _shared_cost(self, op: Forward, start_s: float) -> PassCost:
        """The cost model of a pass that begins at a time, the same for all teams with equal devices and links."""
        spec = self.compute_speed.team_spec(op.team, start_s)
        key = op.plan, id(spec), self._links_of(op.team), self.platform.network.epoch(start_s)
        found = self._pass_costs.get(key)
        if found is None:
            found = self._pass_costs[key] = self._cost_of(op, spec, start_s)
        return found

    def pass_s(self, team: Group, plan: ForwardPass, batch: Batch) -> float:
        """Time of a pass on idle links, without host work, if it began now (s)."""
        compute_s, exchange_s = self.pass_cost(Forward(team, plan, batch, 0.0, "pass")).seconds(batch)
        return compute_s + exchange_s

    def _cost_of(self, op: Forward, spec: DeviceSpec, start_s: float) -> PassCost:
        model = self.model
        if model.passes is not None:
            return MeasuredPassCost(model.passes, op.plan, spec, model.precision)
        collective_s = self.communicator(op.team).seconds_from(start_s)
        return PassCost(op.plan, spec, model.precision, model.per_layer_s, collective_s, model.launches)

    def _links_of(self, team: Group) -> int:
        """A number that is equal for teams with equal times of collectives on idle links."""
        found = self._surroundings.get(team)
        if found is None:
            signature = self.platform.network.signature(team.ranks)
            found = self._surroundings[team] = self._signatures.setdefault(signature, len(self._signatures))
        return found

    def varies(self) -> bool:
        """True if equal work may have different times: random computation times, or changing hardware."""
        return self.compute_speed.iterations_vary or self.platform.next_change_s(0.0) < float("inf")

    def tell_memory(self, rank: int, now_s: float) -> None:
        """Report the memory of a rank to the probes."""
        for hook in self.probes.memory:
            hook(rank, self.platform.devices[rank].memory.in_use_bytes, now_s)
        for detailed in self.probes.memory_by_name:
            detailed(rank, self.platform.devices[rank].memory.held, now_s)

    def at_end(self, check: Callable[[], None]) -> None:
        """Let `check` be called when nothing can happen any more; it raises if something is amiss."""
        self._checks.append(check)

    def at_result(self, tell: Callable[[], None]) -> None:
        """Register `tell`, which is called before the results of probes are read."""
        self._tells.append(tell)

    def tell_all(self) -> None:
        """Send unreported records to the probes."""
        for tell in self._tells:
            tell()


def _every_step(_: int, steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    return ((place, 0) for place in range(len(steps)))
