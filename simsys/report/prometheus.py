"""A serving run in Prometheus' text exposition format, as vLLM's server would report it at its end.

Names, labels and buckets are those of vllm/v1/metrics/loggers.py, so that dashboards made for them read it. Other
metrics begin with ``simsys:``. All replicas are reported as one engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from simsys.metrics.engine_notes import EngineNotes
from simsys.metrics.latencies import Latencies
from simsys.metrics.result import RunResult
from simsys.metrics.serving_log import ServingLog
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    import numpy as np
    from prometheus_client.core import Metric

Labels: TypeAlias = dict[str, str]
TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
PARALLEL = (1, 2, 5, 10, 20)
"""Upper limits of vLLM's buckets."""


@dataclass(frozen=True)
class Histogram:
    """A histogram of observations.

    Args:
        limits: Upper limits of the buckets, increasing.
        at_most: Cumulative counts by limit.
        count: Number of observations.
        total: Their sum.
    """

    limits: Sequence[float]
    at_most: Sequence[int]
    count: int
    total: float

    @classmethod
    def of(cls, values: np.ndarray, limits: Sequence[float], weights: np.ndarray | None = None) -> Histogram:
        """Count values with their weights."""
        import numpy as np

        place = np.searchsorted(np.asarray(limits, dtype=float), values)
        counts = np.cumsum(np.bincount(place, weights, len(limits) + 1)).astype(np.int64)
        total = values.sum() if weights is None else (values * weights).sum()
        return cls(limits, counts[:-1].tolist(), int(counts[-1]), float(total))


def write_prometheus(result: RunResult, model_name: str, file: TextIO) -> None:
    """Write a run's metrics.

    Args:
        result: A serving run.
        model_name: Label of all metrics.
        file: Output stream.
    """
    from prometheus_client import generate_latest

    file.write(generate_latest(_Metrics(result, model_name)).decode())


class _Metrics:
    """What prometheus_client writes: the metrics of a run with these labels."""

    def __init__(self, result: RunResult, model_name: str) -> None:
        self.result = result
        self.labels = {"model_name": model_name, "engine": "0"}

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        log = self.result.requests
        assert log is not None
        yield from _gauges(log, self.result.metrics, self.labels)
        yield from _counters(log, self.result.metrics, self.labels)
        for name, text, values in _histograms(self.result):
            yield _histogram(name, text, values, self.labels)


def _gauges(log: ServingLog, metrics: Mapping[str, Any], labels: Labels) -> Iterator[Metric]:
    import numpy as np
    from prometheus_client.core import GaugeMetricFamily

    admitted = int(np.count_nonzero(np.asarray(log.admitted_s) >= 0.0))
    left = metrics["completed"] + sum(not each.waiting for each in log.cancelled.values())
    running = admitted - left - len(log.preempted_s) + len(log.readmitted_s)
    held = ordered_sum(float(EngineNotes(each).used_blocks[-1]) for each in log.engine_logs.values() if each.notes[0])
    gauges = {
        "vllm:num_requests_running": ("Requests in execution at the end of the run.", running),
        "vllm:num_requests_waiting": ("Requests waiting at the end of the run.", metrics["in_flight"] - running),
        "vllm:kv_cache_usage_perc": (
            "KV-cache usage at the end of the run. 1 means 100 percent usage.",
            held / log.kv_blocks if log.kv_blocks else 0.0,
        ),
    }
    for name, (text, value) in gauges.items():
        family = GaugeMetricFamily(name, text, labels=list(labels))
        family.add_metric(list(labels.values()), value)
        yield family


def _counters(log: ServingLog, metrics: Mapping[str, Any], labels: Labels) -> Iterator[Metric]:
    import numpy as np

    begun = np.asarray(log.first_token_s) >= 0.0
    first_tokens, prefilled = int(np.count_nonzero(begun)), int(np.asarray(log.requests.prompt_tokens)[begun].sum())
    decoded = round(log.tokens_per_sequence * log.decode_steps)
    counters = {
        "vllm:prefix_cache_queries": ("Prefix cache queries, in number of queried tokens.", log.prefix_queries),
        "vllm:prefix_cache_hits": ("Prefix cache hits, in number of cached tokens.", log.prefix_hits),
        "vllm:num_preemptions": ("Preemptions by the engine.", metrics["preemptions"]),
        "vllm:prompt_tokens": ("Prefill tokens processed.", prefilled),
        "vllm:prompt_tokens_cached": ("Prompt tokens that were found in a cache.", log.prefix_hits),
        "vllm:generation_tokens": ("Generation tokens processed.", first_tokens + len(log.gaps.resumed) + decoded),
    }
    for name, (text, value) in counters.items():
        yield _counter(name, text, labels, "", [((), value)])
    ends = [(("stop",), 0), (("length",), metrics["completed"]), (("abort",), metrics["cancelled"])]
    text = "Ended requests; completed ones end at their given length."
    yield _counter("vllm:request_success", text, labels, "finished_reason", ends)
    rejected = [((reason,), value) for reason, value in metrics["rejected_by_reason"].items()]
    text = "Requests that could never be served."
    yield _counter("simsys:requests_rejected", text, labels, "reason", rejected)


def _histograms(result: RunResult) -> Iterator[tuple[str, str, Histogram]]:
    """Name, meaning and observations of each histogram."""
    import numpy as np

    log = result.requests
    assert log is not None
    first_s = np.asarray(log.first_token_s)
    begun = first_s >= 0.0
    ttft_s = first_s[begun] - np.asarray(log.arrival_s, dtype=float)[begun]
    yield "vllm:time_to_first_token_seconds", "Time to first token.", Histogram.of(ttft_s, TTFT_S)
    gaps = log.between_tokens
    between = Histogram(TOKEN_S, gaps.at_most(TOKEN_S), gaps.total, gaps.sum_s)
    for name in ("inter_token_latency", "time_per_output_token"):
        yield f"vllm:{name}_seconds", "Time between tokens.", between
    times = Latencies(result.rows, log.api_s)
    per_token = Histogram.of(times.several_tpot_s, TOKEN_S)
    yield "vllm:request_time_per_output_token_seconds", "Mean time per output token of a request.", per_token
    for name, text, attribute in (
        ("e2e_request_latency", "End-to-end latency.", "e2el_s"),
        ("request_queue_time", "Time spent waiting.", "queue_s"),
        ("request_inference_time", "Time spent running.", "inference_s"),
        ("request_prefill_time", "Time spent in prefill.", "prefill_s"),
        ("request_decode_time", "Time spent in decode.", "decode_s"),
    ):
        yield f"vllm:{name}_seconds", text, Histogram.of(getattr(times, attribute), REQUEST_S)
    limits = _one_two_five(max(max(log.requests.prompt_tokens), max(log.requests.output_tokens)))
    for name, text, column in (
        ("request_prompt_tokens", "Prefill tokens of a request.", "prompt_tokens"),
        ("request_generation_tokens", "Generation tokens of a request.", "output_tokens"),
        ("request_max_num_generation_tokens", "Most generation tokens of a sequence of a request.", "output_tokens"),
        ("request_params_max_tokens", "Generation tokens that a request asks for.", "output_tokens"),
    ):
        yield f"vllm:{name}", text, Histogram.of(times.column(column), limits)
    single = Histogram.of(np.ones(times.completed), PARALLEL)
    yield "vllm:request_params_n", "Sequences of a request; each has one.", single
    yield "vllm:iteration_tokens_total", "Tokens of a step.", _step_tokens(log)


def _step_tokens(log: ServingLog) -> Histogram:
    import numpy as np

    at_most, count, total = np.zeros(len(STEP_TOKENS), dtype=np.int64), 0, 0.0
    for runs in log.steps.blocks():
        part = Histogram.of(runs.decode_tokens + runs.prompt_tokens, STEP_TOKENS, runs.count)
        at_most += part.at_most
        count, total = count + part.count, total + part.total
    return Histogram(STEP_TOKENS, at_most.tolist(), count, total)


def _one_two_five(largest: int) -> list[float]:
    """1, 2, 5, 10, 20 … up to the largest value; the last one is not below it."""
    limits, power = [], 1
    while True:
        for digit in (1, 2, 5):
            limits.append(float(digit * power))
            if limits[-1] >= largest:
                return limits
        power *= 10


def _counter(
    name: str, text: str, labels: Labels, label: str, values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    """A counter, with one more label if it is named."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=[*labels, *([label] if label else [])])
    for more, value in values:
        family.add_metric([*labels.values(), *more], value)
    return family


def _histogram(name: str, text: str, values: Histogram, labels: Labels) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, text, labels=list(labels))
    limits = [*(str(float(limit)) for limit in values.limits), "+Inf"]
    buckets = list(zip(limits, [*map(float, values.at_most), float(values.count)], strict=True))
    family.add_metric(list(labels.values()), buckets, values.total)
    return family
