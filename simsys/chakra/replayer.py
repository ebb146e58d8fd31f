"""Replays tasks: each begins when all that it waits for has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from simpy.events import Event

from simsys.chakra.order import awaiting, followers
from simsys.chakra.speed import Seconds
from simsys.chakra.tasks import Copy, CpuWork, Dispatch, GpuWork, Join, RankTasks, Receipt, Task
from simsys.executors.executor import Executor
from simsys.model.work import Work
from simsys.ops import Collective, Compute, HostChannel, HostWork, Operation, Recv, Send
from simsys.platform.events import At


class ReplayExecutor(Executor):
    """An executor for operations that begin when they are started: all waits are dependencies of traces."""

    def now(self, rank: int) -> float:
        """The simulated time, whatever the GPU of the rank does."""
        return self.env._now

    def report(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Report an operation that the platform carries out."""
        for hook in self.probes.operation:
            hook(op, started_s, ended_s)


class RankReplay:
    """The tasks of one rank.

    Args:
        executor: Carries out communication.
        rank: The rank.
        tasks: Its tasks.
        seconds: Durations of computations.
    """

    def __init__(self, executor: ReplayExecutor, rank: int, tasks: RankTasks, seconds: Seconds) -> None:
        self.rank = rank
        self._executor, self._env, self._seconds = executor, executor.env, seconds
        self._tasks = tasks.tasks
        self._awaiting, self._followers = awaiting(tasks), followers(tasks)
        self._operations = [_operation(rank, task) for task in tasks.tasks]
        self._waiting: list[int] = []
        self._left = 0
        self._host_free_at_s = 0.0
        self._finished = executor.env.done

    def step(self) -> Generator[Event, Any, None]:
        """The process of one replay of the tasks."""
        self._waiting = [len(task.needs) + (task.follows is not None) for task in self._tasks]
        self._left = len(self._tasks)
        self._finished = Event(self._env)
        self._begin(deque(index for index, count in enumerate(self._waiting) if not count))
        if self._left:
            yield self._finished

    def _begin(self, ready: deque[int]) -> None:
        """Begin tasks, and all that can begin in consequence."""
        while ready:
            index = ready.popleft()
            event = self._started(index)
            self._release(self._followers[index], ready)
            if event is None or event.callbacks is None:
                self._end(index, ready)
            else:
                event.callbacks.append(partial(self._ended, index))
        if not self._left and not self._finished.triggered:
            self._finished.succeed()

    def _ended(self, index: int, _: Event) -> None:
        ready = deque[int]()
        self._end(index, ready)
        self._begin(ready)

    def _end(self, index: int, ready: deque[int]) -> None:
        """A task has ended."""
        self._left -= 1
        self._release(self._awaiting[index], ready)

    def _release(self, tasks: Sequence[int], ready: deque[int]) -> None:
        """Tasks wait for one event less."""
        for each in tasks:
            self._waiting[each] -= 1
            if not self._waiting[each]:
                ready.append(each)

    def _started(self, index: int) -> Event | None:
        """Start what a task does; None if that is nothing."""
        action, op = self._tasks[index].action, self._operations[index]
        if op is None:
            return None
        report = partial(self._executor.report, op)
        if isinstance(action, GpuWork):
            seconds = self._seconds(self.rank, action)
            return self._executor.platform.submit_computation_task(self.rank, lambda _: seconds, report)
        if isinstance(action, CpuWork):
            start_s = max(self._env._now, self._host_free_at_s)
            self._host_free_at_s = end_s = start_s + action.duration_s
            report(start_s, end_s)
            return At(self._env, end_s)
        return self._executor.start(op)


def _operation(rank: int, task: Task) -> Operation | None:
    """The operation of a task."""
    action, name = task.action, task.node.name
    if isinstance(action, GpuWork):
        return Compute(rank, Work(), name)
    if isinstance(action, CpuWork):
        return HostWork(rank, HostChannel.UPDATE, 0.0, name)
    if isinstance(action, Copy):
        return HostWork(rank, action.channel, action.nbytes, name)
    if isinstance(action, Join):
        return Collective(rank, action.kind, action.group, action.nbytes, name)
    if isinstance(action, Dispatch):
        return Send(rank, action.dst, action.nbytes, action.tag, name)
    return Recv(rank, action.src, action.tag, name) if isinstance(action, Receipt) else None


def replay_loop(executor: ReplayExecutor, ranks: Sequence[RankReplay], iterations: int) -> Generator[Event, Any, None]:
    """The process of all replays, one after another; each begins and ends for all ranks together."""
    numbers = [each.rank for each in ranks]
    for _ in range(iterations):
        for rank in numbers:
            executor.mark(rank, "iteration_start")
        yield executor.env.all_of([executor.run(each.rank, each.step()) for each in ranks])
        executor.align(numbers)
        for rank in numbers:
            executor.mark(rank, "iteration_end")
