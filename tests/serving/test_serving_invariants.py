"""What holds for every serving run, whatever is combined: from the experiment file to the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

LENGTH = st.fixed_dictionaries({"kind": st.just("uniform"), "low": st.just(1), "high": st.sampled_from([3, 60, 700])})
ARRIVALS = st.sampled_from(
    [
        {"kind": "poisson", "rate": "400 req/s"},
        {"kind": "gamma", "rate": "2000 req/s", "burstiness": 0.2},
        {"kind": "all_at_once"},
        {"kind": "closed_loop", "concurrency": 3},
    ]
)
WORKLOAD = st.fixed_dictionaries(
    {"arrivals": ARRIVALS, "prompt_tokens": LENGTH, "output_tokens": LENGTH, "num_requests": st.integers(1, 25)},
    optional={
        "priorities": st.just({0: 1, 1: 1}),
        "prefixes": st.just({"groups": 2, "tokens": 70}),
        "tenants": st.just({"a": 1, "b": 2}),
        "cancellation": st.sampled_from(
            [
                {"ttft_timeout": "15 ms"},
                {"timeout": "60 ms", "retry": {"attempts": 2, "backoff": "5 ms"}},
                {"share": 0.5, "after_tokens": 3},
                {"share": 0.5, "after": {"kind": "exponential", "mean": "20 ms"}, "retry": {"attempts": 1}},
            ]
        ),
        "sessions": st.sampled_from(
            [
                {"turns": 3, "think_time": "1 ms", "tool_result_tokens": 9},
                {"turns": 3, "branches": {"share": 0.7, "agents": 2, "turns": 2, "prompt_tokens": 5}},
            ]
        ),
        "reasoning": st.just({"tokens": {"kind": "uniform", "low": 1, "high": 30}, "budget": 20}),
    },
)
ENGINE = st.fixed_dictionaries(
    {
        "scheduler": st.sampled_from(
            ["chunked_prefill", "vllm_v0", "orca", "static_batching", "priority", "shortest_job_first"]
        ),
        "max_num_seqs": st.sampled_from([2, 16, 64]),
        "max_num_batched_tokens": st.sampled_from([256, 1024]),
        "block_size": st.sampled_from([1, 16]),
        "gpu_memory_utilization": st.sampled_from([0.0232, 0.0242, 0.5]),
        "router": st.sampled_from(
            [
                "round_robin",
                "random",
                "least_kv",
                "least_outstanding",
                "central_queue",
                "kv_aware",
                "shedding",
                "slo_class",
            ]
        ),
    },
    optional={
        "prefix_caching": st.just(True),
        "preemption": st.just("swap"),
        "speculative": st.sampled_from(
            [
                {"draft_tokens": 2, "acceptance_rate": 0.6},
                {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_layers": 1},
            ]
        ),
        "scheduler_recv_interval": st.sampled_from([2, 25]),
        "batch_wait_timeout_iters": st.sampled_from([1, 20]),
        "batch_wait_max_tokens_ratio": st.sampled_from([0.1, 0.9]),
        "api_overhead": st.just("0 s"),
        "async_scheduling": st.booleans(),
    },
)
SHAPE = st.sampled_from(
    [
        ({}, {}),
        ({"tp_degree": 2}, {}),
        ({"pp_stages": 2}, {}),
        ({}, {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 3}}),
        ({"tp_degree": 2}, {"disaggregated": {"prefill_replicas": 2, "decode_replicas": 2, "decode_tp_degree": 1}}),
        ({}, {"autoscaling": {"scale_up_queue": 1, "startup": "20 ms", "interval": "5 ms", "scale_down_idle": "0 s"}}),
    ]
)
HARDWARE = st.sampled_from(
    [
        {},
        {"jitter": {"compute": 0.2}},
        {"slowdowns": [{"gpus": [0], "speed": 0.5, "from": "10 ms", "until": "50 ms"}]},
    ]
)
RUN = st.fixed_dictionaries({"seed": st.integers(0, 9)}, optional={"duration": st.sampled_from(["2 ms", "60 ms"])})
scenarios = given(workload=WORKLOAD, engine=ENGINE, shape=SHAPE, hardware=HARDWARE, run=RUN)
quickly = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
thoroughly = settings(quickly, max_examples=200)


def scenario(
    workload: dict[str, Any],
    engine: dict[str, Any],
    shape: tuple[dict[str, Any], dict[str, Any]],
    hardware: dict[str, Any],
    run: dict[str, Any],
) -> SimulationConfig:
    parallelism, more = shape
    if workload["arrivals"]["kind"] == "closed_loop":  # conversations are one already
        workload = {name: value for name, value in workload.items() if name != "sessions"}
    without = {"speculative"} if parallelism.get("pp_stages") else set()
    if "scheduler_recv_interval" in engine:
        without |= {"batch_wait_timeout_iters"}
    if without or "batch_wait_timeout_iters" not in engine:
        without |= {"batch_wait_max_tokens_ratio"}
    engine = {name: value for name, value in engine.items() if name not in without}
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 4 if "decode_tp_degree" not in str(more) else 6, **hardware},
        model={"name": "GPT2-Small"},
        parallelism=parallelism,
        serving={**engine, **more},
        workload=workload,
        simulation=run,
    )


def run_of(config: SimulationConfig) -> RunResult | None:
    """None if it is refused, which must be said."""
    problems = check_config(config)
    if problems:
        event(f"refused: {problems[0].path}")
        assert all(problem.message for problem in problems)
        return None
    return simulate(config)


@quickly
@scenarios
def test_requests_tokens_blocks_and_time_are_conserved(**parts: Any) -> None:
    check_conservation(scenario(**parts))


@pytest.mark.slow
@thoroughly
@scenarios
def test_they_are_conserved_in_many_more(**parts: Any) -> None:
    check_conservation(scenario(**parts))


def check_conservation(config: SimulationConfig) -> None:
    """Of everything that a result tells."""
    result = run_of(config)
    if result is None:
        return
    log, rows, metrics = result.requests, result.rows, result.metrics
    assert log is not None
    assert config.serving is not None
    states = list(rows["state"])
    ended = metrics["completed"] + metrics["failed"]
    assert ended + metrics["in_flight"] + states.count("not sent") == len(states), "each ends exactly once"
    assert metrics["in_flight"] == 0 or config.simulation.duration is not None
    for row, state in enumerate(states):
        times = [rows[name][row] for name in ("arrival_s", "admitted_s", "first_token_s", "finished_s")]
        known = [time_s for time_s in times if time_s is not None]
        assert known == sorted(known), "TTFT is at most E2E"
        assert known == times[: len(known)]
        assert (times[-1] is not None) == (state == "completed")
    # Every token comes from a prompt that is complete, a step of decoding, or a cache that was computed again.
    decoded = round(log.tokens_per_sequence * log.decode_steps)
    first = sum(time_s is not None for time_s in rows["first_token_s"])
    tokens = metrics["total_output_tokens"] + metrics["in_flight_output_tokens"]
    tokens += sum(each.output_tokens for each in log.cancelled.values())
    assert first + decoded + len(log.gaps.resumed) == tokens
    if not metrics["in_flight"]:
        assert all(cache.free_blocks == cache.num_blocks and not cache.held for cache in log.caches.values())
    assert all(cache.peak_blocks <= cache.num_blocks for cache in log.caches.values())
    _check_steps(config, result)


def _check_steps(config: SimulationConfig, result: RunResult) -> None:
    """No batch is over its limits, no two steps of a replica overlap, and none is after the end."""
    assert config.serving is not None
    assert result.requests is not None
    for runs in result.requests.steps.blocks():
        assert (runs.decode_tokens <= config.serving.max_num_seqs).all()
        assert (runs.decode_tokens + runs.prompt_tokens <= config.serving.max_num_batched_tokens).all()
        assert (runs.ended_s <= result.simulated_s * (1 + 1e-12)).all()
        if config.parallelism.pp_stages == 1:
            assert (runs.started_s[1:] >= runs.ended_s[:-1] - 1e-12).all(), "the clock of a replica is monotone"
        assert (runs.count >= 1).all()
        assert np.isfinite(runs.first_s).all()


TIGHT: dict[str, Any] = {
    "scheduler": "chunked_prefill",
    "max_num_batched_tokens": 256,
    "max_num_seqs": 64,
    "block_size": 1,
    "gpu_memory_utilization": 0.0232,
    "router": "central_queue",
    "scheduler_recv_interval": 2,
    "api_overhead": "0 s",
}
"""Nobody waits in the queue that replicas share, and there is hardly room for the next tokens."""


def few(requests: int, longest: int) -> dict[str, Any]:
    """That many short prompts with answers of up to so many tokens."""
    return {
        "arrivals": {"kind": "poisson", "rate": "400 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": 3},
        "output_tokens": {"kind": "uniform", "low": 1, "high": longest},
        "num_requests": requests,
    }


DRAFTED = {"speculative": {"draft_tokens": 2, "acceptance_rate": 0.6}}
OWN_DRAFTS = {
    "speculative": {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_layers": 1},
    "prefix_caching": True,
}
UNEQUAL_POOLS = (
    {"tp_degree": 2},
    {"disaggregated": {"prefill_replicas": 2, "decode_replicas": 2, "decode_tp_degree": 1}},
)
"""Pools of unequal degrees, whose teams load shared links, where a team drafts with a pass of its own."""


@quickly
@scenarios
@example(workload=few(2, 3), engine=TIGHT, shape=({"pp_stages": 2}, {}), hardware={}, run={"seed": 0})
@example(workload=few(10, 700), engine={**TIGHT, **DRAFTED}, shape=({}, {}), hardware={}, run={"seed": 1})
@example(workload=few(1, 3), engine={**TIGHT, **OWN_DRAFTS}, shape=UNEQUAL_POOLS, hardware={}, run={"seed": 0})
def test_runs_of_steps_change_nothing(**parts: Any) -> None:
    check_runs_against_steps(**parts)


@pytest.mark.slow
@thoroughly
@scenarios
def test_they_change_nothing_in_many_more(**parts: Any) -> None:
    check_runs_against_steps(**parts)


def check_runs_against_steps(**parts: Any) -> None:
    """Times are equal to the last bit."""
    engine = parts.pop("engine")
    jumping, stepping = (run_of(scenario(engine={**engine, "stepping": step}, **parts)) for step in (False, True))
    assert (jumping is None) == (stepping is None)
    if jumping is None or stepping is None:
        return
    for name, column in jumping.rows.items():
        assert list(column) == list(stepping.rows[name]), name
    assert jumping.metrics == {
        name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        for name, value in stepping.metrics.items()
    }
