"""From traces and a cluster to a result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simsys.build.cluster import Cluster, build_cluster
from simsys.chakra.config import ReplayConfig
from simsys.chakra.reading import Workload, read_workload
from simsys.chakra.replayer import RankReplay, ReplayExecutor, replay_loop
from simsys.chakra.speed import durations
from simsys.chakra.tasks import GpuWork
from simsys.collectives.choose import named
from simsys.config.hardware import profile_digest, profiles_read
from simsys.errors import InfeasibleError
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.levels import LEVELS
from simsys.input_files import path_from
from simsys.job_run import hardware_columns
from simsys.metrics.collector import TrainingMetrics
from simsys.metrics.result import RunResult
from simsys.metrics.training import mean_times
from simsys.model.work import Precision
from simsys.probes import Probe, Probes
from simsys.sums import ordered_sum

LOD = "high"
"""Level of detail of every replay."""
KIND = "replay"
"""Kind of the results."""


class ReplayMetrics(TrainingMetrics):
    """Times of replays and their parts, on every rank.

    Args:
        num_ranks: Number of ranks.
        flop: FLOP that the traces state for one replay on all GPUs.
    """

    def __init__(self, num_ranks: int, flop: float) -> None:
        super().__init__(0, stages=dict.fromkeys(range(num_ranks), 0))
        self._flop, self._num_ranks = flop, num_ranks

    def metrics(self) -> Mapping[str, Any]:
        """Figures of the whole run."""
        times = mean_times(self.log, 0.0)
        rate = self._flop / self._num_ranks / times["mean_iteration_s"] if times["mean_iteration_s"] else 0.0
        return {**times, "recorded_flop_per_s_per_gpu": rate, "num_gpus": self._num_ranks}

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per replay."""
        return self.log.rows()


def read_traces(config: ReplayConfig) -> Workload:
    """Read the traces that a replay names; raises as `read_workload`."""
    given = config.chakra
    groups = None if given.groups is None else path_from(config.folder, given.groups)
    return read_workload(path_from(config.folder, given.traces), groups, ctrl_deps=given.dependencies == "all")


def replay(config: ReplayConfig, probes: Iterable[Probe] = (), workload: Workload | None = None) -> RunResult:
    """Replay the traces of a job on a cluster.

    Args:
        config: Cluster, traces, and times of computations.
        probes: Further observers.
        workload: The traces, if they have been read.

    Raises:
        ConfigError: If the cluster cannot be built, or durations cannot be scaled.
        TraceError: If the traces cannot be replayed.
        InfeasibleError: If they have more ranks than the cluster has GPUs.
    """
    started, started_cpu = time.perf_counter(), time.process_time()
    workload = workload or read_traces(config)
    count = len(workload.ranks)
    with profiles_read() as read:
        cluster = build_cluster(config.hardware, config.network, config.folder)
        if count > cluster.num_gpus:
            message = f"the traces have {count} ranks, the cluster has {cluster.num_gpus} GPUs"
            raise InfeasibleError(message, "hardware")
        result = _run(config, workload, cluster, list(probes))
    return replace(
        result,
        profiles={" ".join(each): profile_digest(layers) for each, layers in sorted(read.items())},
        wall_s=time.perf_counter() - started,
        cpu_s=time.process_time() - started_cpu,
    )


def _run(config: ReplayConfig, workload: Workload, cluster: Cluster, probes: Sequence[Probe]) -> RunResult:
    """Replay traces on the first GPUs of a cluster."""
    count, platform = len(workload.ranks), cluster.platform()
    pattern = config.chakra.communication_pattern or str(workload.metadata.get("communication_pattern", "auto"))
    model = ExecutionModel(named(pattern, cluster.tuning), Precision())
    metrics = ReplayMetrics(count, _flop(workload))
    roles = [(rank,) for rank in range(count)]
    executor = ReplayExecutor(LEVELS[LOD], platform, model, roles, Probes([metrics, *probes]))
    seconds = durations(config, workload, cluster)
    ranks = [RankReplay(executor, rank, tasks, seconds) for rank, tasks in enumerate(workload.ranks)]
    executor.env.process(replay_loop(executor, ranks, config.chakra.iterations))
    executor.env.run()
    executor.check_finished()
    executor.tell_all()
    busy_s = ordered_sum(executor.busy_seconds(range(count)))
    whole_s = metrics.end_s
    return RunResult(
        name=config.name,
        kind=KIND,
        lod=LOD,
        contention=executor.contention,
        metrics={**metrics.metrics(), "gpu_utilization": busy_s / count / whole_s if whole_s else 0.0},
        rows=metrics.rows(),
        ranks=metrics.ranks(),
        assumptions=_assumptions(config, workload, pattern, cluster),
        warnings=[*workload.warnings, *map(str, cluster.warnings), *executor.warnings()],
        simulated_s=whole_s,
        world_size=count,
        simulated_ranks=count,
        events=executor.env.events_scheduled,
        **hardware_columns(platform),
    )


def _flop(workload: Workload) -> float:
    works = (task.action for rank in workload.ranks for task in rank.tasks)
    return ordered_sum(work.flop for work in works if isinstance(work, GpuWork))


def _assumptions(config: ReplayConfig, workload: Workload, pattern: str, cluster: Cluster) -> list[str]:
    """What the figures rest on."""
    stated, scaled = workload.metadata, config.chakra.compute == "scaled"
    made = f", made by {stated['generator']}" if "generator" in stated else ""
    gpu = config.chakra.recorded_on or stated.get("gpu", "an unknown GPU")
    times = f"scaled from {gpu} by roofline times" if scaled else f"as recorded on {gpu}"
    return [
        f"Chakra traces {workload.prefix.name}: {workload.num_nodes:,} nodes of {len(workload.ranks):,} ranks{made}",
        f"times of computations: {times}; those of a rank run one after another",
        "copies from and to the host use its PCIe link; other work of the host lasts as recorded",
        f"collectives: {pattern}; those of a process group run one after another",
        "memory is not simulated",
        *cluster.assumptions,
    ]
