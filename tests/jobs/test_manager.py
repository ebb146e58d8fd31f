"""The job manager: until when a running job has the links for itself."""

from __future__ import annotations

from math import inf

from numpy.random import default_rng
from simpy.events import Event

from simsys.jobs.manager import JobManager
from simsys.jobs.placement import PLACEMENTS
from simsys.jobs.queue import QUEUES, Waiting
from simsys.platform.environment import Environment


def managed(*arrivals_s: float, gpus: int = 4, seconds: float = 10.0) -> tuple[Environment, JobManager]:
    """Jobs of `gpus` of 8 GPUs each that take some seconds."""
    env = Environment()
    jobs = [Waiting(index, gpus, arrival_s, 0, 0.0) for index, arrival_s in enumerate(arrivals_s)]

    def start(index: int, _: tuple[int, ...]) -> Event:
        return env.at(env.now + seconds + index)

    placements = [PLACEMENTS["packed"]] * len(jobs)
    return env, JobManager(env, 8, 4, jobs, QUEUES["fifo"], placements, start, default_rng(0))


def test_a_job_is_alone_until_the_next_one_arrives() -> None:
    env, manager = managed(0.0, 4.0)
    env.run(until=1.0)
    assert manager.alone_until_s(0, None) == 4.0
    env.run(until=5.0)
    assert manager.alone_until_s(0, None) == manager.alone_until_s(1, None) == 5.0
    assert manager.alone_until_s(0, {0}) == inf, "the other one uses no links"
    env.run(until=12.0)
    assert manager.alone_until_s(1, None) == inf


def test_beside_another_job_one_that_waits_may_start_at_any_time() -> None:
    env, manager = managed(0.0, 0.0, 0.0)
    env.run(until=1.0)
    assert manager.alone_until_s(0, {0}) == 1.0
    env.run(until=12.0)
    assert manager.alone_until_s(2, {0, 2}) == inf


def test_alone_on_a_full_cluster_a_job_need_not_mind_those_that_wait() -> None:
    env, manager = managed(0.0, 0.0, 30.0, gpus=8)
    env.run(until=1.0)
    assert manager.alone_until_s(0, None) == 30.0
