"""Disjoint losses of time of a run, the largest first: all time without useful computation.

In training, the whole is an iteration of a rank of the busiest pipeline stage, divided by
`simsys.metrics.iteration_log`; each moment counts once. Its computation is divided into the optimizer; activation
recomputation, by its share of the FLOP; and the time of the other kernels beyond their FLOP at the dense peak.

In serving, the whole is the mean end-to-end latency of completed requests. Waiting, request handling, preemptions and
moves to another replica are times of the requests. Decoding sequences lose the extra time of steps with prompts over
the mean step without. The rest is spent in steps, in which GPUs idle for the same share as over the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from simsys.analysis.bottleneck import COMMUNICATION_BOUND, COMMUNICATION_HIGH
from simsys.metrics.iteration_log import HOST
from simsys.metrics.result import RunResult
from simsys.sums import ordered_sum
from simsys.units import Dimension, pretty

if TYPE_CHECKING:
    from simsys.metrics.serving_log import ServingLog

Level = Literal["minor", "high", "bound"]

NAMED = 3
"""Number of losses listed."""
HIGH, BOUND = COMMUNICATION_HIGH, COMMUNICATION_BOUND
"""Shares of the whole above which any loss is high, and bound."""

PREEMPTION = "preemption"
"""The loss of requests that lose their KV cache."""
REMEDIES: Mapping[str, str] = {
    "kernel inefficiency": "larger micro-batches or fused kernels raise kernel efficiency",
    "waiting for kernel launches": "larger micro-batches, or fewer launches (torch.compile, CUDA graphs)",
    "recomputation": "selective recomputation, or none where memory allows",
    "optimizer": "sharded states (ZeRO), or fewer steps with larger batches",
    "bubble": "more micro-batches, virtual stages or another schedule",
    "waiting for batches": "more loader workers or prefetching",
    "checkpoints": "less frequent or asynchronous checkpoints",
    "waiting for other ranks": "equally fast and equally loaded ranks",
    "exposed host communication": "less offloading, or a faster link to the host",
    "queueing": "more replicas, larger batches or fewer requests per second",
    "request handling": "a faster front end of the engine",
    PREEMPTION: "more memory for the KV cache, or fewer concurrent sequences",
    "move to another replica": "a faster link between the pools, or more decode replicas",
    "prompts of other requests": "smaller prefill chunks, or prefill on separate replicas (disaggregated)",
    "GPUs idle within steps": "faster links, fewer tensor-parallel ranks or CUDA graphs",
}
"""Remedy by loss; `OF_COMMUNICATION` for exposed communication of other axes."""
OF_COMMUNICATION = "faster links, fewer bytes, or a smaller degree of this kind of parallelism"


@dataclass(frozen=True)
class Loss:
    """Time lost to one cause.

    Args:
        name: The cause.
        seconds: The lost time.
        share: Its share of the whole, 0 to 1.
        level: minor, high, or bound if it exceeds all else together.
        whole: Name of the whole: an iteration, or the latency of a request.
        remedy: What reduces the loss.
        job: The job, on a shared cluster.
    """

    name: str
    seconds: float
    share: float
    level: Level
    whole: Literal["iteration", "request latency"]
    remedy: str
    job: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return asdict(self)

    def text(self) -> str:
        """The same for people.

        Example:
            >>> Loss("bubble", 0.5, 0.25, "minor", "iteration", "").text()
            'bubble: 500 ms, 25.0 % of an iteration (minor)'
        """
        whose = f"{self.job}: " if self.job else ""
        whole = "an iteration" if self.whole == "iteration" else "the mean request latency"
        seconds, share = pretty(self.seconds, Dimension.SECONDS), f"{self.share * 100:.1f} %"
        return f"{whose}{self.name}: {seconds}, {share} of {whole} ({self.level})"


def largest_losses(result: RunResult, count: int = NAMED) -> list[Loss]:
    """The largest losses of a run, or of each of its jobs."""
    if result.kind == "jobs":
        return [replace(loss, job=job.name) for job in result.jobs for loss in largest_losses(job, count)]
    return sorted(losses(result), key=lambda loss: -loss.seconds)[:count]


def losses(result: RunResult) -> list[Loss]:
    """All losses of a run of one job; being disjoint, they never exceed the whole together."""
    if result.kind == "training":
        whole_s, parts = result.metrics["mean_iteration_s"], dict(_training(result))
        return _told(parts, whole_s, "iteration")
    if not result.metrics.get("mean_e2el_ms"):
        return []
    whole_s = result.metrics["mean_e2el_ms"] / 1e3
    return _told(dict(_serving(result)), whole_s, "request latency")


def _told(parts: Mapping[str, float], whole_s: float, whole: Literal["iteration", "request latency"]) -> list[Loss]:
    """Losses by part; rounding errors are dropped, and the last ones are cut at the whole."""
    found, left_s = [], whole_s
    for name, seconds in parts.items():
        seconds = min(seconds, left_s)
        if seconds > 1e-9 * whole_s:
            left_s -= seconds
            share = seconds / whole_s
            level: Level = "bound" if share > BOUND else "high" if share > HIGH else "minor"
            found.append(Loss(name, seconds, share, level, whole, REMEDIES.get(name, OF_COMMUNICATION)))
    return found


# --- training -----------------------------------------------------------------------------------------------------


def _training(result: RunResult) -> Iterator[tuple[str, float]]:
    metrics = result.metrics
    for axis, seconds in result.exposed_s.items():
        yield ("exposed host communication" if axis == HOST else f"exposed {axis} communication"), seconds
    if not result.exposed_s:
        yield "exposed communication", metrics["exposed_communication_s"]
    yield "bubble", metrics.get("bubble_s", 0.0)
    yield "waiting for batches", metrics.get("data_s", 0.0)
    yield "checkpoints", metrics.get("checkpoint_s", 0.0)
    yield "waiting for other ranks", metrics.get("idle_s", 0.0)
    optimizer_s = metrics.get("optimizer_s", 0.0)
    yield "optimizer", optimizer_s
    passes_s = max(0.0, metrics["compute_s"] - optimizer_s)
    launch_s = min(passes_s, metrics.get("launch_s", 0.0))
    yield "waiting for kernel launches", launch_s
    kernels_s = passes_s - launch_s
    repeated_s = kernels_s * _repeated_share(metrics)
    yield "recomputation", repeated_s
    yield "kernel inefficiency", (kernels_s - repeated_s) * (1.0 - _efficiency(result, passes_s, launch_s))


def _repeated_share(metrics: Mapping[str, Any]) -> float:
    """The share of activation recomputation in the FLOP of forward and backward passes."""
    hfu = metrics.get("hfu", 0.0)
    return max(0.0, 1.0 - metrics["mfu"] / hfu) if hfu else 0.0


def _efficiency(result: RunResult, passes_s: float, launch_s: float) -> float:
    """The time of the FLOP of passes at the dense peak over the time of kernels; a mean over pipeline stages."""
    kernels = 1.0 - launch_s / passes_s if passes_s else 1.0
    if result.ranks:
        times_s = zip(result.ranks["compute_s"], result.ranks["optimizer_s"], strict=True)
        each_s = [compute_s - optimizer_s for compute_s, optimizer_s in times_s]
        passes_s = ordered_sum(each_s) / len(each_s)
    ideal_s = result.metrics["attained_peak_share"] * result.metrics["mean_iteration_s"]
    kernels_s = passes_s * kernels
    return float(min(1.0, ideal_s / kernels_s)) if kernels_s > 0.0 else 1.0


# --- serving ------------------------------------------------------------------------------------------------------


def _serving(result: RunResult) -> Iterator[tuple[str, float]]:
    metrics, log = result.metrics, result.requests
    queue_s, prefill_s = metrics["mean_queue_ms"] / 1e3, metrics["mean_prefill_ms"] / 1e3
    yield "queueing", queue_s
    yield "request handling", max(0.0, metrics["mean_ttft_ms"] / 1e3 - queue_s - prefill_s)
    if log is None:
        return
    moved_s, preempted_s, prompts_s = _moved(log), _preempted(log), _prompts(log)
    yield "move to another replica", moved_s
    yield PREEMPTION, preempted_s
    yield "prompts of other requests", prompts_s
    in_steps_s = metrics["mean_inference_ms"] / 1e3 - moved_s - preempted_s - prompts_s
    yield "GPUs idle within steps", max(0.0, in_steps_s) * _idle_share(result, log)


def _moved(log: ServingLog) -> float:
    """Mean seconds of a completed request between its first token and its first step on another replica."""
    first_s, finished_s = log.first_token_s, log.finished_s
    waits_s = [joined_s - first_s[each] for each, (_, joined_s) in log.joined.items() if finished_s[each] >= 0.0]
    return ordered_sum(waits_s) / int(log.completed.sum())


def _preempted(log: ServingLog) -> float:
    """Mean seconds of a completed request between the loss of its KV cache and the next token."""
    waits_s = [lost.again_s - lost.lost_s for lost in log.lost if log.finished_s[lost.request] >= 0.0]
    return ordered_sum(waits_s) / int(log.completed.sum())


def _prompts(log: ServingLog) -> float:
    """Mean extra seconds of decoding sequences in steps with prompts, over steps without."""
    import numpy as np

    plain_s = plain = mixed_s = mixed = 0.0
    for runs in log.steps.blocks():
        each_s, tokens = (runs.first_s + runs.last_s) / 2, runs.count * runs.decode_tokens
        prompts = runs.prompt_tokens > 0
        plain_s, plain = plain_s + float((each_s * tokens)[~prompts].sum()), plain + float(tokens[~prompts].sum())
        mixed_s, mixed = mixed_s + float((each_s * tokens)[prompts].sum()), mixed + float(tokens[prompts].sum())
    if not plain or not mixed:
        return 0.0
    began = int(np.count_nonzero(np.asarray(log.first_token_s) >= 0.0))
    return max(0.0, mixed_s - mixed * plain_s / plain) / began


def _idle_share(result: RunResult, log: ServingLog) -> float:
    """The idle share of GPUs during steps, over all replicas."""
    import numpy as np

    stepping_s = 0.0
    for rank in log.steps.ranks:
        runs = log.steps.of(rank)
        order = np.argsort(runs.started_s, kind="stable")
        ended_s = np.maximum.accumulate(runs.ended_s[order])
        began_s = np.maximum(runs.started_s[order], np.concatenate([[0.0], ended_s[:-1]]))
        stepping_s += float(np.maximum(0.0, ended_s - began_s).sum())
    computing_s = result.metrics["gpu_utilization"] * result.simulated_s * max(1, len(log.caches))
    return min(1.0, max(0.0, 1.0 - computing_s / stepping_s)) if stepping_s else 0.0
