"""Bottlenecks of serving: queues, GPUs that compute while requests wait, and a full KV cache."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simsys.analysis.bottleneck import COMPUTE_BUSY, Bottleneck, factor, percent, time
from simsys.metrics.result import RunResult
from simsys.metrics.saturation import backlog
from simsys.metrics.serving_log import CANCELLED, REJECTED
from simsys.units import pretty_memory

PREEMPTED = 0.0
"""Share of requests that lose their KV cache. Any counts, since a preempted sequence is recomputed completely; vLLM's
documentation ("Optimization and tuning", section "Preemption") has the same advice."""
WAITING = 0.5
"""Share of TTFT spent waiting to be scheduled, above which the queue weighs more than the prefill: by definition."""


def serving_bottlenecks(result: RunResult) -> Iterator[Bottleneck]:
    """Those of one job that serves."""
    import numpy as np

    queueing = _given_up(result) or _backlog(result) or _waiting(result)
    if queueing is not None:
        yield queueing
    if queueing is not None and result.metrics["gpu_utilization"] > COMPUTE_BUSY:
        # A GPU that decodes a single sequence is busy too, so busy GPUs alone are no bottleneck.
        yield _compute(result)
    preempted = int(np.count_nonzero(np.asarray(result.rows["preemptions"])))
    if preempted and preempted / len(result.rows["preemptions"]) > PREEMPTED:
        yield _memory(result, preempted)


def _compute(result: RunResult) -> Bottleneck:
    metrics = result.metrics
    busy = metrics["gpu_utilization"]
    per_step = metrics["total_output_tokens"] / metrics["steps"]
    return Bottleneck(
        "compute",
        min(1.0, busy),
        f"the GPUs compute {percent(busy)} of the time while requests wait",
        (
            f"a step makes {per_step:.3g} output tokens on average; while reading the weights limits its time, "
            "larger batches (max_num_seqs, max_num_batched_tokens) cost little more",
            "a smaller precision of weights and KV cache shortens steps and leaves room for larger batches",
            f"the replicas complete {metrics['request_throughput']:.3g} req/s; more replicas share the load",
        ),
    )


def _memory(result: RunResult, preempted: int) -> Bottleneck:
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
        f"clients give up {percent(metrics['cancelled_share'])} of the requests, while {metrics['mean_waiting']:.3g} "
        f"wait on average; {percent(lost / max(1, lost + done))} of the computed tokens are wasted",
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
            f"{factor(ratio, 1.0)} the capacity is needed: {math.ceil(ratio)} replicas for each replica now",
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
        f"{time(queue_ms / 1e3)} of a mean TTFT of {time(ttft_ms / 1e3)} are spent waiting to be scheduled "
        f"({percent(queue_ms / ttft_ms)})",
        (
            f"without waiting the mean TTFT would be {time((ttft_ms - queue_ms) / 1e3)}",
            f"the p99 wait is {time(metrics['p99_queue_ms'] / 1e3)}; a further replica shortens the queues of bursts",
            "a higher max_num_seqs or max_num_batched_tokens lets more requests start in the same step",
        ),
    )
