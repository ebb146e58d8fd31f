"""One run: a scenario in, a result out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from simsys.build.serving import ServingJob, build_serving
from simsys.build.training import TrainingJob, build_training
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS, Executor
from simsys.metrics.memory import MemoryTimeline
from simsys.metrics.result import RunResult
from simsys.platform.memory import DeviceMemory
from simsys.probes import Probe, Probes


def simulate(config: SimulationConfig, probes: Iterable[Probe] = ()) -> RunResult:
    """Simulate a scenario.

    Args:
        config: The scenario.
        probes: Further observers.

    Raises:
        SimsysError: If it cannot be built or cannot be carried out.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    result = simulate_job(build_job(config), probes)
    return replace(result, wall_s=time.perf_counter() - started, cpu_s=time.process_time() - started_cpu)


def simulate_job(job: TrainingJob | ServingJob, probes: Iterable[Probe] = ()) -> RunResult:
    """Simulate a scenario that is resolved already.

    Args:
        job: The scenario.
        probes: Further observers.

    Raises:
        SimsysError: If it cannot be carried out.
    """
    probes, config = list(probes), job.config
    started, started_cpu = time.perf_counter(), time.process_time()
    collector = job.collector()
    platform = job.cluster.platform()
    level = LEVELS[config.simulation.lod]
    timelines = [MemoryTimeline()] if config.simulation.collect_events else []
    probes = [*probes, *timelines]
    executor = level(platform, job.execution_model(), job.roles(), Probes([collector, *probes]))
    observers = [probe for probe in probes if not probe.counts_only]
    job.start(executor, observed=bool(observers))
    platform.env.run()
    executor.check_finished()
    return RunResult(
        name=config.name,
        kind=config.kind,
        lod=config.simulation.lod,
        contention=executor.contention,
        metrics=_metrics(job, collector.metrics(), executor, collector.end_s),
        rows=collector.rows(),
        memory_bytes=_fullest(executor).held_at_peak,
        ranks=collector.ranks(),
        memory_timeline=timelines[0].columns() if timelines else {},
        timeline=collector.over_time(),
        requests=collector.requests,
        gpus=platform.gpu_statistics(),
        links=platform.link_statistics(),
        traffic=platform.traffic() if config.simulation.collect_events else {},
        assumptions=job.assumptions(),
        simulated_s=collector.end_s,
        events=platform.env.events_scheduled,
        wall_s=time.perf_counter() - started,
        cpu_s=time.process_time() - started_cpu,
    )


def build_job(config: SimulationConfig) -> TrainingJob | ServingJob:
    """Resolve a scenario into what can be started.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    return build_training(config) if config.training is not None else build_serving(config)


def _metrics(
    job: TrainingJob | ServingJob, measured: Mapping[str, Any], executor: Executor, end_s: float
) -> dict[str, Any]:
    """All figures of a run, with what failures would leave of it, or what it costs."""
    hardware = _hardware_metrics(executor, end_s)
    if isinstance(job, TrainingJob):
        return {**measured, **job.campaign(measured["steady_iteration_s"]), **hardware}
    return {**measured, **job.economics(measured, hardware["gpu_utilization"]), **hardware}


def _fullest(executor: Executor) -> DeviceMemory:
    """The memory of the GPU, of those that were simulated, that held most."""
    return max(
        (executor.platform.devices[rank].memory for rank in executor.ranks()), key=lambda memory: memory.peak_bytes
    )


def _hardware_metrics(executor: Executor, end_s: float) -> dict[str, float]:
    """Busy share and peak memory of the GPUs that were simulated."""
    devices = [executor.platform.devices[rank] for rank in executor.ranks()]
    return {
        "gpu_utilization": sum(device.busy_s for device in devices) / len(devices) / end_s if end_s else 0.0,
        "peak_memory_bytes": _fullest(executor).peak_bytes,
        "memory_capacity_bytes": max(device.memory.capacity_bytes for device in devices),
    }
