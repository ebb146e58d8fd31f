"""Several jobs on one cluster: each has its own GPUs, and shares links with other jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from simpy.events import Event

from simsys.build.cluster import Cluster
from simsys.build.job import Built, Job, job_on
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.config.experiment import JobConfig, SchedulingConfig, SimulationConfig
from simsys.errors import DeadlockError, SettingError
from simsys.executors import Links
from simsys.job_run import NONE_MET, JobRun, hardware_columns, warned
from simsys.jobs.manager import JobManager, Stay
from simsys.jobs.placement import PLACEMENTS
from simsys.jobs.queue import QUEUES, Waiting
from simsys.metrics.result import RunResult
from simsys.platform.environment import executors_clock
from simsys.platform.partition import PlatformPartition
from simsys.probes import Probe
from simsys.rng import stream
from simsys.sharing import IdleJob, SharedTransfers, shared_by
from simsys.sums import ordered_sum
from simsys.units import LONGEST_S


def simulate_jobs(built: Built, probes: Iterable[Probe] = ()) -> RunResult:
    """Simulate the jobs of a scenario on its cluster.

    Args:
        built: A scenario with jobs.
        probes: Further observers, of all jobs; each job numbers its ranks from 0.

    Returns:
        One row per job, and in `RunResult.jobs` the result of each.

    Raises:
        SimsysError: If a job cannot be built or cannot be carried out.
    """
    probes, settings = list(probes), built.config.simulation
    if (settings.lod, settings.occupy_links) != ("medium", "auto") or _any_serves(built.config):
        return _run(built, probes).result()
    idle = _run(built, (), {})
    sharing = idle.sharing()
    if not sharing:
        return (_run(built, probes, {}, idle) if probes else idle).result()
    shared = _run(built, probes, sharing, idle)
    if not shared.together() <= idle.together():  # jobs have contended that did not run concurrently before
        shared = _run(built, probes, idle.sharing(at_any_time=True), idle)
    return shared.result()


def _run(
    built: Built,
    probes: Sequence[Probe],
    sharing: Mapping[int, SharedTransfers] | None = None,
    before: SharedCluster | None = None,
) -> SharedCluster:
    """Let all jobs run."""
    cluster = SharedCluster(built, probes, sharing, before)
    cluster.platform.env.run()
    return cluster


def _any_serves(config: SimulationConfig) -> bool:
    return any(config.job(job).serving is not None for job in config.jobs or ())


class SharedCluster:
    """A run of several jobs on one cluster.

    Args:
        built: A scenario with jobs.
        probes: Further observers.
        sharing: By number, jobs with transfers on shared links; other jobs use idle links. None: as the settings say.
        before: An earlier run of this cluster and these jobs, whose descriptions are reused.
    """

    def __init__(
        self,
        built: Built,
        probes: Sequence[Probe],
        sharing: Mapping[int, SharedTransfers] | None = None,
        before: SharedCluster | None = None,
    ) -> None:
        config = self.config = built.config
        self._probes, self._sharing, self._alone = probes, sharing, built.jobs
        self._given: Sequence[JobConfig] = config.jobs or ()
        self._cluster: Cluster = built.cluster
        self._resolved: dict[tuple[int, tuple[int, ...]], Job] = (
            {(index, tuple(range(job.cluster.num_gpus))): job for index, job in enumerate(built.jobs)}
            if before is None
            else before._resolved
        )
        self.platform = self._cluster.platform()
        self._left_out = (config.simulation.lod, config.simulation.occupy_links) == ("medium", False)
        self._links = Links.LOADS if _any_serves(config) else Links.STEPS  # of all jobs, so that their transfers meet
        self._runs: dict[int, JobRun] = {}
        self._parts: dict[int, PlatformPartition] = {}
        self._results: dict[int, RunResult] = {}
        scheduling = config.scheduling or SchedulingConfig()
        self._manager = JobManager(
            executors_clock(self.platform.env),
            self._cluster.num_gpus,
            self._cluster.gpus_per_node,
            [self._waiting(index, walltimes=scheduling.queue == "backfill") for index in range(len(self._given))],
            QUEUES[scheduling.queue],
            [PLACEMENTS[job.placement or scheduling.placement] for job in self._given],
            self._start,
            stream(config.simulation.seed, "placement"),
        )

    def _waiting(self, index: int, *, walltimes: bool) -> Waiting:
        job = self._given[index]
        gpus = self._alone[index].cluster.num_gpus
        walltime_s = job.walltime or 0.0
        if walltimes and job.walltime is None:
            walltime_s = _seconds_alone(self._alone[index], self.config.job(job), self._cluster, gpus)
        return Waiting(index, gpus, job.arrival, job.priority, walltime_s)

    def _start(self, index: int, gpus: tuple[int, ...]) -> Event:
        if self.platform.env.now > LONGEST_S:
            begins = f"job {self._given[index].name} would start after {self.platform.env.now:.3g} s"
            raise SettingError(f"jobs[{index}]", f"{begins}; at most {LONGEST_S:g} s (300 years) are simulated")
        job = self._resolved.get((index, gpus))
        if job is None:
            alone, config = self._alone[index], self.config.job(self._given[index])
            job = self._resolved[index, gpus] = job_on(alone, config, self._cluster, gpus)
        if isinstance(job, ServingJob):
            job = replace(job, starts_s=self.platform.env.now)
        links, sharing = self._links_of(index)
        if isinstance(job, TrainingJob) and sharing.rank_classes:
            job = replace(job, rank_classes=sharing.rank_classes)
        part = self._parts[index] = PlatformPartition(self.platform, gpus)
        until_s = None if sharing.alone else partial(self._manager.alone_until_s, index, self._sharing)
        probes = [probe.of_job(self._given[index].name) for probe in self._probes]
        run = JobRun(job, part, probes, links=links, carried=sharing.carried, alone_until_s=until_s)
        self._runs[index] = run

        def ended(event: Event) -> None:
            if event.ok:  # else what went wrong is raised
                self._results[index] = warned(run.result(), sharing.doubt)
            for device in part.devices:
                device.memory.clear()

        run.ended.callbacks.append(ended)
        return run.ended

    def _links_of(self, index: int) -> tuple[Links, SharedTransfers]:
        """What becomes of the transfers of a job at medium."""
        if self._sharing is not None:
            found = self._sharing.get(index)
            return (Links.IDLE, SharedTransfers(None, alone=True)) if found is None else (Links.STEPS, found)
        if self.config.simulation.occupy_links is False:
            return Links.IDLE, SharedTransfers(None, alone=True)
        return self._links, SharedTransfers(None, alone=len(self._given) == 1)

    def together(self) -> set[frozenset[int]]:
        """Which jobs have run at the same time, in twos."""
        stays = sorted(self._manager.stays.items())
        return {
            frozenset((one, other))
            for (one, here), (other, there) in combinations(stays, 2)
            if max(here.started_s, there.started_s) < min(here.ended_s, there.ended_s)
        }

    def sharing(self, *, at_any_time: bool = False) -> dict[int, SharedTransfers]:
        """Jobs that would lose time to other jobs on links, after a run on idle links.

        Args:
            at_any_time: True to include jobs that did not run at the same time.
        """
        jobs, together = dict[int, IdleJob](), self.together()
        for index, run in self._runs.items():
            assert isinstance(run.job, TrainingJob)
            jobs[index] = IdleJob(run.job, run.executor)
        near = {
            index: [
                other for other in jobs if other != index and (at_any_time or frozenset((index, other)) in together)
            ]
            for index in jobs
        }
        return shared_by(jobs, near)

    def result(self) -> RunResult:
        """What became of all jobs.

        Raises:
            DeadlockError: If some have not ended although nothing can happen any more.
        """
        for index, run in self._runs.items():
            if index not in self._results:
                run.executor.check_finished()
        if len(self._results) < len(self._given):
            names = [job.name for index, job in enumerate(self._given) if index not in self._results]
            raise DeadlockError(f"nothing can happen any more, but these jobs have not ended: {', '.join(names)}")
        stays, env = self._manager.stays, executors_clock(self.platform.env)
        end_s = max(stay.ended_s for stay in stays.values())
        contention = self._results[0].contention
        if self._sharing is not None:
            contention = self.platform.network.contention + ("" if self._sharing else f", {NONE_MET}")
        traffic = self._traffic(stays)
        return RunResult(
            name=self.config.name,
            kind="jobs",
            lod=self.config.simulation.lod,
            contention=contention,
            metrics=self._metrics(stays, end_s),
            rows=self._rows(stays),
            **hardware_columns(self.platform, traffic),
            traffic=traffic if self.config.simulation.collect_events else {},
            assumptions=self._assumptions(),
            warnings=self._warnings(),
            simulated_s=end_s,
            events=env.events_scheduled,
            jobs=[self._results[index] for index in range(len(self._given))],
        )

    def _metrics(self, stays: Mapping[int, Stay], end_s: float) -> dict[str, Any]:
        waits_s = [stays[index].started_s - job.arrival for index, job in enumerate(self._given)]
        taken_gpu_s = ordered_sum(len(stay.gpus) * (stay.ended_s - stay.started_s) for stay in stays.values())
        return {
            "jobs": len(self._given),
            "num_gpus": self._cluster.num_gpus,
            "makespan_s": end_s,
            "mean_wait_s": ordered_sum(waits_s) / len(waits_s),
            "max_wait_s": max(waits_s),
            "gpu_allocation": taken_gpu_s / (self._cluster.num_gpus * end_s) if end_s else 0.0,
        }

    def _rows(self, stays: Mapping[int, Stay]) -> dict[str, list[Any]]:
        jobs = list(enumerate(self._given))
        results = [self._results[index] for index, _ in jobs]
        nodes = [len({gpu // self._cluster.gpus_per_node for gpu in stays[index].gpus}) for index, _ in jobs]
        return {
            "job": [job.name for _, job in jobs],
            "kind": [result.kind for result in results],
            "gpus": [len(stays[index].gpus) for index, _ in jobs],
            "nodes": nodes,
            "priority": [job.priority for _, job in jobs],
            "arrival_s": [job.arrival for _, job in jobs],
            "started_s": [stays[index].started_s for index, _ in jobs],
            "ended_s": [stays[index].ended_s for index, _ in jobs],
            "wait_s": [stays[index].started_s - job.arrival for index, job in jobs],
            "iteration_s": [result.metrics.get("mean_iteration_s") for result in results],
            "request_throughput": [result.metrics.get("request_throughput") for result in results],
            "first_gpu": [stays[index].gpus[0] for index, _ in jobs],
        }

    def _traffic(self, stays: Mapping[int, Stay]) -> dict[str, list[Any]]:
        """Bytes by sending and receiving GPU, numbered within the cluster."""
        total: dict[tuple[int, int], float] = {}
        for index, part in self._parts.items():
            gpus, sent = stays[index].gpus, part.network.traffic.columns()
            for src, dst, nbytes in zip(sent["src"], sent["dst"], sent["nbytes"], strict=True):
                pair = gpus[src], gpus[dst]
                total[pair] = total.get(pair, 0.0) + nbytes
        pairs = sorted(total)
        return {
            "src": [src for src, _ in pairs],
            "dst": [dst for _, dst in pairs],
            "nbytes": [total[pair] for pair in pairs],
        }

    def _warnings(self) -> list[str]:
        """Assumptions of the cluster, then of the jobs, each with the names of its jobs."""
        common = [str(problem) for problem in self._cluster.warnings]
        about: dict[str, list[str]] = {}
        for index, result in sorted(self._results.items()):
            for text in result.warnings:
                if text not in common:
                    about.setdefault(text, []).append(self._given[index].name)
        if self._left_out:
            common.append(
                "occupy_links: false leaves out that jobs slow each other on links that they share; times may be "
                "longer by an unknown amount; occupy_links: auto counts it"
            )
        return [*common, *(f"{', '.join(names)}: {text}" for text, names in about.items())]

    def _assumptions(self) -> list[str]:
        scheduling = self.config.scheduling or SchedulingConfig()
        own = dict.fromkeys(text for result in self._results.values() for text in result.assumptions)
        return [f"queue: {scheduling.queue}, placement: {scheduling.placement}; a job keeps its GPUs to its end", *own]


def _seconds_alone(job: Job, config: SimulationConfig, cluster: Cluster, gpus: int) -> float:
    """Duration of a job alone on the cluster, on the first GPUs."""
    settings = config.simulation.model_copy(update={"lod": "medium", "collect_events": False})
    alone = config.model_copy(update={"simulation": settings})
    hardware = PlatformPartition(cluster.platform(), range(gpus))
    run = JobRun(job_on(job, alone, cluster, range(gpus)), hardware)
    hardware.env.run()
    return run.result().simulated_s
