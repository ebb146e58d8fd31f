"""Columns of clients that give up, drawn by the seed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from simsys.build import cancellation
from simsys.build.workload import build_requests
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.config.workload import WorkloadConfig
from simsys.errors import UsageError
from simsys.serving.requests import RequestTable

WORKLOAD: dict[str, Any] = {
    "arrivals": {"kind": "poisson", "rate": "8 req/s"},
    "prompt_tokens": {"kind": "lognormal", "mean": 512},
    "output_tokens": 64,
    "num_requests": 2000,
}


def build(seed: int = 1, more: dict[str, Any] | None = None, **given: Any) -> RequestTable:
    workload = WorkloadConfig.model_validate(WORKLOAD | {"cancellation": given} | (more or {}))
    return build_requests(workload, seed, Path())


def test_a_share_of_the_users_cancels_after_times_of_their_own() -> None:
    table = build(share=0.2, after={"kind": "exponential", "mean": "4 s"})
    times_s = [time_s for time_s in table.cancel_s if time_s < math.inf]
    assert len(times_s) == pytest.approx(400, abs=60)
    assert sum(times_s) / len(times_s) == pytest.approx(4.0, rel=0.15)
    assert table.gives_up
    again = build(share=0.1, after={"kind": "exponential", "mean": "4 s"})
    pairs = zip(again.cancel_s, table.cancel_s, strict=True)
    assert all(one in (math.inf, two) for one, two in pairs), "a smaller share is a part of a larger one"
    assert again.prompt_tokens == table.prompt_tokens, "no other column is drawn anew"


def test_or_with_a_number_of_tokens() -> None:
    table = build(share=0.5, after_tokens={"kind": "uniform", "low": 1, "high": 30})
    assert set(table.cancel_tokens) == set(range(31))
    assert table.cancel_s == []


def test_retries_are_rows_behind_their_request_with_growing_waits() -> None:
    retry = {"attempts": 3, "backoff": "1 s", "factor": 3, "max_backoff": "5 s"}
    table = build(timeout="9 s", retry=retry, more={"num_requests": 2})
    assert table.attempt == [0, 1, 2, 3] * 2
    assert table.after == [-1, 0, 1, 2, -1, 4, 5, 6]
    assert table.think_s == [0.0, 1.0, 3.0, 5.0] * 2
    assert (table.sent, len(table), table.timeout_s, table.ttft_timeout_s) == (2, 8, 9.0, math.inf)
    assert table.mean_rate_per_s == pytest.approx(1.0 / (table.arrival_s[4] - table.arrival_s[0]))
    drawn = build(timeout="9 s", retry=retry | {"jitter": True}, more={"num_requests": 500})
    third = drawn.think_s[3::4]
    assert max(third) <= 5.0
    assert sum(third) / 500 == pytest.approx(2.5, rel=0.1)


def test_turns_of_conversations_follow_the_first_attempt() -> None:
    table = build(timeout="9 s", retry={"attempts": 1}, more={"num_requests": 3, "sessions": {"turns": 3}})
    assert table.after == [-1, 0, 0, 2, 2, 4]
    assert table.turn == [0, 0, 1, 1, 2, 2]


def test_too_many_attempts_are_refused_at_their_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "MOST_ATTEMPTS", 100)
    with pytest.raises(UsageError, match=r"2,000 requests with 3 retries each are more than 100: give fewer"):
        build(timeout="9 s", retry={"attempts": 3})


def test_time_outs_of_first_tokens_are_refused_where_decode_replicas_answer() -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 2},
        model={"name": "GPT2-Small"},
        serving={"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1, "first_token": "decode"}},
        workload={**WORKLOAD, "prompt_tokens": 64, "cancellation": {"ttft_timeout": "1 s"}},
    )
    (problem,) = check_config(config)
    assert problem.path == "workload.cancellation.ttft_timeout"
    assert "first_token: decode is not available" in problem.message
    assert "first_token" in str(problem.message)
