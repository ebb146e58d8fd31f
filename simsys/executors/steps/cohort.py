"""Data-parallel ranks that share their experts: their engines step together, and a step lasts as long as the slowest.

Each rank has its own engine and requests. While no batch changes, all ranks go through a *stretch* of steps. A rank
whose run ends asks its engine and joins again; one that gets its first request waits for the end of the step under
way. A rank without requests passes a dummy batch, as the others need its experts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from math import inf

from simpy.events import EventPriority

from simsys.collectives.base import CollectiveKind
from simsys.executors.core import Core
from simsys.executors.steps.rounds import Work
from simsys.executors.steps.step_log import StepLog
from simsys.model.batch import NOTHING, Batch
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep
from simsys.platform.events import boundary, waking
from simsys.starter import Drafting


class Member:
    """The stepper of one of the engines.

    Args:
        cohort: All of them.
        team: The ranks of this engine.
        done: Called at the end of a run of steps, with their number.
    """

    def __init__(self, cohort: Cohort, team: Group, done: Callable[[int], None]) -> None:
        self.team, self.done = team, done
        self.log = StepLog(cohort.core, team.ranks[0])
        simulated = set(cohort.core.ranks())
        self.devices = [cohort.core.platform.devices[rank] for rank in team.ranks if rank in simulated]
        """The GPUs of the rank; only one of them where one stands for all."""
        self.batch = self.more = NOTHING
        self.host_s = 0.0
        self.steps = self.ended = 0
        """Steps of the run, and those of them that ended in earlier stretches."""
        self._cohort = cohort

    @property
    def now_batch(self) -> Batch:
        """The batch of the first step of a stretch that begins now."""
        return self.batch.grown(self.ended, self.more) if self.ended else self.batch

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Start a run of at most this number of steps."""
        self.batch, self.more, self.host_s, self.steps, self.ended = batch, more, host_s, steps, 0
        self._cohort.enter(self)

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Start a run of at most this number of steps without prompts."""
        batch = Batch(sequences, sequences, 0.0, 0, context_tokens, sequences)
        self.run(batch, steps, host_s, Batch(decode_context_tokens=sequences))

    def cut(self, later: bool = False) -> int:
        """End the run at the first boundary that is not before now."""
        self._cohort.cut(self)
        return 0

    def next_s(self) -> float | None:
        """That depends on the other ranks."""
        return None

    def passed(self) -> int:
        """Number of steps of the run that have ended before the current event."""
        return self.ended + (self._cohort.passed() if self in self._cohort.running else 0)

    def stop(self) -> int:
        """End now, with the steps that have ended; return how many of the run have."""
        self._cohort.stop()
        return self.ended


class Cohort(ABC):
    """The engines, and the stretch of steps under way; an entry of the environment's agenda.

    Args:
        core: The services of the executor.
        lockstep: The ranks and their passes.
        drafting: How each rank drafts tokens, if they do.
        longest: Longest stretch in steps.
    """

    def __init__(self, core: Core, lockstep: LockStep, drafting: Drafting | None, longest: int) -> None:
        self.core, self.lockstep, self.drafting = core, lockstep, drafting
        self.env, self.probes = core.env, core.probes
        self.running: list[Member] = []
        """Those with a batch in the stretch under way."""
        self.members: list[Member] = []
        self.overlapped = core.model.async_scheduling
        self._longest = longest
        self._entered: list[Member] = []  # for the next stretch
        self._stopped = self._ending = False
        first = lockstep.everyone.ranks[0]
        self._ends = boundary(first)
        self._begins = EventPriority(waking(lockstep.everyone.ranks[-1]) + 1)  # when all have asked their engines
        self.due_s, self.priority = inf, int(self._begins)
        self._moved = core.env.agenda.add(self)

    def member(self, rank: int, done: Callable[[int], None]) -> Member:
        """The stepper of the engine whose team has this first rank."""
        (team,) = (each for each in self.lockstep.teams if each.ranks[0] == rank)
        found = Member(self, team, done)
        self.members.append(found)
        return found

    def enter(self, member: Member) -> None:
        """A run begins, at the end of the step under way if there is one."""
        self._entered.append(member)
        if self.running:
            self.shorten()
        self._gather()

    def _gather(self) -> None:
        """Begin a stretch after all else of this moment, unless one is under way."""
        if self._entered and not (self.running or self._ending):
            self.come(self.env._now, self._begins)

    def come(self, time_s: float, priority: EventPriority) -> None:
        """Be called at a time."""
        self.due_s, self.priority = time_s, int(priority)
        self._moved()

    def happen(self) -> float:
        """A stretch begins or ends now."""
        self.due_s = inf
        if self.running:
            self.end(self.planned())
        elif self._entered and not self._stopped:
            self.running = sorted(self._entered, key=lambda each: each.team.ranks[0])
            self._entered = []
            self.begin(min(self._longest, *(each.steps - each.ended for each in self.running)))
        return inf  # `come` has told the agenda

    def end(self, steps: int) -> None:
        """A stretch has ended: ask the engines whose runs end."""
        running, self.running, self._ending = self.running, [], True
        over: list[Member] = []
        for each in running:
            each.ended += steps
            (over if each.ended >= each.steps else self._entered).append(each)
        for each in over:
            each.done(each.steps)
        self._ending = False
        self._gather()

    def cut(self, member: Member) -> None:
        """A run ends at the first boundary that is not before now."""
        steps = self.shorten() if member in self.running else 1
        member.steps = min(member.steps, member.ended + steps)

    def stop(self) -> None:
        """End everything now, with the steps that have ended."""
        if self._stopped:
            return
        self._stopped, passed = True, self.passed()
        if self.running:
            self.book(passed)
        for each in self.running:
            each.ended += passed
        self.running, self.due_s = [], inf
        self._moved()

    @cached_property
    def moved_s(self) -> float:
        """A step's part of the time to place the experts anew: every GPU receives all of its own."""
        lockstep = self.lockstep
        if not lockstep.moved_after:
            return 0.0
        seconds = self.core.communicator(lockstep.everyone).seconds(CollectiveKind.ALL_TO_ALL, lockstep.moved_bytes)
        return seconds / lockstep.moved_after

    @property
    def host_s(self) -> float:
        """Host time before each step, of the slowest host."""
        return max(each.host_s for each in self.running)

    def works(self) -> list[Work]:
        """The work of each rank that runs, in the pass of the model."""
        return [Work(place, each.team, each.now_batch, each.more) for place, each in enumerate(self.running)]

    @abstractmethod
    def begin(self, steps: int) -> None:
        """Begin a stretch of a number of steps of all that run."""

    @abstractmethod
    def planned(self) -> int:
        """Book the stretch that ends now; return its number of steps."""

    @abstractmethod
    def passed(self) -> int:
        """Number of steps of the stretch that have ended before the current event."""

    @abstractmethod
    def shorten(self) -> int:
        """End the stretch at the first boundary that is not before now; return its number of steps."""

    @abstractmethod
    def book(self, steps: int) -> None:
        """Note that the first steps of the stretch have ended."""
