"""The MetricsCollector, a probe that records a run and computes its metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.metrics.iteration_log import HOST, IterationLog
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.training import busiest, mean_parts, training_metrics
from simsys.ops import Collective, Compute, HostWork, Operation, Recv
from simsys.parallel.layout import Group
from simsys.probes import Probe

if TYPE_CHECKING:
    pass


class MetricsCollector(Probe, ABC):
    """Base of the collectors of training and serving: `metrics` and `rows` when the run has ended."""

    indispensable = True

    @abstractmethod
    def metrics(self) -> Mapping[str, Any]:
        """Metrics by name."""

    @abstractmethod
    def rows(self) -> Mapping[str, Sequence[Any]]:
        """Columns of the table of iterations or requests."""

    def ranks(self) -> Mapping[str, Sequence[Any]]:
        """Columns of the table of observed ranks; none without pipeline stages."""
        return {}

    def over_time(self) -> Mapping[str, Any]:
        """Columns of the table of intervals of the run; none in training."""
        return {}

    @property
    def requests(self) -> ServingLog | None:
        """All that is known of the requests; None in training."""
        return None

    def replica_changes(self) -> Mapping[str, Sequence[Any]]:
        """Columns of the table of changes of the number of replicas; none if they stay."""
        return {}

    @property
    @abstractmethod
    def end_s(self) -> float:
        """When the last thing measured ended."""


class TrainingMetrics(MetricsCollector):
    """Times of iterations and their parts, on one rank of every role.

    Args:
        rank: The observed rank, without pipeline stages; ranks of one stage are alike.
        stages: The observed ranks and their pipeline stages; by default `rank` alone.
        samples: Numbers of consecutive iterations, each with the samples of one iteration; empty if all are equal.
        samples_per_iteration: Global batch size, or its mean.
        tokens_per_sample: Sequence length (1 for a CNN).
        model_flop_per_iteration: Model FLOP of one iteration on all GPUs together.
        hardware_flop_per_iteration: Model FLOP plus activation recomputation.
        executed_flop_per_iteration: FLOP executed by kernels.
        num_gpus: GPUs.
        peak_flop_per_s: Dense peak of one GPU in the compute dtype.
        checkpoint_bytes: Size of a checkpoint; 0 if none is taken.
    """

    def __init__(
        self,
        rank: int,
        *,
        stages: Mapping[int, int] | None = None,
        samples: Sequence[tuple[int, float]] = (),
        **facts: float,
    ) -> None:
        self.samples = samples
        self.facts = facts
        self._stages = stages or {rank: 0}
        pipelined = len(set(self._stages.values())) > 1
        self.logs = {each: IterationLog(pipelined=pipelined) for each in self._stages}
        self._members: dict[Group, list[IterationLog]] = {}
        self._peak_bytes = dict.fromkeys(self.logs, 0.0)

    @property
    def rank(self) -> int:
        """The rank whose stage works longest: the one that the others wait for."""
        leaders: dict[int, int] = {}
        for rank, stage in self._stages.items():
            leaders.setdefault(stage, rank)
        return busiest({rank: self.logs[rank] for rank in leaders.values()})

    @property
    def log(self) -> IterationLog:
        """The iterations of this rank."""
        return self.logs[self.rank]

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Record computation, messages and collectives of a rank; for collectives, the first member to join counts."""
        if isinstance(op, Collective):
            logs = self._members.get(op.group)
            if logs is None:
                logs = [self.logs[rank] for rank in op.group.ranks if rank in self.logs]
                self._members[op.group] = logs
            for log in logs:
                log.exchange(op.group.axis, started_s, ended_s)
        elif op.rank in self.logs:
            if isinstance(op, Compute):
                self.logs[op.rank].computation(op.name, started_s, ended_s)
            elif isinstance(op, HostWork):
                self.logs[op.rank].exchange(HOST, started_s, ended_s)
            else:
                self.logs[op.rank].message(started_s, ended_s)

    def waited(self, op: Recv, started_s: float, sent_s: float, ended_s: float) -> None:
        """Note that a rank waits for a message."""
        if op.rank in self.logs:
            self.logs[op.rank].waited(started_s, sent_s, ended_s)

    def memory(self, rank: int, in_use_bytes: float, now_s: float) -> None:
        """Note the most that a rank holds."""
        if in_use_bytes > self._peak_bytes.get(rank, in_use_bytes):
            self._peak_bytes[rank] = in_use_bytes

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """Begin and end iterations."""
        if rank in self.logs:
            self.logs[rank].mark(name, now_s)

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Iterations that need not be simulated."""
        if rank in self.logs:
            self.logs[rank].repeat(count, started_s, iteration_s, like)

    def cycles_left_out(self, rank: int, count: int, started_s: float, ended_s: float) -> None:
        """Equal micro-batches that need not be simulated."""
        if rank in self.logs:
            self.logs[rank].leave_out(count, started_s, ended_s)

    def metrics(self) -> Mapping[str, Any]:
        """Figures of the whole run."""
        return training_metrics(self.log, **self.facts)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per iteration."""
        rows = self.log.rows()
        sizes = self.samples or [(len(rows["iteration"]), self.facts["samples_per_iteration"])]
        return {**rows, "samples": [each for count, each in sizes for _ in range(count)]}

    def ranks(self) -> Mapping[str, Sequence[Any]]:
        """One row per observed rank, with the means of its iterations' parts and the most memory in use."""
        axes = {axis for log in self.logs.values() for axis in log.axes}
        rows = [mean_parts(log, axes) for log in self.logs.values()]
        return {
            "rank": list(self.logs),
            "stage": list(self._stages.values()),
            **{name: [row[name] for row in rows] for name in rows[0]},
            "peak_memory_bytes": list(self._peak_bytes.values()),
        }

    @property
    def end_s(self) -> float:
        """End of the last iteration."""
        return self.log.ended_s[-1]
