"""The MetricsCollector: a probe that hears a run and computes its figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from simsys.metrics.serving import ServingLog, serving_metrics
from simsys.metrics.training import IterationLog, training_metrics
from simsys.ops import Collective, Compute, Operation
from simsys.parallel.layout import Group
from simsys.probes import Probe
from simsys.serving.requests import RequestTable


class MetricsCollector(Probe, ABC):
    """Base of the collectors of training and serving: `metrics` and `rows` when the run has ended."""

    @abstractmethod
    def metrics(self) -> Mapping[str, Any]:
        """Figures by name."""

    @abstractmethod
    def rows(self) -> Mapping[str, Sequence[Any]]:
        """Columns of the table of iterations or requests."""

    @property
    @abstractmethod
    def end_s(self) -> float:
        """When the last thing measured ended."""


class TrainingMetrics(MetricsCollector):
    """Times of iterations and their parts, on one observed rank.

    Args:
        rank: The rank; ranks of one role are alike.
        samples: Numbers of iterations that follow one another, each with the samples of one of them; if empty,
            all have the same.
        samples_per_iteration: Global batch size, its mean if it changes.
        tokens_per_sample: Sequence length (1 for a CNN).
        model_flop_per_iteration: Model FLOP of one iteration on all GPUs together.
        hardware_flop_per_iteration: FLOP that the GPUs carry out in it.
        num_gpus: GPUs.
        peak_flop_per_s: Dense peak of one GPU in the compute dtype.
        checkpoint_bytes: Size of a checkpoint; 0 if none is taken.
    """

    def __init__(self, rank: int, *, samples: Sequence[tuple[int, float]] = (), **facts: float) -> None:
        self.rank = rank
        self.samples = samples
        self.facts = facts
        self.log = IterationLog()
        self._takes_part: dict[Group, bool] = {}

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Note what the rank computes, sends, and exchanges within its groups, whichever member joins first."""
        if isinstance(op, Collective):
            takes_part = self._takes_part.get(op.group)
            if takes_part is None:
                takes_part = self._takes_part[op.group] = self.rank in op.group.ranks
            if takes_part:
                self.log.exchange(started_s, ended_s)
        elif op.rank == self.rank:
            if isinstance(op, Compute):
                self.log.computation(op.name, started_s, ended_s)
            else:
                self.log.message(started_s, ended_s)

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """Begin and end iterations."""
        if rank == self.rank:
            self.log.mark(name, now_s)

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Iterations that need not be simulated."""
        if rank == self.rank:
            self.log.repeat(count, started_s, iteration_s, like)

    def metrics(self) -> Mapping[str, Any]:
        """Figures of the whole run."""
        return training_metrics(self.log, **self.facts)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per iteration."""
        rows = self.log.rows()
        sizes = self.samples or [(len(rows["iteration"]), self.facts["samples_per_iteration"])]
        return {**rows, "samples": [each for count, each in sizes for _ in range(count)]}

    @property
    def end_s(self) -> float:
        """End of the last iteration."""
        return self.log.ended_s[-1]


class ServingMetrics(MetricsCollector):
    """Times of every request, in columns allocated beforehand.

    Args:
        requests: All requests of the run.
        slo: Targets in seconds for ``ttft``, ``tpot`` and ``e2el``; missing ones are not demanded.
    """

    def __init__(self, requests: RequestTable, slo: Mapping[str, float]) -> None:
        self.log = ServingLog(requests)
        self.slo = slo

    def request_admitted(self, request: int, now_s: float) -> None:
        """First time a request is scheduled."""
        if self.log.admitted_s[request] < 0.0:
            self.log.admitted_s[request] = now_s

    def request_first_token(self, request: int, now_s: float) -> None:
        """First output token."""
        self.log.first_token_s[request] = now_s

    def request_finished(self, request: int, now_s: float) -> None:
        """Last output token."""
        self.log.finished_s[request] = now_s

    def request_preempted(self, request: int, now_s: float) -> None:
        """One preemption more."""
        self.log.preemptions[request] += 1

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """Never served."""
        self.log.rejected[request] = reason

    def step(self, started_s: float, ended_s: float, decode_tokens: int, prompt_tokens: int) -> None:
        """Each decoding sequence has waited this long for its token."""
        self.log.step_s.append(ended_s - started_s)
        self.log.step_decode_tokens.append(decode_tokens)
        self.log.step_prompt_tokens.append(prompt_tokens)

    def metrics(self) -> Mapping[str, Any]:
        """Figures of the whole run."""
        return serving_metrics(self.log, self.slo)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per request."""
        return self.log.rows()

    @property
    def end_s(self) -> float:
        """End of the last request."""
        return max(self.log.finished_s, default=0.0)
