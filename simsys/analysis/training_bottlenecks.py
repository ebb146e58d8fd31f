"""Bottlenecks of training: busy GPUs, full memory and exposed communication."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.analysis.bottleneck import (
    COMMUNICATION_BOUND,
    COMMUNICATION_HIGH,
    COMPUTE_BUSY,
    MEMORY_RISK,
    MEMORY_WARNING,
    Bottleneck,
    factor,
    percent,
    time,
)
from simsys.metrics.result import RunResult
from simsys.sums import ordered_sum
from simsys.units import pretty_memory

FREED = 0.01
"""Share of the memory above which states that other ranks hold too are said."""


def training_bottlenecks(result: RunResult) -> Iterator[Bottleneck]:
    """Those of one job that trains."""
    metrics = result.metrics
    if metrics["gpu_utilization"] > COMPUTE_BUSY:
        yield _compute(result)
    if metrics["peak_memory_bytes"] > MEMORY_WARNING * metrics["memory_capacity_bytes"]:
        yield _memory(result)
    if metrics["exposed_communication_ratio"] > COMMUNICATION_HIGH:
        yield _network(result)


def _compute(result: RunResult) -> Bottleneck:
    metrics = result.metrics
    busy, whole_s = metrics["gpu_utilization"], metrics["mean_iteration_s"]
    attained = metrics["attained_peak_share"] / busy
    faster_s = whole_s - metrics["compute_s"] / 2  # or longer, if less communication is hidden
    return Bottleneck(
        "compute",
        min(1.0, busy),
        f"the GPUs compute {percent(busy)} of the time",
        (
            f"{time(metrics['compute_s'])} of {time(whole_s)} are computation; GPUs twice as fast would give at "
            f"best {time(faster_s)} per iteration ({factor(whole_s, faster_s)})",
            f"during computation, GPUs reach {percent(attained)} of their dense peak; a larger batch per GPU, "
            "fused kernels or a smaller precision raise this share or the peak",
            f"more GPUs: exposed communication, which grows with their number, is only "
            f"{percent(metrics['exposed_communication_ratio'])} of an iteration now",
        ),
    )


def _memory(result: RunResult) -> Bottleneck:
    metrics, parts = result.metrics, result.memory_bytes
    capacity, peak = metrics["memory_capacity_bytes"], metrics["peak_memory_bytes"]
    share = peak / capacity
    risk = ", which leaves hardly any room for fragmentation: risk of running out" if share > MEMORY_RISK else ""
    remedies = []
    by_batch = ordered_sum(parts.get(name, 0.0) for name in ("activations", "recomputed", "logits", "fragmentation"))
    if by_batch and metrics["batch_size_per_gpu"] > 1:
        remedies.append(
            f"activations and logits take {pretty_memory(by_batch)}; half the batch per GPU with twice the gradient "
            f"accumulation would lower the peak to {percent((peak - by_batch / 2) / capacity)}"
        )
    if by_batch and not parts.get("recomputed"):
        remedies.append(
            "computing activations again in the backward pass would free most of "
            f"{pretty_memory(parts['activations'])} for one more forward pass, about a third more "
            "computation (Chen et al. 2016)"
        )
    states = ordered_sum(parts.get(name, 0.0) for name in ("parameters", "gradients", "optimizer"))
    freed = metrics["replicated_states_bytes"]
    if freed > FREED * capacity:
        remedies.append(
            f"parameters, gradients and optimizer states take {pretty_memory(states)}; sharded over all data-parallel "
            f"ranks (ZeRO-3) they would free {pretty_memory(freed)} and lower the peak to "
            f"{percent((peak - freed) / capacity)}"
        )
    if not remedies:
        remedies.append("more tensor, context or pipeline parallelism divides what a GPU holds")
    evidence = f"{pretty_memory(peak)} of {pretty_memory(capacity)} are in use at the peak ({percent(share)}){risk}"
    return Bottleneck("memory", min(1.0, share), evidence, tuple(remedies))


def _network(result: RunResult) -> Bottleneck:
    metrics = result.metrics
    whole_s, exposed_s = metrics["mean_iteration_s"], metrics["exposed_communication_s"]
    compute_s, share = whole_s - exposed_s, metrics["exposed_communication_ratio"]
    halved_s = max(compute_s, whole_s - metrics["communication_s"] / 2)
    four_s = 4 * compute_s + exposed_s  # counts the optimizer four times, hence at most
    bound = ": the run is bound by communication" if share > COMMUNICATION_BOUND else ""
    remedies = (
        f"communication is {percent(share)} of an iteration; if fully overlapped, an iteration would be "
        f"{time(compute_s)}: {factor(whole_s, compute_s)}",
        f"half the bytes (16-bit or compressed gradients) or links twice as fast would give at best {time(halved_s)} "
        f"per iteration: {factor(whole_s, halved_s)}",
        f"for gradients: an all-reduce after every fourth micro-batch only (gradient_accumulation_steps: 4) would "
        f"need at most {time(four_s)} for four times the samples: at least "
        f"{factor(4 * whole_s, four_s)} the throughput",
    )
    return Bottleneck(
        "network",
        min(1.0, share),
        f"{time(exposed_s)} of {time(whole_s)} per iteration are exposed communication ({percent(share)}){bound}"
        f"{_mostly(result)}",
        remedies,
    )


def _mostly(result: RunResult) -> str:
    """The axis with most of the exposed communication, if there are several."""
    exposed = {axis: seconds for axis, seconds in result.exposed_s.items() if seconds}
    if len(exposed) < 2:
        return ""
    axis = max(exposed, key=exposed.__getitem__)
    return f"; {percent(exposed[axis] / ordered_sum(exposed.values()))} of it along the {axis} axis"
