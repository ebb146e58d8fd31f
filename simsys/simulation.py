"""One run: a scenario in, a result out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from simpy.events import Event

from simsys.build.job import Job, build_job
from simsys.build.regimes import regimes_of
from simsys.build.resolved_serving import defaults_dict
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.config.expected_errors import Subject, expected_errors
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import profile_digest, profiles_read
from simsys.errors import UsageError
from simsys.executors import Executor, Links, MediumDetail, OnLinksDetail, executor_class
from simsys.metrics.memory import MemoryTimeline
from simsys.metrics.offered_load import load_warnings
from simsys.metrics.result import RunResult
from simsys.platform.memory import DeviceMemory
from simsys.platform.part import Hardware
from simsys.platform.platform import Platform
from simsys.probes import Probe, Probes
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
from simsys.sharing import IdleJob, affordable, told_apart
from simsys.sums import ordered_sum

NONE_MET = "none met"
"""How the contention of a result at medium ends whose transfers did not hinder each other."""


Processes = Callable[[Platform], Iterable[Generator[Event, Any, Any]]]
"""Makes SimPy processes of the user's own, which request GPUs and links of a platform beside a scenario."""


def simulate(config: SimulationConfig, probes: Iterable[Probe] = (), processes: Processes | None = None) -> RunResult:
    """Simulate a scenario, or several jobs on one cluster.

    Args:
        config: The scenario.
        probes: Further observers.
        processes: Makes SimPy processes that go on beside the scenario, on the same platform; not with several jobs.

    Raises:
        SimsysError: If it cannot be built or cannot be carried out.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    with profiles_read() as read:
        if processes is not None:
            if config.jobs is not None:
                raise UsageError("processes go on beside one scenario, not beside jobs that share a cluster")
            result = _beside_processes(build_job(config), list(probes), processes)
        elif config.jobs is None:
            result = simulate_job(build_job(config), probes)
        else:
            from simsys.shared_cluster import simulate_jobs

            result = simulate_jobs(config, probes)
    return replace(
        result,
        profiles={" ".join(named): profile_digest(layers) for named, layers in sorted(read.items())},
        wall_s=time.perf_counter() - started,
        cpu_s=time.process_time() - started_cpu,
    )


def simulate_job(job: Job, probes: Iterable[Probe] = ()) -> RunResult:
    """Simulate a scenario that is resolved already.

    Args:
        job: The scenario.
        probes: Further observers.

    Raises:
        SimsysError: If it cannot be carried out.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    given, probes = job.config.simulation.occupy_links, list(probes)
    if job.config.simulation.lod != "medium":
        result = _run(job, Links.IDLE, probes).whole_result()
    elif given is False:
        result = _on_idle_links(job, probes)
    elif isinstance(job, ServingJob):
        links = links_of_serving(job, job.cluster.platform().network)
        if links is Links.IDLE and (given is True or _stages_meet(job)):
            links = Links.LOADS
        result = _run(job, links, probes).whole_result()
        result = _none_met(result, job) if links is Links.IDLE else result
    elif given is True:
        result = _run(job, Links.STEPS, probes).whole_result()
    else:
        result = _where_transfers_meet(job, probes)
    return replace(result, wall_s=time.perf_counter() - started, cpu_s=time.process_time() - started_cpu)


def _run(
    job: Job,
    links: Links,
    probes: Sequence[Probe],
    carried: Collection[tuple[int, ...]] | None = None,
    alike: bool | None = None,
) -> JobRun:
    """Carry a job out on hardware of its own."""
    run = JobRun(job, job.cluster.platform(), probes, links=links, carried=carried, alike=alike)
    run.executor.env.run(until=run.ended if job.config.simulation.duration is not None else None)
    run.executor.check_finished()
    return run


def _beside_processes(job: Job, probes: Sequence[Probe], processes: Processes) -> RunResult:
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


def _stages_meet(job: ServingJob) -> bool:
    """Whether stages of pipelines hand on so much over links that they share that latencies grow."""
    return messages_can_meet(job, job.cluster.platform().network) and _hand_on_much(_run(job, Links.IDLE, ()))


def _hand_on_much(run: JobRun) -> bool:
    """Whether stages of pipelines have handed something on for more than a slight part of the time."""
    assert isinstance(run.executor, MediumDetail)
    return run.executor.channels.most_busy_s() > SLIGHT_MESSAGES * run.executor.env.now


def _on_idle_links(job: Job, probes: Sequence[Probe]) -> RunResult:
    """Carry a job out on idle links, and warn if its transfers would have met."""
    run = _run(job, Links.IDLE, probes)
    assert isinstance(run.executor, MediumDetail)
    if isinstance(job, ServingJob):
        network = job.cluster.platform().network
        messages = messages_can_meet(job, network) and _hand_on_much(run)
        text = left_out_in_serving(job, network, messages=messages)
    else:
        text = left_out(run.executor.meets)
    return warned(run.whole_result(), text)


def warned(result: RunResult, text: str) -> RunResult:
    """A result with a further warning, if there is one."""
    return replace(result, warnings=[*result.warnings, text]) if text else result


def _none_met(result: RunResult, job: Job) -> RunResult:
    """The result of a run on idle links that is that of shared links too."""
    return replace(result, contention=f"{job.cluster.network.contention}, {NONE_MET}")


def _where_transfers_meet(job: TrainingJob, probes: Sequence[Probe]) -> RunResult:
    """Carry training out on idle links if its transfers do not hinder each other there, else on shared ones.

    Observers hear of one of these runs only.
    """
    scouts = bool(probes) and job.layout.world_size > 1
    idle = _run(job, Links.IDLE, () if scouts else probes)
    assert isinstance(idle.executor, MediumDetail)
    meets = idle.executor.meets
    if not hindered(meets):
        return _none_met((_run(job, Links.IDLE, probes) if scouts else idle).whole_result(), job)
    carried: Collection[tuple[int, ...]] | None = None
    alike = idle.executor.firsts_alike
    if meets.out_of_step is None and not meets.in_turn:
        carried = meets.hindering(SLIGHT * meets.noted_s)
        run = _run(job, Links.STEPS, () if scouts else probes, carried, alike)
        if run.executor.env.now > SHIFTED * idle.executor.env.now:
            carried = meets.able()  # since others may meet now
        elif not scouts:
            return run.whole_result()
    doubt = ""
    if meets.out_of_step is not None:
        job, doubt = _told_apart(IdleJob(job, idle.executor))
    return warned(_run(job, Links.STEPS, probes, carried, alike).whole_result(), doubt)


def _told_apart(idle: IdleJob) -> tuple[TrainingJob, str]:
    """A job whose groups have unequal shares of links with as many processes as that needs, else with a warning."""
    everyone = {user for use in idle.meets.uses for _, user in use.mirrored()}
    apart = told_apart({0: idle}, {0: everyone})[0]
    if affordable(idle.job, apart):
        return replace(idle.job, told_apart=apart), ""
    return idle.job, out_of_step(idle.meets)


class JobRun:
    """A job that is under way, from now on.

    Args:
        job: What is to be done.
        hardware: The GPUs that do it.
        probes: Further observers.
        links: What becomes of transfers at medium.
        carried: Whose transfers these are, at `Links.STEPS` (`OnLinksDetail.carried`).
        alone: False if others use the same links, so that equal iterations may take different times.
        alike: Whether the first iteration of each kind is known to be like later ones; None if it is not known.
    """

    def __init__(
        self,
        job: Job,
        hardware: Hardware,
        probes: Iterable[Probe] = (),
        *,
        links: Links = Links.IDLE,
        carried: Collection[tuple[int, ...]] | None = None,
        alone: bool = True,
        alike: bool | None = None,
    ) -> None:
        self.job, self._shares = job, not alone or links is Links.LOADS
        settings, probes = job.config.simulation, list(probes)
        self._collector = job.collector()
        self._timelines = [MemoryTimeline()] if settings.collect_events else []
        observers = [self._collector, *probes, *self._timelines]
        level = executor_class(settings.lod, links)
        self.executor: Executor = level(hardware, job.execution_model(), job.roles(), Probes(observers))
        if isinstance(self.executor, OnLinksDetail):
            self.executor.carried = carried
        self.executor.firsts_alike = alike
        watched = any(not probe.counts_only for probe in (*probes, *self._timelines))
        self._started_s = hardware.env.now
        self._busy_s = self.executor.busy_seconds(self.executor.ranks())
        self.ended: Event = job.start(self.executor, observed=watched or not alone)
        """Fires when it is done."""

    def whole_result(self) -> RunResult:
        """What it found out, and the hardware, which it has for itself."""
        platform = self.executor.platform
        assert isinstance(platform, Platform)
        traffic = platform.traffic() if self.job.config.simulation.collect_events else {}
        return replace(self.result(), **hardware_columns(platform), traffic=traffic)

    def result(self) -> RunResult:
        """What it found out, without what is known of the cluster as a whole."""
        job, collector, executor = self.job, self._collector, self.executor
        executor.tell_all()
        seconds = collector.end_s - self._started_s
        metrics = self._figures(seconds)
        return RunResult(
            name=job.config.name,
            kind=job.config.kind,
            lod=job.config.simulation.lod,
            contention=executor.contention,
            metrics=metrics,
            rows=collector.rows(),
            memory_bytes=_fullest(executor).held_at_peak,
            ranks=collector.ranks(),
            replica_changes=collector.replica_changes(),
            memory_timeline=self._timelines[0].columns() if self._timelines else {},
            timeline=collector.over_time(),
            requests=collector.requests,
            assumptions=[*job.assumptions(), *expected_errors(self._subject(), metrics)],
            defaults=defaults_of(job),
            warnings=[*map(str, job.warnings()), *executor.warnings(), *load_warnings(metrics)],
            simulated_s=seconds,
            world_size=job.layout.world_size,
            simulated_ranks=len(executor.ranks()),
            events=executor.env.events_scheduled,
        )

    def _subject(self) -> Subject:
        """What measurements of runs like this one are looked for by."""
        job = self.job
        workload = job.config.workload
        return Subject(
            job.config.kind,
            job.cluster.gpu.name,
            job.engine.name,
            regimes_of(job, shared=self._shares),
            at_once=workload is not None and workload.arrivals.kind == "all_at_once",
        )

    def _figures(self, seconds: float) -> dict[str, Any]:
        """What was measured, with what failures would leave of it, or what it costs."""
        measured, hardware, job = self._collector.metrics(), self._hardware_figures(seconds), self.job
        more: Mapping[str, Any]
        if isinstance(job, TrainingJob):
            more = job.campaign(measured["steady_iteration_s"])
        else:
            more = job.economics(measured, hardware["gpu_utilization"])
        return {**measured, **more, **hardware}

    def _hardware_figures(self, seconds: float) -> dict[str, float]:
        """Busy share and peak memory of the GPUs that were simulated."""
        ranks = self.executor.ranks()
        like = [len(self.executor.stands_for[rank]) for rank in ranks]
        spans_s = zip(self.executor.busy_seconds(ranks), self._busy_s, like, strict=True)
        busy_s = ordered_sum((after_s - before_s) * many for after_s, before_s, many in spans_s)
        memories = [self.executor.platform.devices[rank].memory for rank in ranks]
        return {
            "gpu_utilization": busy_s / sum(like) / seconds if seconds else 0.0,
            "peak_memory_bytes": _fullest(self.executor).peak_bytes,
            "memory_capacity_bytes": max(memory.capacity_bytes for memory in memories),
        }


def defaults_of(job: Job) -> dict[str, dict[str, Any]]:
    """What the engine has set, ready for JSON; nothing in training."""
    return defaults_dict(job.settings) if isinstance(job, ServingJob) else {}


def hardware_columns(platform: Platform, traffic: Mapping[str, Sequence[Any]] | None = None) -> dict[str, Any]:
    """The GPUs and links of a whole cluster, as a result has them.

    Args:
        platform: The cluster.
        traffic: Who sent how much to whom, if jobs count for themselves.
    """
    payload = platform.payload(traffic)
    return {"gpus": platform.gpu_statistics(payload), "links": platform.link_statistics(payload)}


def _fullest(executor: Executor) -> DeviceMemory:
    """The memory of the GPU, of those that were simulated, that held most."""
    return max(
        (executor.platform.devices[rank].memory for rank in executor.ranks()), key=lambda memory: memory.peak_bytes
    )
