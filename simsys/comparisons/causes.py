"""The time of an iteration or a request by cause; the parts add up to the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.metrics.iteration_log import COMMUNICATION

WHOLE = {"training": "an iteration", "serving": "a request (mean)"}
"""The whole by kind of result; several jobs have none."""


def causes_of(kind: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each cause, of the mean iteration or of the mean end-to-end latency; empty if unknown.

    Args:
        kind: ``training``, ``serving`` or ``jobs``.
        metrics: The metrics of a run, or those of a result of ``vllm bench serve``.
    """
    if kind == "training":
        return _training(metrics)
    return _serving(metrics) if kind == "serving" else {}


def common_causes(kind: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[dict[str, float], ...]:
    """Return the causes of two runs in equal parts: the coarser division where a measurement has no other."""
    first, second = causes_of(kind, one), causes_of(kind, other)
    if kind == "serving" and first.keys() != second.keys():
        first, second = _two_parts(one), _two_parts(other)
    return first, second


def _training(metrics: Mapping[str, Any]) -> dict[str, float]:
    optimizer_s = metrics.get("optimizer_s", 0.0)
    by_axis = {axis: metrics[f"exposed_{axis}_s"] for axis in COMMUNICATION if metrics.get(f"exposed_{axis}_s")}
    exposed = {f"exposed {axis} communication": seconds for axis, seconds in by_axis.items()}
    return {
        "forward and backward": metrics["compute_s"] - optimizer_s,
        "optimizer": optimizer_s,
        **(exposed or {"exposed communication": metrics["exposed_communication_s"]}),
        "bubble": metrics.get("bubble_s", 0.0),
        "waiting for batches": metrics.get("data_s", 0.0),
        "checkpoints": metrics.get("checkpoint_s", 0.0),
        "waiting for other ranks": metrics.get("idle_s", 0.0),
    }


def _serving(metrics: Mapping[str, Any]) -> dict[str, float]:
    names = ("mean_ttft_ms", "mean_e2el_ms", "mean_queue_ms", "mean_prefill_ms")
    ttft_s, e2el_s, queue_s, prefill_s = (None if metrics.get(name) is None else metrics[name] / 1e3 for name in names)
    if ttft_s is None or e2el_s is None or queue_s is None or prefill_s is None:
        return _two_parts(metrics)
    return {
        "queueing": queue_s,
        "request handling": ttft_s - queue_s - prefill_s,
        "prefill": prefill_s,
        "decode": e2el_s - ttft_s,
    }


def _two_parts(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the time to the first token and the time after it."""
    ttft_ms, e2el_ms = metrics.get("mean_ttft_ms"), metrics.get("mean_e2el_ms")
    if ttft_ms is None or e2el_ms is None:
        return {}
    return {"to the first token": ttft_ms / 1e3, "after the first token": (e2el_ms - ttft_ms) / 1e3}
