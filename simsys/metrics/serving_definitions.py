"""The metrics of a serving run (`simsys.metrics.serving`); names of vLLM mean what ``vllm bench serve`` means."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.metrics.metric import SERVING, Metric
from simsys.metrics.serving import LATENCIES, PERCENTILES
from simsys.serving.kv_tier import TIER_KINDS

_LOAD = (
    ("offered_requests_per_s", "1/s", "requests that arrive per second, between the first and the last arrival"),
    (
        "served_requests_per_s",
        "1/s",
        "the offered rate without rejected or cancelled requests, and growth of the queue",
    ),
    ("served_share", "share", "served over offered requests"),
    ("rejected_share", "share", "requests that are rejected"),
    ("cancelled_share", "share", "requests whose clients gave up before they were completed"),
    ("preempted_share", "share", "requests that are preempted at least once"),
    ("arrival_window_s", "s", "from the first to the last arrival"),
    ("steady", "0 or 1", "1 if requests end as fast as they come, or are overloaded; 0 if no steady state is seen"),
    ("growth_share", "share", "growth of batch and queue in the later half of the arrivals, per arriving request"),
    (
        "growing",
        "0 or 1",
        "1 if this growth is more than chance, and more than 2 %: a longer run has higher latencies",
    ),
    ("overloaded", "0 or 1", "1 if the queue grows while requests arrive: latencies grow with the run"),
)
_COUNTS = (
    ("completed", "", "requests that got all their tokens"),
    ("failed", "", "requests that were rejected or cancelled (vLLM's name)"),
    ("in_flight", "", "requests that the end of a timed run cut off"),
    ("in_flight_output_tokens", "", "output tokens that these had got"),
    ("rejected", "", "requests that a router shed, or that can never be served, such as prompts beyond the context"),
    ("cancelled", "", "requests whose clients gave up: a time-out, or enough tokens"),
    ("wasted_tokens", "", "prompt and output tokens that were computed for these, cached ones included"),
    ("preemptions", "", "times that a request lost its KV cache"),
    ("steps", "", "steps of all engines"),
    ("mean_batch_size", "", "mean number of sequences in a step that decodes"),
    (
        "prefixes_known",
        "0 or 1",
        "1 if the workload gives prefixes; if 0, a prefix cache finds nothing",
    ),
    ("prefix_cache_queries", "", "prompt tokens looked up in the prefix cache; not again after a preemption"),
    ("prefix_cache_hits", "", "prompt tokens that were found there, on the GPUs"),
    ("total_input_tokens", "", "prompt tokens of completed requests"),
    ("total_output_tokens", "", "output tokens of completed requests"),
    ("max_output_tokens_per_s", "1/s", "most output tokens in a second"),
    ("max_concurrent_requests", "", "most requests that are under way in a second"),
)
_RATES = (
    ("duration", "s", "from the start to the end of the last request, the drain after the last arrival included"),
    ("request_throughput", "1/s", "completed requests over duration, as vLLM counts"),
    ("output_throughput", "1/s", "their output tokens over duration"),
    ("total_token_throughput", "1/s", "their prompt and output tokens over duration"),
)
_OVER_TIME = (
    ("mean_waiting", "", "requests that wait to be scheduled, averaged over time"),
    ("mean_running", "", "requests that are in prefill or decode, averaged over time"),
    ("mean_kv_cache_usage", "share", "KV-cache blocks in use, averaged over time"),
    ("max_kv_cache_usage", "share", "KV-cache blocks in use at the fullest moment of the fullest engine"),
)
_RETRIES = (
    ("retries", "", "requests that were sent again"),
    ("answered_share", "share", "requests that were completed in the end, at any attempt, without counting attempts"),
)
_SLO = (
    ("request_goodput", "1/s", "requests that meet all targets, over duration, as vLLM counts"),
    ("goodput_requests_per_s", "1/s", "the part of served_requests_per_s that meets all targets"),
    ("slo_attainment", "share", "completed, rejected and cancelled requests that meet all targets"),
    ("slo_met", "0 or 1", "1 if the needed share of requests meets all targets, and all statistics are within limits"),
)
_TARGETS = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "end-to-end latency"}
_COSTS = (
    ("usd_per_million_output_tokens", "USD", "price of a million output tokens", "with a known price"),
    ("energy_per_output_token_j", "J", "energy of an output token", ""),
    ("gpu_seconds", "s", "GPU time that is paid for", "with autoscaling"),
)
_TRANSFERS = (
    ("kv_transferred_bytes", "bytes", "KV cache that is sent between replicas", 0.0),
    ("mean_kv_transfer_ms", "ms", "mean time of a KV transfer", None),
)
_TIERS = (
    ("kv_hit_share_{}", "share", "prompt tokens looked up that were loaded from tiers of kind {}", None),
    ("kv_read_bytes_{}", "bytes", "KV cache read from tiers of kind {}", 0.0),
    ("kv_written_bytes_{}", "bytes", "KV cache written to tiers of kind {}", 0.0),
)
_LOADS = (
    ("kv_loads", "", "loads of cached prefixes from tiers", 0),
    ("mean_kv_load_ms", "ms", "mean time of a load of a prefix, from its start to the last byte", None),
    ("max_kv_load_ms", "ms", "longest time of a load of a prefix", None),
    ("kv_load_share_of_ttft", "share", "time of all loads over the time to first token of all requests", None),
)
_IMAGES = (
    ("image_tokens", "", "tokens of images in the prompts of completed requests, their separators included"),
    ("image_token_share", "share", "the part of total_input_tokens that they are"),
    ("images_encoded", "", "images that encoders have processed"),
    ("encoder_cache_hit_rate", "share", "images that were in the encoder cache when the prompt reached them"),
    ("encoder_time_share", "share", "time of all passes of encoders over the duration, per engine"),
    ("mean_encoder_pass_ms", "ms", "mean time of a pass of an encoder over the images of a step"),
)
_LATENCY = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first, of a request",
    "itl": "time between two tokens of a request",
    "e2el": "end-to-end latency, from arrival to the last token",
    "queue": "time from arrival to the first scheduling",
    "prefill": "time from the first scheduling to the first token",
    "decode": "time from the first to the last token",
    "inference": "time from the first scheduling to the last token",
}


def _metrics() -> Iterator[Metric]:
    for name, unit, meaning in (*_LOAD, *_COUNTS, *_RATES):
        yield Metric(name, unit, meaning, (SERVING,))
    yield Metric("saturation", "text", "stable, backlogged or overloaded", (SERVING,), is_number=False)
    yield Metric("rejected_by_reason", "table", "rejected requests by reason", (SERVING,), is_number=False)
    yield Metric("cancelled_by_reason", "table", "cancelled requests by reason", (SERVING,), is_number=False)
    for name, unit, meaning in _RETRIES:
        yield Metric(name, unit, meaning, (SERVING,), "with workload.cancellation.retries")
    for name, unit, meaning in _OVER_TIME:
        yield Metric(name, unit, meaning, (SERVING,), "if any time passes")
    for name, unit, meaning in _SLO:
        yield Metric(name, unit, meaning, (SERVING,), "with slo")
    yield Metric("slo_missed", "text", "what the run misses of the SLO", (SERVING,), "with slo", is_number=False)
    for name, latency in _TARGETS.items():
        yield Metric(f"slo_{name}_ms", "ms", f"target of the {latency}", (SERVING,), f"with slo.{name}")
        met = f"completed, rejected and cancelled requests that meet the target of the {latency}"
        yield Metric(f"slo_attainment_{name}", "share", met, (SERVING,), f"with slo.{name}")
    for name, unit, meaning, only in _COSTS:
        yield Metric(name, unit, meaning, (SERVING,), only)
    for name, unit, meaning, absent in _TRANSFERS:
        yield Metric(name, unit, meaning, (SERVING,), "with disaggregated prefill and decode", absent)
    meaning = "prompt tokens that decode replicas have, so that they are not sent"
    yield Metric("kv_reused_share", "share", meaning, (SERVING,), "with disaggregated.decode_prefix_caching")
    for name, unit, meaning, absent in _TIERS:
        for kind in TIER_KINDS:
            yield Metric(name.format(kind), unit, meaning.format(kind), (SERVING,), "with such a tier", absent)
    for name, unit, meaning, absent in _LOADS:
        yield Metric(name, unit, meaning, (SERVING,), "with kv_tiers", absent)
    for name, unit, meaning in _IMAGES:
        yield Metric(name, unit, meaning, (SERVING,), "with workload.images")
    statistics = {"mean": "mean", "median": "median", "std": "standard deviation"}
    statistics |= {f"p{percentile}": f"{percentile}th percentile" for percentile in PERCENTILES}
    for name in LATENCIES:
        for key, statistic in statistics.items():
            yield Metric(f"{key}_{name}_ms", "ms", f"{_LATENCY[name]}: {statistic}", (SERVING,))
    only = "with conversations"
    yield Metric("completed_sessions", "", "sessions all of whose requests were completed", (SERVING,), only)
    for key, statistic in statistics.items():
        meaning = f"time of a completed session, from its first request to its last answer: {statistic}"
        yield Metric(f"{key}_session_ms", "ms", meaning, (SERVING,), only)
    meaning = "output tokens of completed requests that are thoughts before an answer"
    yield Metric("total_reasoning_tokens", "", meaning, (SERVING,), "with workload.reasoning")


SERVING_METRICS = tuple(_metrics())
"""The load first, then in the order of a result."""
