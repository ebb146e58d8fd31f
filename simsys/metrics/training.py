"""Figures of a training run, from its iterations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Span = tuple[float, float]
"""Start and end of an operation, in seconds."""


@dataclass
class IterationLog:
    """Start, end and parts of every iteration of one rank, in seconds.

    Args:
        started_s: When each iteration began.
        ended_s: When it ended.
        compute: What the rank computed in it, the optimizer included.
        optimizer: The optimizer's part of that.
        communication: What collectives of the rank's groups and messages that it sent took.
        exposed: The time in which a collective ran while the rank did not compute.
        data: How long the rank waited for its batches.
        checkpoint: How long it stopped for a checkpoint.
    """

    started_s: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    optimizer: list[float] = field(default_factory=list)
    communication: list[float] = field(default_factory=list)
    exposed: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    checkpoint: list[float] = field(default_factory=list)
    _computations: list[Span] = field(default_factory=list)
    _exchanges: list[Span] = field(default_factory=list)
    _optimizer_s: float = 0.0
    _messages_s: float = 0.0
    _loaded_s: float = 0.0
    _stopped_s: float | None = None

    def computation(self, name: str, started_s: float, ended_s: float) -> None:
        """The rank computes."""
        self._computations.append((started_s, ended_s))
        if name == "optimizer":
            self._optimizer_s += ended_s - started_s

    def exchange(self, started_s: float, ended_s: float) -> None:
        """A collective of one of the rank's groups."""
        self._exchanges.append((started_s, ended_s))

    def message(self, started_s: float, ended_s: float) -> None:
        """A message that the rank sends; what waits for one, waits for another stage and counts as idle."""
        self._messages_s += ended_s - started_s

    def mark(self, name: str, now_s: float) -> None:
        """Begin an iteration, or end it and book what it consisted of."""
        if name == "iteration_start":
            self.started_s.append(now_s)
            self._loaded_s, self._stopped_s = now_s, None
        elif name == "data_loaded":
            self._loaded_s = now_s
            return
        elif name == "checkpoint":
            self._stopped_s = now_s
            return
        elif name == "iteration_end":
            self.data.append(self._loaded_s - self.started_s[-1])
            self.checkpoint.append(0.0 if self._stopped_s is None else now_s - self._stopped_s)
            self.ended_s.append(now_s)
            self.compute.append(_total(self._computations))
            self.optimizer.append(self._optimizer_s)
            self.communication.append(_total(self._exchanges) + self._messages_s)
            self.exposed.append(exposed_seconds(self._exchanges, self._computations))
        else:
            return
        self._computations, self._exchanges = [], []
        self._optimizer_s = self._messages_s = 0.0

    def repeat(self, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Book `count` iterations that are like the one with the number `like`."""
        self.started_s += [started_s + index * iteration_s for index in range(count)]
        self.ended_s += [started_s + (index + 1) * iteration_s for index in range(count)]
        for column in (
            self.compute, self.optimizer, self.communication, self.exposed, self.data, self.checkpoint
        ):  # fmt: skip
            column += [column[like]] * count

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per iteration, the sum of computation, exposed communication, data, checkpoint and idle time."""
        durations = [end - start for start, end in zip(self.started_s, self.ended_s, strict=True)]
        parts = zip(durations, self.compute, self.exposed, self.data, self.checkpoint, strict=True)
        return {
            "iteration": list(range(len(durations))),
            "started_s": self.started_s,
            "iteration_s": durations,
            "compute_s": self.compute,
            "optimizer_s": self.optimizer,
            "communication_s": self.communication,
            "exposed_communication_s": self.exposed,
            "data_s": self.data,
            "checkpoint_s": self.checkpoint,
            "idle_s": [_rest(total, sum(rest)) for total, *rest in parts],
        }


def exposed_seconds(exchanges: Iterable[Span], computations: Iterable[Span]) -> float:
    """How long at least one of `exchanges` and none of `computations` runs.

    Example:
        >>> exposed_seconds([(0, 4), (3, 6)], [(1, 2), (5, 9)])
        4.0
    """
    hiding = _merged(computations)
    exposed_s, first = 0.0, 0
    for start_s, end_s in _merged(exchanges):
        while first < len(hiding) and hiding[first][1] <= start_s:
            first += 1
        exposed_s += end_s - start_s
        index = first
        while index < len(hiding) and hiding[index][0] < end_s:
            exposed_s -= min(end_s, hiding[index][1]) - max(start_s, hiding[index][0])
            index += 1
    return max(0.0, exposed_s)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans that are apart, in order."""
    merged: list[Span] = []
    for start_s, end_s in sorted(spans):
        if merged and start_s <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end_s)
        else:
            merged.append((start_s, end_s))
    return merged


def _rest(whole_s: float, parts_s: float) -> float:
    """What the parts leave of the whole; 0 if that is no more than rounding."""
    rest_s = whole_s - parts_s
    return rest_s if rest_s > 1e-12 * whole_s else 0.0


def _total(spans: Iterable[Span]) -> float:
    return sum(end_s - start_s for start_s, end_s in spans)


def training_metrics(
    log: IterationLog,
    *,
    samples_per_iteration: float,
    tokens_per_sample: float,
    model_flop_per_iteration: float,
    hardware_flop_per_iteration: float,
    num_gpus: float,
    peak_flop_per_s: float,
    checkpoint_bytes: float = 0.0,
) -> dict[str, Any]:
    """Figures of a run; samples and FLOP are means over its iterations, if these differ.

    MFU is the model's FLOP over what the GPUs could have done at their dense peak in that time (Chowdhery et
    al. 2022, appendix B; Megatron's convention too): every query-key pair of attention, masked or not, and nothing
    that is computed again. HFU takes the FLOP that the GPUs carry out instead: with recomputation (Korthikanti et
    al. 2022, §6.3) and without the pairs that a fused kernel skips, so that it may be the smaller of the two.

    Times are those of the observed rank: computation (with the optimizer), communication that it does not hide,
    waiting for data, checkpoints, and idle time, in which it waits for other stages or ranks, add up to the iteration.
    The communication ratio is the exposed share.
    """
    rows = log.rows()
    durations = rows["iteration_s"]
    count = len(durations)
    mean_s = sum(durations) / count
    exposed_s = sum(log.exposed) / count
    model_flop_per_s = model_flop_per_iteration / num_gpus / mean_s
    hardware_flop_per_s = hardware_flop_per_iteration / num_gpus / mean_s
    return {
        "iterations": count,
        "mean_iteration_s": mean_s,
        "first_iteration_s": durations[0],
        "last_iteration_s": durations[-1],
        "compute_s": sum(log.compute) / count,
        "optimizer_s": sum(log.optimizer) / count,
        "communication_s": sum(log.communication) / count,
        "exposed_communication_s": exposed_s,
        "communication_ratio": exposed_s / mean_s,
        "data_s": sum(log.data) / count,
        "checkpoint_s": sum(log.checkpoint) / count,
        "checkpoint_bytes": checkpoint_bytes,
        "idle_s": sum(rows["idle_s"]) / count,
        "samples_per_s": samples_per_iteration / mean_s,
        "tokens_per_s": samples_per_iteration * tokens_per_sample / mean_s,
        "tokens_per_s_per_gpu": samples_per_iteration * tokens_per_sample / mean_s / num_gpus,
        "model_flop_per_s_per_gpu": model_flop_per_s,
        "mfu": model_flop_per_s / peak_flop_per_s,
        "hardware_flop_per_s_per_gpu": hardware_flop_per_s,
        "hfu": hardware_flop_per_s / peak_flop_per_s,
        "num_gpus": int(num_gpus),
    }
