"""One job under way on given hardware: its executor, its observers and its result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simpy.events import Event

from simsys.build.job import Job
from simsys.build.regimes import subject_of
from simsys.build.resolved_serving import defaults_dict
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.build.training_economics import economics_of_training
from simsys.config.expected_errors import expected_errors
from simsys.executors import Combination, Executor, Links, combination
from simsys.executors.communication.selected import SelectedSteps
from simsys.metrics.collector import TrainingMetrics
from simsys.metrics.memory import MemoryTimeline
from simsys.metrics.offered_load import load_warnings
from simsys.metrics.result import RunResult
from simsys.platform.device_memory import DeviceMemory
from simsys.platform.partition import Hardware
from simsys.platform.platform import Platform
from simsys.probes import Probe, Probes
from simsys.sums import ordered_sum

NONE_MET = "none met"
"""Suffix of the contention model in a result at medium without contention."""
ROUNDING = 1e-9
"""Share of a computation up to which its wait for launches is a rounding error."""


class JobRun:
    """A running job, from now on.

    Args:
        job: The job.
        hardware: Its GPUs.
        probes: Further observers.
        links: Treatment of transfers at medium.
        carried: Groups with transfers on links, at `Links.STEPS` (`SelectedSteps.carried`).
        alone_until_s: Until when it has its links for itself (`Executor.alone_until_s`); None if no other job uses
            them.
        alike: True if the first iteration of each kind equals later ones; None if unknown.
        made_of: The components of the executor; by default those of the scenario's level of detail.
    """

    def __init__(
        self,
        job: Job,
        hardware: Hardware,
        probes: Iterable[Probe] = (),
        *,
        links: Links = Links.IDLE,
        carried: Collection[tuple[int, ...]] | None = None,
        alone_until_s: Callable[[], float] | None = None,
        alike: bool | None = None,
        made_of: Combination | None = None,
    ) -> None:
        self.job, self._shares = job, alone_until_s is not None or links is Links.LOADS
        settings, probes = job.config.simulation, list(probes)
        self._collector = job.collector()
        self._timelines = [MemoryTimeline()] if settings.collect_events else []
        observers = [self._collector, *probes, *self._timelines]
        chosen = made_of or combination(settings.lod, links)
        self.executor: Executor = chosen(hardware, job.execution_model(), job.roles(), Probes(observers))
        if isinstance(self.executor.communication, SelectedSteps):
            self.executor.communication.carried = carried
        self.executor.firsts_alike = alike
        if alone_until_s is not None:
            self.executor.alone_until_s = alone_until_s
        self.executor.each_pass = any(probe.each_pass for probe in probes)
        for hook in self.executor.probes.represented:
            for rank, ranks in self.executor.stands_for.items():
                hook(rank, ranks)
        watched = any(not probe.counts_only for probe in (*probes, *self._timelines))
        self._started_s = hardware.env.now
        self._busy_s = self._busy_seconds()
        watched = watched or (alone_until_s is not None and links is Links.LOADS)  # loads of links are not repeated
        self.ended: Event = job.start(self.executor, observed=watched)
        """Fires when it is done."""

    def whole_result(self) -> RunResult:
        """The result of the job with the metrics of its exclusive hardware."""
        platform = self.executor.platform
        assert isinstance(platform, Platform)
        traffic = platform.traffic() if self.job.config.simulation.collect_events else {}
        return replace(self.result(), **hardware_columns(platform), traffic=traffic)

    def result(self) -> RunResult:
        """The result of the job without metrics of the whole cluster."""
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
            assumptions=[*job.assumptions(), *expected_errors(subject_of(job, shared=self._shares), metrics)],
            defaults=defaults_of(job),
            warnings=[*map(str, job.warnings()), *executor.warnings(), *load_warnings(metrics)],
            simulated_s=seconds,
            world_size=job.layout.world_size,
            simulated_ranks=len(executor.ranks()),
            events=executor.env.events_scheduled,
        )

    def _figures(self, seconds: float) -> dict[str, Any]:
        """Metrics of the run, with cost and energy, and in training with goodput under failures."""
        measured, hardware, job = self._collector.metrics(), self._hardware_figures(seconds), self.job
        more: Mapping[str, Any]
        if isinstance(job, TrainingJob):
            measured = {**measured, **job.sizes(), **job.campaign(measured["steady_iteration_s"])}
            hardware["launch_s"] = self._launch_s(measured)
            more = economics_of_training(job, measured, hardware["gpu_utilization"])
        else:
            more = job.economics(measured, hardware["gpu_utilization"])
        return {**measured, **more, **hardware}

    def _busy_seconds(self) -> list[float]:
        """Busy time of each simulated GPU so far, the mean over the ranks that it represents."""
        return [self.executor.compute_speed.busy_s(rank) for rank in self.executor.ranks()]

    def _launch_s(self, metrics: Mapping[str, Any]) -> float:
        """Mean time of an iteration that the GPU of the observed rank waits for launches of its kernels."""
        assert isinstance(self._collector, TrainingMetrics)
        place = self.executor.ranks().index(self._collector.rank)
        busy_s = self.executor.platform.devices[self._collector.rank].busy_s - self._busy_s[place]
        launch_s = metrics["compute_s"] - busy_s / metrics["iterations"]
        return launch_s if launch_s > ROUNDING * metrics["compute_s"] else 0.0

    def _hardware_figures(self, seconds: float) -> dict[str, float]:
        """Busy share and peak memory of the GPUs that were simulated."""
        ranks = self.executor.ranks()
        like = [len(self.executor.stands_for[rank]) for rank in ranks]
        spans_s = zip(self._busy_seconds(), self._busy_s, like, strict=True)
        busy_s = ordered_sum((after_s - before_s) * many for after_s, before_s, many in spans_s)
        memories = [self.executor.platform.devices[rank].memory for rank in ranks]
        return {
            "gpu_utilization": busy_s / sum(like) / seconds if seconds else 0.0,
            "peak_memory_bytes": _fullest(self.executor).peak_bytes,
            "memory_capacity_bytes": max(memory.capacity_bytes for memory in memories),
        }


def defaults_of(job: Job) -> dict[str, dict[str, Any]]:
    """Defaults of the engine as data for JSON; empty in training."""
    return defaults_dict(job.settings) if isinstance(job, ServingJob) else {}


def hardware_columns(platform: Platform, traffic: Mapping[str, Sequence[Any]] | None = None) -> dict[str, Any]:
    """Metrics of the GPUs and links of a whole cluster.

    Args:
        platform: The cluster.
        traffic: Bytes by sender and receiver, if jobs count separately.
    """
    payload = platform.payload(traffic)
    return {"gpus": platform.gpu_statistics(payload), "links": platform.link_statistics(payload)}


def _fullest(executor: Executor) -> DeviceMemory:
    """Memory of the simulated GPU with the highest peak use."""
    return max(
        (executor.platform.devices[rank].memory for rank in executor.ranks()), key=lambda memory: memory.peak_bytes
    )


def warned(result: RunResult, text: str) -> RunResult:
    """A result with a further warning, if there is one."""
    return replace(result, warnings=[*result.warnings, text]) if text else result
