"""Medium detail: one stand-in per role, macro operations, closed-form collectives, jumps over what repeats."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.ahead import ComputeAhead
from simsys.executors.closed_forms import ClosedForms
from simsys.executors.iterations.memory_use import MemoryUse, memory_use
from simsys.executors.iterations.pass_times import PassTimes
from simsys.executors.iterations.programs import Course, Messages, Outcome, ProgramMeeting, StuckError, longest_paths
from simsys.executors.own_work import SERVING_AHEAD
from simsys.executors.steps.channels import Channels
from simsys.executors.steps.closed_form import ClosedFormRuns
from simsys.executors.steps.drafting import DraftingRuns
from simsys.executors.steps.passes import NAME as STEP
from simsys.executors.steps.passes import PassOn
from simsys.executors.steps.pipeline import Pipeline
from simsys.executors.steps.pipeline_runs import PipelineRuns
from simsys.executors.steps.stages import Hops, Stages
from simsys.executors.steps.step_log import StepLog
from simsys.executors.uses import Use
from simsys.model.batch import Batch
from simsys.model.work import Work
from simsys.ops import Collective, Compute, Forward, HostWork, Operation, Pass, PassOperation, Pipelined, Program, Send
from simsys.parallel.layout import Group
from simsys.parallel.passes import ForwardPass
from simsys.platform.device import Device
from simsys.platform.events import At
from simsys.platform.turns import TurnServer
from simsys.starter import Drafting, Stepper

MOST_UNDER_WAY = 1 << 16
"""Of serving passes, far more than all replicas have under way at a time."""


class MediumDetail(ComputeAhead, ClosedForms):
    """Phases instead of layers, roles instead of ranks; takes the arguments of `Executor`."""

    may_repeat = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._programs: dict[Group, ProgramMeeting] = {}
        self._times_of: dict[Pass, PassTimes] = {}
        self._told: dict[tuple[int, str], Compute] = {}
        self._uses: dict[int, tuple[object, MemoryUse]] = {}  # by identity of the passes, which it holds
        self._meets: dict[int, tuple[object, bool]] = {}  # likewise
        self._pipelines: dict[int, Pipeline] = {}  # by rank
        self.channels = Channels()
        self._hops_s: dict[tuple[int, int, float], float] = {}
        self._latest: deque[tuple[Device, float, float]] = deque(maxlen=MOST_UNDER_WAY)  # passes: when they end, work
        self._as_of_s, self._epoch = 0.0, 0  # when the programs began whose passes are being timed

    @staticmethod
    def stand_in(role: Sequence[int], rank: int) -> int:
        """The first rank of a role stands for all of it."""
        return role[0]

    def forward(self, op: Forward) -> Event:
        """The whole pass as one event."""
        device = self.platform.devices[op.rank]
        if op.team.size > 1:
            self.tally.passed(op, op.batch)
        start_s = max(self.env._now, device.free_at_s)
        collective_s = self.communicator(op.team).seconds_from(start_s)
        compute_s, exchange_s = self.pass_cost(op).seconds(op.batch, collective_s)
        compute_s *= self.conditions.begin_step(op.team)
        device.free_at_s = end_s = start_s + (op.host_s + compute_s + exchange_s)
        device.busy_s += compute_s
        self._latest.append((device, end_s, compute_s))
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return At(self.env, end_s)

    def stop(self) -> None:
        """A pass is counted at its beginning."""
        now_s = self.env._now
        for device, end_s, compute_s in self._latest:
            if end_s > now_s:
                device.busy_s -= compute_s
                device.free_at_s = min(device.free_at_s, now_s)

    def pipelined(self, op: Pipelined) -> Event:
        """All stages as one event: a stage serves batches in the order in which they were issued, as each does."""
        end_s = self.env._now + op.passes[0].host_s
        for stage, each in enumerate(op.passes):
            end_s = self._pass_after(each, end_s)
            if stage + 1 < len(op.passes):
                channel = self.channels.between(each.team, op.passes[stage + 1].team)
                end_s = channel.arrival_s(end_s, self._hand_on(op, stage, end_s))
        return At(self.env, end_s)

    def _pass_after(self, op: Forward, ready_s: float) -> float:
        """When a stage has finished with a batch that reaches it at `ready_s`."""
        device = self.platform.devices[op.rank]
        if op.team.size > 1:
            self.tally.passed(op, op.batch)
        start_s = max(ready_s, device.free_at_s)
        collective_s = self.communicator(op.team).seconds_from(start_s)
        compute_s, exchange_s = self.pass_cost(op).seconds(op.batch, collective_s)
        compute_s *= self.conditions.begin_step(op.team)
        device.free_at_s = end_s = start_s + (compute_s + exchange_s)
        device.busy_s += compute_s
        self._latest.append((device, end_s, compute_s))
        for hook in self.probes.operation:
            hook(op, start_s, end_s)
        return end_s

    def serves(self) -> None:
        """A serving team begins: GPUs and links cannot be requested, since its steps are carried out ahead."""
        if self.own is not None:
            self.own.refuse(TurnServer, SERVING_AHEAD)

    def stepper(self, team: Group, plan: ForwardPass, done: Callable[[int], None]) -> Stepper:
        """Runs of steps in closed form, if the hardware stays as it is."""
        self.serves()
        if self.conditions.iterations_vary or self.platform.next_change_s(0.0) < math.inf:
            return super().stepper(team, plan, done)
        return self._jump(team)(self, team, plan, done, self.tally, 1 if self.model.stepping else sys.maxsize)

    def _jump(self, team: Group) -> type[ClosedFormRuns]:
        """What carries out a team's runs of steps."""
        return ClosedFormRuns

    def drafting(self, team: Group, drafting: Drafting, forward: PassOn, done: Callable[[int], None]) -> Stepper:
        """A run of steps as one event, if the hardware stays as it is."""
        self.serves()
        if self.conditions.iterations_vary or self.platform.next_change_s(0.0) < math.inf:
            return super().drafting(team, drafting, forward, done)
        return DraftingRuns(self, team, drafting, done, self.tally, 1 if self.model.stepping else sys.maxsize)

    def pipeline(
        self,
        stages: Sequence[tuple[Group, ForwardPass]],
        parts: int,
        rank: int,
        forward: PassOn,
        done: Callable[[int], None],
    ) -> Stepper:
        """Runs of steps in closed form, if the hardware stays as it is."""
        self.serves()
        if self.conditions.iterations_vary or self.platform.next_change_s(0.0) < math.inf:
            return super().pipeline(stages, parts, rank, forward, done)
        pipeline = self._pipelines.get(stages[0][0].ranks[0])
        if pipeline is None:
            pipeline = Pipeline(self.env, self.probes, self._stages(stages, parts))
            self._pipelines |= {each: pipeline for group, _ in stages for each in group.ranks}
        log = StepLog(self, rank) if self.probes.steps else None
        return PipelineRuns(pipeline, done, 1 if self.model.stepping else sys.maxsize, log)

    def _stages(self, stages: Sequence[tuple[Group, ForwardPass]], parts: int) -> Stages:
        """What serves the steps of a pipeline, and what they cost."""
        passes = [Forward(group, plan, Batch(), 0.0, STEP) for group, plan in stages]
        devices = [self.platform.devices[op.rank] for op in passes]
        costs = [(self.pass_cost(op), self.communicator(op.team).seconds) for op in passes]
        return Stages(passes, parts, devices, self.channels, costs, self._hops, self.tally)

    def _hops(self, op: Pipelined) -> Hops:
        """What the stages hand on of a batch."""
        stages = range(len(op.passes) - 1)
        sends = [send for stage in stages if (send := self.handed_on(op, stage)) is not None]
        return Hops([self.hand_on_seconds(op, stage) for stage in stages], sends)

    def host_work(self, op: HostWork, after: Event | None = None) -> Event:
        """It comes after the passes that have been issued, also where these are foreseen."""
        pipeline = self._pipelines.get(op.rank)
        if pipeline is not None:
            pipeline.catch_up()
        return super().host_work(op, after)

    def program(self, op: Program) -> Event:
        """All programs of a group at once, as a recurrence over the ends of passes: no event for any pass."""
        meeting = self._programs.setdefault(op.group, ProgramMeeting(self.env, self._members(op.group)))
        event = meeting.join(op, self.now(op.rank))
        if meeting.complete:
            del self._programs[op.group]
            self._run_programs(meeting)
        return event

    def _members(self, group: Group) -> int:
        return len({self._stand_in[rank] for rank in group.ranks})

    def _run_programs(self, meeting: ProgramMeeting) -> None:
        """Evaluate, advance every member's GPU, and deliver the messages that are for what comes after."""
        try:
            if any(self._meets_others(op) for op in meeting.programs):
                raise StuckError
            outcome = self._undisturbed(meeting)
        except StuckError:  # a message may come from what follows another rank's program: play them, event by event
            for op in meeting.programs:
                self.env.process(self._play_and_tell(op, meeting.events[op.rank]))
            return
        for op in meeting.programs:
            device, course = self.platform.devices[op.rank], outcome.courses[op.rank]
            device.free_at_s = course.end_s
            device.busy_s += course.times.compute_s
            self._tell(op, meeting.ready_s[op.rank], course)
            self.tally.ran(course.passes)
            self._hold(op, meeting.ready_s[op.rank], course.end_s)
        self._note_uses(meeting, outcome)
        for (src, dst, tag), (sent_s, arrived_s) in outcome.undelivered.items():
            self.env.fire_at(arrived_s, self.mail.event(src, dst, tag, receiving=False), sent_s)
        for event in meeting.events.values():
            event.succeed()

    def _note_uses(self, meeting: ProgramMeeting, outcome: Outcome) -> None:
        """Note when programs are on which links: messages one by one, collectives for how long they take in all."""
        for rank, course in outcome.courses.items():
            self.note_exchanges(course.times, meeting.ready_s[rank], course.end_s)
        messages: dict[Use, Messages] = {}
        for (src, dst, _), each in outcome.messages.items():
            messages.setdefault(self.lanes.use(src, dst, self.meets), Messages(each.seconds)).add(each)
        self.meets.note_messages(
            (use, each.departures_s, each.seconds, each.exposed_s())
            for use, each in messages.items()
            if each.departures_s
        )

    def note_exchanges(self, times: PassTimes, start_s: float, end_s: float) -> None:
        """Note the collectives of one rank's passes, which come one after another."""
        uses = [
            (self.communicator(each.op.group).use(each.op.kind, each.op.nbytes, self.meets), each)
            for each in times.exchanges.values()
        ]
        self.meets.note_in_turn([(use, each.seconds, each.exposed_s) for use, each in uses], start_s, end_s)

    def _undisturbed(self, meeting: ProgramMeeting) -> Outcome:
        """Follow the programs on hardware that stays as it is now; raises StuckError if it does not."""
        start_s = self._as_of_s = min(meeting.ready_s.values())
        platform, changed = self.platform, self.conditions.iterations_vary
        if changed or platform.epoch(start_s) != self._epoch:
            self._epoch = platform.epoch(start_s)
            self._times_of.clear()
            self._hops_s.clear()
        outcome = longest_paths(meeting.programs, meeting.ready_s, self._pass_times, self._hop_seconds)
        if platform.epoch(max(course.end_s for course in outcome.courses.values())) != self._epoch:
            raise StuckError
        return outcome

    def _hold(self, op: Program, start_s: float, end_s: float) -> None:
        """Take what the passes hold at their peak for as long as they last, and keep what they leave behind."""
        _, use = self._uses.get(id(op.passes)) or (None, None)
        if use is None:
            use = memory_use(op.passes)
            self._uses[id(op.passes)] = op.passes, use
        if not use.peak:
            return
        memory = self.platform.devices[op.rank].memory
        for name, nbytes in use.peak.items():
            memory.allocate(name, nbytes)
        self._tell_memory(op.rank, start_s)
        for name, nbytes in use.peak.items():
            memory.free(name, nbytes - use.end.get(name, 0.0))
        self._tell_memory(op.rank, end_s)

    def _meets_others(self, op: Program) -> bool:
        """Whether some pass has a collective with ranks of other roles, which may come later than this one."""
        found = self._meets.get(id(op.passes))
        if found is None:
            groups = {each.group for a_pass in set(op.passes) for each in a_pass.collectives}
            found = self._meets[id(op.passes)] = op.passes, any(self._members(group) > 1 for group in groups)
        return found[1]

    def _play_and_tell(self, op: Program, ended: Event) -> Generator[Event, Any, None]:
        yield from self._play(op)
        ended.succeed()

    def _pass_times(self, each: Pass) -> PassTimes:
        """What a pass spends its time on, added up once."""
        found = self._times_of.get(each)
        if found is None:
            found = self._times_of[each] = PassTimes()
            for op in each.run:
                self.add_to(found, op)
        return found

    def add_to(self, times: PassTimes, op: PassOperation) -> None:
        """Count an operation of a pass."""
        if isinstance(op, Compute):
            times.compute(*self.conditions.costs(op, self._as_of_s))
        elif isinstance(op, Collective):
            times.exchange(op, self._collective_seconds(op))
        else:
            compute_s = times.compute(*self.conditions.costs(op.compute, self._as_of_s))
            times.exchange(op.collective, self._collective_seconds(op.collective), compute_s)

    def _collective_seconds(self, op: Collective) -> float:
        return self.communicator(op.group).seconds(op.kind, op.nbytes, self._as_of_s)

    def _hop_seconds(self, op: Send) -> float:
        key = op.rank, op.dst, op.nbytes
        found = self._hops_s.get(key)
        if found is None:
            found = self._hops_s[key] = self.lanes.message_s(op.rank, op.dst, op.nbytes, self._as_of_s)
        return found

    def _tell(self, op: Program, start_s: float, course: Course) -> None:
        """Tell the probes sums, and then of waiting; all messages are told as one that arrives with the last."""
        now_s = self.tell_times(op.rank, op.name, course.times, start_s)
        if course.message_s:
            message = next(each.send for each in op.passes if each.send is not None)
            for hook in self.probes.operation:
                hook(message, course.last_s - course.message_s, course.last_s)
        awaited = next((each.receive for each in op.passes if each.receive is not None), None)
        if course.waited_s and awaited is not None:  # else for its own messages to arrive, which were told
            for wait_hook in self.probes.waited:
                wait_hook(awaited, now_s, course.end_s - course.in_flight_s, course.end_s)

    def tell_times(self, rank: int, name: str, times: PassTimes, start_s: float) -> float:
        """Tell the probes of computation and of communication along each axis, one after another; say when that ends.

        What of the communication is hidden ends with the computation.
        """
        now_s = computed_s = start_s + times.compute_s
        compute = self._told.get((rank, name))
        if compute is None:
            compute = self._told[rank, name] = Compute(rank, Work(), name)
        told: list[tuple[Operation, float, float]] = [(compute, start_s, computed_s)]
        for each in times.exchanges.values():
            if each.beside_s:
                told.append((each.op, computed_s - each.beside_s, computed_s))
            if each.alone_s:
                told.append((each.op, now_s, now_s + each.alone_s))
                now_s += each.alone_s
        for one in told:
            for hook in self.probes.operation:
                hook(*one)
        return now_s
