"""Bottlenecks of a run: rules over its metrics.

Every rule compares one share with a threshold and, where possible, estimates the gain of a remedy. Gains are bounds
from the metrics of this run; run the changed scenario to be sure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from simsys.metrics.result import RunResult
from simsys.metrics.saturation import backlog
from simsys.metrics.serving_log import CANCELLED, REJECTED
from simsys.sums import ordered_sum
from simsys.units import Dimension, pretty, pretty_memory

Kind = Literal["compute", "memory", "network", "queueing"] | str
"""A resource, or the name of an analysis of the user's own."""

MOST_TIMES = 1e6
"""Larger gains are reported as more than this number of times."""
COMPUTE_BUSY = 0.8
"""Busy share of the GPUs above which a run is compute-bound; the first design document's threshold."""
MEMORY_WARNING, MEMORY_RISK = 0.7, 0.9
"""Shares of device memory:

above the first it is nearly full, above the second fragmentation may make a run fail; the first design document's
thresholds.
"""
COMMUNICATION_HIGH, COMMUNICATION_BOUND = 0.3, 0.5
"""Share of an iteration that is exposed communication: above the first it is a bottleneck, above the second it
outweighs computation; the first design document's thresholds."""
PREEMPTED = 0.0
"""Share of requests that lose their KV cache. Any counts, since a preempted sequence is recomputed completely; vLLM's
documentation ("Optimization and tuning", section "Preemption") has the same advice."""
WAITING = 0.5
"""Share of TTFT spent waiting to be scheduled, above which the queue weighs more than the prefill: by definition."""


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck of a run.

    Args:
        kind: The resource.
        severity: The share that was compared with the threshold, 0 to 1.
        evidence: The figures, for people.
        recommendations: Remedies with their gain, where known.
    """

    kind: Kind
    severity: float
    evidence: str
    recommendations: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The bottleneck as data for JSON."""
        return asdict(self)


def find_bottlenecks(result: RunResult) -> list[Bottleneck]:
    """The bottlenecks of a run or its jobs, the most severe first; empty if no threshold is passed."""
    if result.kind == "jobs":
        found = [
            replace(one, evidence=f"{job.name}: {one.evidence}")
            for job in result.jobs
            for one in find_bottlenecks(job)
        ]
    else:
        found = list((_training if result.kind == "training" else _serving)(result))
    found += [
        Bottleneck(name, each.severity, each.evidence, each.recommendations)
        for name, seen in result.observations.items()
        for each in seen
    ]
    return sorted(found, key=lambda one: -one.severity)


# --- training -----------------------------------------------------------------------------------------------------


def _training(result: RunResult) -> Iterator[Bottleneck]:
    metrics = result.metrics
    if metrics["gpu_utilization"] > COMPUTE_BUSY:
        yield _training_compute(result)
    if metrics["peak_memory_bytes"] > MEMORY_WARNING * metrics["memory_capacity_bytes"]:
        yield _training_memory(result)
    if metrics["exposed_communication_ratio"] > COMMUNICATION_HIGH:
        yield _training_network(result)


def _training_compute(result: RunResult) -> Bottleneck:
    metrics = result.metrics
    busy, whole_s = metrics["gpu_utilization"], metrics["mean_iteration_s"]
    attained = metrics["attained_peak_share"] / busy
    faster_s = whole_s - metrics["compute_s"] / 2  # or longer, if less communication is hidden
    return Bottleneck(
        "compute",
        min(1.0, busy),
        f"the GPUs compute {_percent(busy)} of the time",
        (
            f"{_time(metrics['compute_s'])} of {_time(whole_s)} are computation; GPUs twice as fast would give at "
            f"best {_time(faster_s)} per iteration ({_factor(whole_s, faster_s)})",
            f"during computation, GPUs reach {_percent(attained)} of their dense peak; a larger batch per GPU, "
            "fused kernels or a smaller precision raise this share or the peak",
            f"more GPUs: exposed communication, which grows with their number, is only "
            f"{_percent(metrics['exposed_communication_ratio'])} of an iteration now",
        ),
    )


def _training_memory(result: RunResult) -> Bottleneck:
    metrics, parts = result.metrics, result.memory_bytes
    capacity, peak = metrics["memory_capacity_bytes"], metrics["peak_memory_bytes"]
    share = peak / capacity
    risk = ", which leaves hardly any room for fragmentation: risk of running out" if share > MEMORY_RISK else ""
    remedies = []
    by_batch = ordered_sum(parts.get(name, 0.0) for name in ("activations", "recomputed", "logits", "fragmentation"))
    if by_batch:
        remedies.append(
            f"activations and logits take {pretty_memory(by_batch)}; half the batch per GPU with twice the gradient "
            f"accumulation would lower the peak to {_percent((peak - by_batch / 2) / capacity)}"
        )
        remedies.append(
            "computing activations again in the backward pass would free most of "
            f"{pretty_memory(parts['activations'])} for one more forward pass, about a third more "
            "computation (Chen et al. 2016)"
        )
    states = ordered_sum(parts.get(name, 0.0) for name in ("parameters", "gradients", "optimizer"))
    gpus = metrics["num_gpus"]
    if states and gpus > 1:
        freed = states * (1 - 1 / gpus)
        remedies.append(
            f"parameters, gradients and optimizer states take {pretty_memory(states)}; sharded over all {gpus} GPUs "
            f"(ZeRO-3) they would free {pretty_memory(freed)} and lower the peak to "
            f"{_percent((peak - freed) / capacity)}"
        )
    evidence = f"{pretty_memory(peak)} of {pretty_memory(capacity)} are in use at the peak ({_percent(share)}){risk}"
    return Bottleneck("memory", min(1.0, share), evidence, tuple(remedies))


def _training_network(result: RunResult) -> Bottleneck:
    metrics = result.metrics
    whole_s, exposed_s = metrics["mean_iteration_s"], metrics["exposed_communication_s"]
    compute_s, share = whole_s - exposed_s, metrics["exposed_communication_ratio"]
    halved_s = max(compute_s, whole_s - metrics["communication_s"] / 2)
    four_s = 4 * compute_s + exposed_s  # counts the optimizer four times, hence at most
    bound = ": the run is bound by communication" if share > COMMUNICATION_BOUND else ""
    remedies = (
        f"communication is {_percent(share)} of an iteration; if fully overlapped, an iteration would be "
        f"{_time(compute_s)}: {_factor(whole_s, compute_s)}",
        f"half the bytes (16-bit or compressed gradients) or links twice as fast would give at best {_time(halved_s)} "
        f"per iteration: {_factor(whole_s, halved_s)}",
        f"for gradients: an all-reduce after every fourth micro-batch only (gradient_accumulation_steps: 4) would "
        f"need at most {_time(four_s)} for four times the samples: at least "
        f"{_factor(4 * whole_s, four_s)} the throughput",
    )
    return Bottleneck(
        "network",
        min(1.0, share),
        f"{_time(exposed_s)} of {_time(whole_s)} per iteration are exposed communication ({_percent(share)}){bound}"
        f"{_mostly(result)}",
        remedies,
    )


def _mostly(result: RunResult) -> str:
    """The axis with most of the exposed communication, if there are several."""
    exposed = {axis: seconds for axis, seconds in result.exposed_s.items() if seconds}
    if len(exposed) < 2:
        return ""
    axis = max(exposed, key=exposed.__getitem__)
    return f"; {_percent(exposed[axis] / ordered_sum(exposed.values()))} of it along the {axis} axis"


# --- serving ------------------------------------------------------------------------------------------------------


def _serving(result: RunResult) -> Iterator[Bottleneck]:
    queueing = _given_up(result) or _backlog(result) or _waiting(result)
    if queueing is not None:
        yield queueing
    if queueing is not None and result.metrics["gpu_utilization"] > COMPUTE_BUSY:
        # A GPU that decodes a single sequence is busy too, so busy GPUs alone are no bottleneck.
        yield _serving_compute(result)
    preempted = sum(count > 0 for count in result.rows["preemptions"])
    if preempted and preempted / len(result.rows["preemptions"]) > PREEMPTED:
        yield _serving_memory(result, preempted)


def _serving_compute(result: RunResult) -> Bottleneck:
    metrics = result.metrics
    busy = metrics["gpu_utilization"]
    per_step = metrics["total_output_tokens"] / metrics["steps"]
    return Bottleneck(
        "compute",
        min(1.0, busy),
        f"the GPUs compute {_percent(busy)} of the time while requests wait",
        (
            f"a step makes {per_step:.3g} output tokens on average; while reading the weights limits its time, "
            "larger batches (max_num_seqs, max_num_batched_tokens) cost little more",
            "a smaller precision of weights and KV cache shortens steps and leaves room for larger batches",
            f"the replicas complete {metrics['request_throughput']:.3g} req/s; more replicas share the load",
        ),
    )


def _serving_memory(result: RunResult, preempted: int) -> Bottleneck:
    count, cache = len(result.rows["preemptions"]), result.memory_bytes.get("kv_cache", 0.0)
    return Bottleneck(
        "memory",
        preempted / count,
        f"{preempted:,} of {count:,} requests lost their KV cache and were recomputed "
        f"({result.metrics['preemptions']:,} preemptions); the cache holds {pretty_memory(cache)} per GPU",
        (
            f"an 8-bit KV cache (kv_precision: fp8) holds twice the tokens in the same {pretty_memory(cache)}",
            "a higher gpu_memory_utilization or tp_degree leaves more memory for the cache",
            "a lower max_num_seqs admits fewer sequences at once, so that those admitted can finish",
        ),
    )


def _given_up(result: RunResult) -> Bottleneck | None:
    """Clients give up while requests wait for longer than they run."""
    metrics = result.metrics
    if not metrics.get("cancelled") or metrics.get("mean_waiting", 0.0) <= metrics.get("mean_running", 0.0):
        return None
    lost, done = metrics["wasted_tokens"], metrics["total_input_tokens"] + metrics["total_output_tokens"]
    return Bottleneck(
        "queueing",
        metrics["cancelled_share"],
        f"clients give up {_percent(metrics['cancelled_share'])} of the requests, while {metrics['mean_waiting']:.3g} "
        f"wait on average; {_percent(lost / max(1, lost + done))} of the computed tokens are wasted",
        ("more replicas, fewer requests, or retries with a longer backoff (workload.cancellation.retry)",),
    )


def _backlog(result: RunResult) -> Bottleneck | None:
    """Requests arrive faster than they are scheduled, judged over the later half, when batches are full."""
    import numpy as np

    arrival_s, admitted_s = (np.asarray(result.rows[name], dtype=float) for name in ("arrival_s", "admitted_s"))
    kept = ~np.isnan(arrival_s)  # the others were not sent before the end of the run
    if result.metrics["failed"]:
        kept &= np.array([state not in (REJECTED, CANCELLED) for state in result.rows["state"]], dtype=bool)
    found = backlog(arrival_s[kept], admitted_s[kept])
    if found is None or not found.grows or result.metrics["offered_requests_per_s"] is None:  # as in a closed loop
        return None
    arriving, taken = found.arrived / found.span_s, max(1, found.admitted) / found.span_s
    ratio = arriving / taken
    return Bottleneck(
        "queueing",
        found.share,
        f"in the later half requests arrive at {arriving:.3g} req/s but are scheduled at {taken:.3g} req/s: the queue "
        f"grows by {found.arrived - found.admitted:,} requests, and latencies grow with the length of the run",
        (
            f"{_factor(ratio, 1.0)} the capacity is needed: {math.ceil(ratio)} replicas for each replica now",
            f"fewer requests: at most {taken:.3g} req/s",
            "larger batches (max_num_seqs, max_num_batched_tokens), where memory allows, serve more at a time",
        ),
    )


def _waiting(result: RunResult) -> Bottleneck | None:
    """Requests are scheduled as fast as they arrive, but spend most of their TTFT waiting."""
    metrics = result.metrics
    if not metrics["mean_ttft_ms"] or metrics["mean_queue_ms"] <= WAITING * metrics["mean_ttft_ms"]:
        return None
    queue_ms, ttft_ms = metrics["mean_queue_ms"], metrics["mean_ttft_ms"]
    return Bottleneck(
        "queueing",
        min(1.0, queue_ms / ttft_ms),
        f"{_time(queue_ms / 1e3)} of a mean TTFT of {_time(ttft_ms / 1e3)} are spent waiting to be scheduled "
        f"({_percent(queue_ms / ttft_ms)})",
        (
            f"without waiting the mean TTFT would be {_time((ttft_ms - queue_ms) / 1e3)}",
            f"the p99 wait is {_time(metrics['p99_queue_ms'] / 1e3)}; a further replica shortens the queues of bursts",
            "a higher max_num_seqs or max_num_batched_tokens lets more requests start in the same step",
        ),
    )


def _time(seconds: float) -> str:
    return pretty(seconds, Dimension.SECONDS)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _factor(before_s: float, after_s: float) -> str:
    """How many times faster something is; of a time that vanishes beside another one, a bound."""
    if after_s < before_s / MOST_TIMES:
        return f"more than {MOST_TIMES:.0f}x"
    ratio = before_s / after_s
    return f"{ratio:.2g}x" if ratio < 10 else f"{ratio:.0f}x"
