"""Figures of a training run, from its iterations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median
from typing import Any

from simsys.metrics.iteration_log import COMMUNICATION, MESSAGES, IterationLog
from simsys.sums import ordered_sum

EQUAL_WORK = 1e-9
"""Difference of the work of two stages, as a share, up to which it is equal."""


def training_metrics(
    log: IterationLog,
    *,
    samples_per_iteration: float,
    tokens_per_sample: float,
    model_flop_per_iteration: float,
    hardware_flop_per_iteration: float,
    executed_flop_per_iteration: float,
    num_gpus: float,
    peak_flop_per_s: float,
    checkpoint_bytes: float = 0.0,
) -> dict[str, Any]:
    """Metrics of a run; samples and FLOP are means over its iterations, if these differ.

    MFU (model FLOPs utilization) is the model's FLOP over the FLOP of the GPUs at their dense peak in that time. FLOP
    count as in PaLM (Chowdhery et al. 2022, appendix B; also Megatron-LM): every query-key pair of attention, masked
    or not, and no recomputation. HFU (hardware FLOPs utilization, ibid.) adds the FLOP of activation recomputation
    (Korthikanti et al. 2022, §6.3), counted in the same way, so it is never below MFU. Fused kernels skip masked pairs
    and execute fewer FLOP: ``attained_peak_share`` is the executed FLOP over the same peak.

    Times are for a rank of the busiest pipeline stage. Computation (with the optimizer), exposed communication,
    bubble, waiting for data, checkpoints, and idle time add up to the iteration; `IterationLog` defines them.
    ``communication_ratio`` is T_comm / (T_comm + T_comp), including overlapped communication;
    ``exposed_communication_ratio`` is the exposed share of an iteration, and ``exposed_<axis>_s`` its part for the
    groups along an axis, for each axis of the rank's communication. The steady iteration is the median of all
    but the first, without checkpoints.
    """
    figures = mean_times(log, checkpoint_bytes)
    mean_s = figures["mean_iteration_s"]
    model_flop_per_s = model_flop_per_iteration / num_gpus / mean_s
    hardware_flop_per_s = hardware_flop_per_iteration / num_gpus / mean_s
    return {
        **figures,
        "samples_per_s": samples_per_iteration / mean_s,
        "tokens_per_s": samples_per_iteration * tokens_per_sample / mean_s,
        "tokens_per_s_per_gpu": samples_per_iteration * tokens_per_sample / mean_s / num_gpus,
        "model_flop_per_s_per_gpu": model_flop_per_s,
        "mfu": model_flop_per_s / peak_flop_per_s,
        "hardware_flop_per_s_per_gpu": hardware_flop_per_s,
        "hfu": hardware_flop_per_s / peak_flop_per_s,
        "attained_peak_share": executed_flop_per_iteration / num_gpus / mean_s / peak_flop_per_s,
        "num_gpus": int(num_gpus),
    }


def mean_times(log: IterationLog, checkpoint_bytes: float) -> dict[str, Any]:
    """Number and times of iterations, and the parts of their mean, in the order of a result."""
    rows = log.rows()
    durations = rows["iteration_s"]
    worked = [whole - stop for whole, stop in zip(durations, log.checkpoint, strict=True)]
    count = len(durations)
    mean_s = ordered_sum(durations) / count
    exposed_s = ordered_sum(rows["exposed_communication_s"]) / count
    compute_s, communication_s = ordered_sum(log.compute) / count, ordered_sum(log.communication) / count
    busy_s = communication_s + compute_s
    return {
        "iterations": count,
        "mean_iteration_s": mean_s,
        "first_iteration_s": durations[0],
        "last_iteration_s": durations[-1],
        "steady_iteration_s": median(worked[1:] or worked),
        "compute_s": compute_s,
        "optimizer_s": ordered_sum(log.optimizer) / count,
        "communication_s": communication_s,
        "exposed_communication_s": exposed_s,
        "communication_ratio": communication_s / busy_s if busy_s else 0.0,
        "exposed_communication_ratio": exposed_s / mean_s if mean_s else 0.0,
        **exposed_by_axis(log, log.axes),
        "bubble_s": ordered_sum(log.bubble) / count,
        "data_s": ordered_sum(log.data) / count,
        "checkpoint_s": ordered_sum(log.checkpoint) / count,
        "checkpoint_bytes": checkpoint_bytes,
        "idle_s": ordered_sum(rows["idle_s"]) / count,
    }


def busiest(logs: Mapping[int, IterationLog]) -> int:
    """The rank whose pipeline stage has the longest work; of equal ones, the first.

    The computation and the collectives of this stage decide how long an iteration is. Other stages wait for it, and
    that may be most of their time, as in a stage of dense layers beside stages of experts.

    Args:
        logs: The iterations of one rank of each stage.
    """
    work_s = {
        rank: ordered_sum(log.compute) + ordered_sum(map(_in_collectives_s, log.exposed)) for rank, log in logs.items()
    }
    least_s = max(work_s.values()) * (1.0 - EQUAL_WORK)
    return next(rank for rank, seconds in work_s.items() if seconds >= least_s)


def _in_collectives_s(exposed: Mapping[str, float]) -> float:
    """Exposed communication of an iteration other than messages between stages."""
    return ordered_sum(seconds for axis, seconds in exposed.items() if axis != MESSAGES)


def exposed_by_axis(log: IterationLog, axes: Collection[str]) -> dict[str, float]:
    """The mean exposed communication along each of `axes`."""
    return {f"exposed_{axis}_s": log.exposed_along(axis) for axis in COMMUNICATION if axis in axes}


def mean_parts(log: IterationLog, axes: Collection[str]) -> dict[str, float]:
    """Time of a rank's iterations by activity: means in seconds that add up.

    ``optimizer_s`` is part of the computation.

    Args:
        log: The iterations.
        axes: Axes of communication.
    """
    rows = log.rows()
    means = {name: ordered_sum(values) / len(values) for name, values in rows.items()}
    first, rest = ("compute_s", "optimizer_s"), ("bubble_s", "idle_s", "data_s", "checkpoint_s")
    return {
        **{name: means[name] for name in first},
        **exposed_by_axis(log, axes),
        **{name: means[name] for name in rest},
    }
