"""One run: a scenario in, a result out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from simpy.events import Event

from simsys.build.job import Built, Job, build
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import profile_digest, profiles_read
from simsys.errors import UsageError
from simsys.executors import Combination, Links, chooses_links
from simsys.job_run import NONE_MET, JobRun, warned
from simsys.metrics.own import with_own
from simsys.metrics.result import RunResult
from simsys.platform.platform import Platform
from simsys.probes import Probe
from simsys.shared_cluster import simulate_jobs
from simsys.shared_links import (
    SHIFTED,
    SLIGHT,
    SLIGHT_MESSAGES,
    hindered,
    left_out,
    left_out_in_serving,
    links_of_serving,
    messages_can_meet,
    out_of_step,
)
from simsys.sharing import IdleJob, affordable, distinguished_ranks

Processes = Callable[[Platform], Iterable[Generator[Event, Any, Any]]]
"""Creates SimPy processes of the user, which request GPUs and links of the platform of a scenario."""


def simulate(
    config: SimulationConfig,
    probes: Iterable[Probe] = (),
    processes: Processes | None = None,
    made_of: Combination | None = None,
    built: Built | None = None,
) -> RunResult:
    """Simulate a scenario, or several jobs on one cluster.

    Args:
        config: The scenario.
        probes: Further observers.
        processes: Creates SimPy processes that run during the scenario on its platform; not with several jobs.
        made_of: The components of the executor, for comparisons; by default those of the scenario's level of detail.
            Not with several jobs.
        built: The scenario as the check has built it; by default it is built here.

    Raises:
        ConfigError: With every rule that it breaks.
        SimsysError: If it cannot be carried out.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    if made_of is not None and config.jobs is not None:
        raise UsageError("executors of other components carry out one scenario, not jobs that share a cluster")
    if processes is not None and config.jobs is not None:
        raise UsageError("processes need a single scenario, not jobs that share a cluster")
    with profiles_read() as read:
        built = built or build(config)
        if processes is not None:
            result = _with_processes(built.jobs[0], list(probes), processes)
        elif config.jobs is None:
            result = simulate_job(built.jobs[0], probes, made_of)
        else:
            result = simulate_jobs(built, probes)
        if processes is not None or config.jobs is not None:
            result = with_own(result, config.simulation.metrics, config.simulation.analyses)
    return replace(
        result,
        profiles={" ".join(named): profile_digest(each) for named, each in sorted({**built.profiles, **read}.items())},
        wall_s=time.perf_counter() - started,
        cpu_s=time.process_time() - started_cpu,
    )


def simulate_job(
    job: Job,
    probes: Iterable[Probe] = (),
    made_of: Combination | None = None,
    enough: Callable[[RunResult], bool] = lambda _: False,
) -> RunResult:
    """Simulate a scenario that is resolved already.

    Args:
        job: The scenario.
        probes: Further observers.
        made_of: The components of the executor, if not those of the scenario's level of detail.
        enough: Called with the result of training on idle links, which is a lower bound, before shared links are
            simulated; if true, this is the result.

    Raises:
        SimsysError: If it cannot be carried out.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    given, probes = job.config.simulation.occupy_links, list(probes)
    if made_of is not None or not chooses_links(job.config.simulation.lod):
        result = _run(job, Links.IDLE, probes, made_of=made_of).whole_result()
    elif given is False:
        result = _on_idle_links(job, probes)
    elif isinstance(job, ServingJob):
        result = _where_teams_meet(job, probes)
    elif given is True:
        result = _run(job, Links.STEPS, probes).whole_result()
    else:
        result = _where_transfers_meet(job, probes, enough)
    settings = job.config.simulation
    result = with_own(result, settings.metrics, settings.analyses)
    return replace(result, wall_s=time.perf_counter() - started, cpu_s=time.process_time() - started_cpu)


def _run(
    job: Job,
    links: Links,
    probes: Sequence[Probe],
    carried: Collection[tuple[int, ...]] | None = None,
    alike: bool | None = None,
    made_of: Combination | None = None,
) -> JobRun:
    """Carry a job out on hardware of its own."""
    run = JobRun(job, job.cluster.platform(), probes, links=links, carried=carried, alike=alike, made_of=made_of)
    run.executor.env.run(until=run.ended if isinstance(job, ServingJob) and job.ends_early else None)
    run.executor.check_finished()
    return run


def _with_processes(job: Job, probes: Sequence[Probe], processes: Processes) -> RunResult:
    """Carry a job out on hardware that processes of the user's own request too; ends with the job."""
    platform = job.cluster.platform()
    platform.share()
    run = JobRun(job, platform, probes, links=Links.STEPS)
    env = run.executor.env
    for each in processes(platform):
        env.process(each)
    try:
        env.run(until=run.ended)
    except RuntimeError:
        if env.peek() < inf:
            raise
        run.executor.check_finished()  # raises if ranks wait for each other
        raise UsageError("the scenario does not end: a process keeps a GPU or a link for ever") from None
    run.executor.check_finished()
    return run.whole_result()


def _where_teams_meet(job: ServingJob, probes: Sequence[Probe]) -> RunResult:
    """Serve on links that are loaded if transfers can meet there, else on idle ones.

    Messages between stages count if they take long, which shows when they are simulated on idle links. Observers hear
    of one run only.
    """
    network = job.cluster.platform().network
    links = links_of_serving(job, network)
    if links is Links.IDLE and job.config.simulation.occupy_links is True:
        links = Links.LOADS
    elif links is Links.IDLE and messages_can_meet(job, network):
        idle = _run(job, Links.IDLE, ())
        if _hand_on_much(idle):
            links = Links.LOADS
        elif not probes:
            return _none_met(idle.whole_result(), job)
    result = _run(job, links, probes).whole_result()
    return _none_met(result, job) if links is Links.IDLE else result


def _hand_on_much(run: JobRun) -> bool:
    """Whether stages of pipelines have handed something on for more than a slight part of the time."""
    return run.executor.idle.channels.most_busy_s() > SLIGHT_MESSAGES * run.executor.env.now


def _on_idle_links(job: Job, probes: Sequence[Probe]) -> RunResult:
    """Carry a job out on idle links, and warn if its transfers would have met."""
    run = _run(job, Links.IDLE, probes)
    if isinstance(job, ServingJob):
        network = job.cluster.platform().network
        messages = messages_can_meet(job, network) and _hand_on_much(run)
        text = left_out_in_serving(job, network, messages=messages)
    else:
        text = left_out(run.executor.idle.meets)
    return warned(run.whole_result(), text)


def _none_met(result: RunResult, job: Job) -> RunResult:
    """The result of a run on idle links without contention."""
    return replace(result, contention=f"{job.cluster.network.contention}, {NONE_MET}")


def _where_transfers_meet(job: TrainingJob, probes: Sequence[Probe], enough: Callable[[RunResult], bool]) -> RunResult:
    """Carry training out on idle links if its transfers do not hinder each other there, else on shared ones.

    Observers hear of one of these runs only.
    """
    scouts = bool(probes) and job.layout.world_size > 1
    idle = _run(job, Links.IDLE, () if scouts else probes)
    meets = idle.executor.idle.meets
    if not hindered(meets):
        return _none_met((_run(job, Links.IDLE, probes) if scouts else idle).whole_result(), job)
    if enough(least := idle.whole_result()):
        return least
    carried: Collection[tuple[int, ...]] | None = None
    alike = idle.executor.firsts_alike
    if meets.out_of_step is None and not meets.in_turn:
        carried = meets.hindering(SLIGHT * meets.noted_s)
        run = _run(job, Links.STEPS, () if scouts else probes, carried, alike)
        if run.executor.env.now > SHIFTED * idle.executor.env.now:
            carried = meets.able()  # since further transfers may contend now
        elif not scouts:
            return run.whole_result()
    doubt = ""
    if meets.out_of_step is not None:
        job, doubt = _with_rank_classes(IdleJob(job, idle.executor))
    return warned(_run(job, Links.STEPS, probes, carried, alike).whole_result(), doubt)


def _with_rank_classes(idle: IdleJob) -> tuple[TrainingJob, str]:
    """Simulate a job with unequal shares of links with enough processes, else with a warning."""
    everyone = {user for use in idle.meets.uses for _, user in use.mirrored()}
    apart = distinguished_ranks({0: idle}, {0: everyone})[0]
    if affordable(idle.job, apart):
        return replace(idle.job, rank_classes=apart), ""
    return idle.job, out_of_step(idle.meets)
