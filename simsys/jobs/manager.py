"""Lets jobs arrive, wait, start on GPUs of their own, and give them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from simpy.events import Event

from simsys.jobs.placement import Placement
from simsys.jobs.queue import Queue, Running, Waiting
from simsys.platform.environment import Environment

if TYPE_CHECKING:
    from numpy.random import Generator as Random

Start = Callable[[int, tuple[int, ...]], Event]
"""Starts the job of this number on these GPUs; the event fires when it has ended."""


@dataclass(frozen=True)
class Stay:
    """When and where a job ran."""

    gpus: tuple[int, ...]
    started_s: float
    ended_s: float


class JobManager:
    """The batch system of a cluster. After each arrival and end of a job, it starts the jobs selected by the queue.

    Args:
        env: The environment.
        num_gpus: GPUs of the cluster.
        gpus_per_node: GPUs in each node.
        jobs: All jobs; none needs more GPUs than the cluster has.
        queue: Selects the next jobs.
        placements: For each job, the function that selects its GPUs.
        start: Starts a job.
        rng: For placements that draw.
    """

    def __init__(
        self,
        env: Environment,
        num_gpus: int,
        gpus_per_node: int,
        jobs: Sequence[Waiting],
        queue: Queue,
        placements: Sequence[Placement],
        start: Start,
        rng: Random,
    ) -> None:
        self._env, self._queue, self._placements, self._start, self._rng = env, queue, placements, start, rng
        self._gpus_per_node = gpus_per_node
        self._free = set(range(num_gpus))
        self._waiting: list[Waiting] = []
        self._running: dict[int, Running] = {}
        self.stays: dict[int, Stay] = {}
        """When and where each job ran, once it has ended."""
        self._arrivals_s = deque(sorted(job.arrival_s for job in jobs))  # that are still to come
        for job in sorted(jobs, key=lambda job: job.arrival_s):
            env.at(job.arrival_s, lambda _, job=job: self._arrive(job))  # type: ignore[misc]

    def _arrive(self, job: Waiting) -> None:
        self._arrivals_s.popleft()
        self._waiting.append(job)
        self._start_what_can()

    def alone_until_s(self, index: int, on_links: Collection[int] | None) -> float:
        """Until when a running job surely has all links for itself.

        Args:
            index: The job.
            on_links: Jobs whose transfers use links; None for all.

        Returns:
            The next arrival of a job; now, if another job uses links, or if one waits that may start before this one
            ends.
        """
        others = self._running.keys() - {index}
        if any(on_links is None or other in on_links for other in others) or (others and self._waiting):
            return self._env.now
        return self._arrivals_s[0] if self._arrivals_s else inf

    def _start_what_can(self) -> None:
        while True:
            now = self._env.now
            job = self._queue(self._waiting, len(self._free), list(self._running.values()), now)
            if job is None:
                return
            self._waiting.remove(job)
            gpus = self._placements[job.index](self._free_by_node(), job.gpus, self._rng)
            self._free.difference_update(gpus)
            self._running[job.index] = Running(job.gpus, now + job.walltime_s)
            self._run(job, gpus)

    def _run(self, job: Waiting, gpus: tuple[int, ...]) -> None:
        started_s = self._env.now

        def ended(_: Event) -> None:
            del self._running[job.index]
            self._free.update(gpus)
            self.stays[job.index] = Stay(gpus, started_s, self._env.now)
            self._start_what_can()

        self._start(job.index, gpus).callbacks.append(ended)

    def _free_by_node(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for gpu in sorted(self._free):
            found.setdefault(gpu // self._gpus_per_node, []).append(gpu)
        return found
