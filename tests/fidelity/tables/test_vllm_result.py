"""A user's own `vllm bench serve` result: the same requests are replayed and compared."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.errors import UsageError
from simsys.fidelity.predict import predict
from simsys.fidelity.tables.vllm_differences import vllm_warnings
from simsys.fidelity.tables.vllm_result import is_vllm_result, vllm_cases
from simsys.report.bench_serve import bench_result

TOTALS: dict[str, Any] = {"completed": 1, "total_input_tokens": 1, "total_output_tokens": 1}
DETAILED = TOTALS | {"input_lens": [1, 2], "output_lens": [1, 2], "ttfts": [0.1, 0.2]}
SCENARIO: dict[str, Any] = {
    "model": {"name": "Llama3-8B"},
    "hardware": {"gpu": "H100-SXM"},
    "serving": {"engine": "vllm"},
}
WORKLOAD = {
    "arrivals": {"kind": "poisson", "rate": "20 req/s"},
    "prompt_tokens": {"kind": "uniform", "low": 50, "high": 400},
    "output_tokens": {"kind": "uniform", "low": 2, "high": 40},
    "num_requests": 12,
}


def own_result(**workload: Any) -> dict[str, Any]:
    """What simsys itself saves of a run, which has vLLM's keys."""
    config = SimulationConfig(**SCENARIO, workload={**WORKLOAD, **workload}, simulation={"save_detailed": True})
    return bench_result(config, DistributedAISimulator(config).run())


def saved(tmp_path: Path, found: object) -> Path:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(found))
    return path


def without(found: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in keys}


def test_a_replay_of_our_own_run_is_the_run(tmp_path: Path) -> None:
    path = saved(tmp_path, own_result())
    assert is_vllm_result(path.read_text())
    predictions = predict(vllm_cases(path, SCENARIO))
    assert {each.case.metric for each in predictions} >= {"mean_ttft_ms", "output_throughput", "ttft_ms", "e2e_ms"}
    assert len([each for each in predictions if each.case.metric == "ttft_ms"]) == 12
    assert max(abs(each.error) for each in predictions if each.case.unit == "ms") < 1e-6
    assert max(abs(each.error) for each in predictions) < 0.1  # of rates, as the first request comes at once


def test_failed_requests_are_left_out_and_the_others_keep_their_places(tmp_path: Path) -> None:
    """A result lists requests as they were sent or not; one that failed takes no part."""
    found = own_result()
    lists = [key for key, value in found.items() if isinstance(value, list)]
    turned = found | {key: found[key][::-1] for key in lists}
    turned["errors"] = ["", "refused", *[""] * 10]
    cases = vllm_cases(saved(tmp_path, turned), SCENARIO)
    ids = {case.id for case in cases if case.metric == "ttft_ms"}
    assert ids == {f"result.json:{place}:ttft_ms" for place in range(12) if place != 1}
    by_id = {each.case.id: each for each in predict(cases)}
    assert abs(by_id["result.json:11:ttft_ms"].error) < 1e-6  # the first to be sent, which met nobody


@pytest.mark.parametrize(("key", "value"), [("start_times", -1.0), ("output_lens", 0)])
def test_requests_that_cannot_be_replayed_are_left_out_and_the_others_keep_their_places(
    tmp_path: Path, key: str, value: float
) -> None:
    """A client may never have sent one, or had an answer of no tokens; the replay skips it."""
    found = own_result(arrivals={"kind": "constant", "rate": "1 req/s"})
    found[key][3] = value
    path = saved(tmp_path, found)
    cases = vllm_cases(path, SCENARIO)
    assert len([case for case in cases if case.metric == "ttft_ms"]) == 11
    assert max(abs(each.error) for each in predict(cases) if each.case.one_of_many) < 1e-6
    [warning] = vllm_warnings(path, SCENARIO)
    assert "1 of 12 requests cannot be replayed" in warning


def test_a_result_without_details_is_sent_as_it_says(tmp_path: Path) -> None:
    details = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
    found = without(own_result(arrivals={"kind": "closed_loop", "concurrency": 3}), *details)
    cases = vllm_cases(saved(tmp_path, found), SCENARIO)
    assert {case.metric for case in cases} >= {"request_throughput", "median_tpot_ms"}
    (run,) = {case.run for case in cases}
    workload = json.loads(run.scenario)["workload"]  # type: ignore[union-attr]
    assert workload["arrivals"] == {"kind": "closed_loop", "concurrency": 3}
    assert workload["num_requests"] == 12
    assert max(abs(each.error) for each in predict(cases) if "throughput" in each.case.metric) < 0.3


@pytest.mark.parametrize(
    ("changes", "arrivals"),
    [
        ({"request_rate": "inf", "max_concurrency": None}, {"kind": "all_at_once"}),
        ({"request_rate": math.inf, "max_concurrency": None}, {"kind": "all_at_once"}),
        ({"request_rate": 4.0, "burstiness": 1.0}, {"kind": "poisson", "rate": "4.0 req/s"}),
        ({"request_rate": 4.0, "burstiness": 0.5}, {"kind": "gamma", "rate": "4.0 req/s", "burstiness": 0.5}),
        ({"request_rate": 4.0, "max_concurrency": 7}, {"kind": "closed_loop", "concurrency": 7}),
    ],
)
def test_without_start_times_requests_come_as_the_benchmark_sends_them(
    tmp_path: Path, changes: dict[str, Any], arrivals: dict[str, Any]
) -> None:
    found = without(own_result(), "start_times") | changes
    (run,) = {case.run for case in vllm_cases(saved(tmp_path, found), SCENARIO)}
    workload = json.loads(run.scenario)["workload"]  # type: ignore[union-attr]
    assert workload["arrivals"] == arrivals
    assert workload["prompt_tokens"] == {"kind": "trace"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "which is one JSON object"),
        ({"completed": 3}, "needs total_input_tokens, a whole number from 1, not None"),
        (TOTALS | {"completed": 0}, "needs completed, a whole number from 1, not 0"),
        (TOTALS | {"completed": 0.5}, "needs completed, a whole number from 1, not 0.5"),
        (TOTALS | {"completed": True}, "needs completed, a whole number from 1, not True"),
        (TOTALS | {"mean_ttft_ms": True}, "mean_ttft_ms: a finite number from 0 is needed, not True"),
        (TOTALS | {"p99_tpot_ms": math.nan}, "p99_tpot_ms: a finite number from 0 is needed, not nan"),
        (TOTALS | {"p99_tpot_ms": math.inf}, "p99_tpot_ms: a finite number from 0 is needed, not inf"),
        (TOTALS | {"mean_itl_ms": "10.0"}, "mean_itl_ms: a finite number from 0 is needed, not '10.0'"),
        (TOTALS | {"mean_itl_ms": -1}, "mean_itl_ms: a finite number from 0 is needed, not -1"),
        (TOTALS | {"request_throughput": 5e-324}, "request_throughput: a finite number from 0 is needed"),
        (TOTALS | {"request_rate": "fast"}, "request_rate: a number above 0 or inf is needed, not 'fast'"),
        (TOTALS | {"burstiness": "\x1b[31m"}, "burstiness: a number above 0 is needed"),
        (TOTALS | {"max_concurrency": True}, "max_concurrency: a whole number from 1 is needed, not True"),
        (TOTALS | {"itls": 3}, "itls: a list with a value for each request is needed, not 3"),
        (DETAILED | {"ttfts": [0.1, "x"]}, r"ttfts\[1\]: a finite number from 0 is needed, not 'x'"),
        (DETAILED | {"itls": [[], 3]}, r"itls\[1\]: a list of times is needed, not 3"),
        (DETAILED | {"itls": [[], [0.1, None]]}, r"itls\[1\]\[1\]: a finite number from 0 is needed"),
        (DETAILED | {"output_lens": [1]}, "equally long, not 2 input_lens, 1 output_lens"),
        (DETAILED | {"ttfts": []}, "equally long, not 2 input_lens, 2 output_lens, 0 ttfts"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, found: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        vllm_cases(saved(tmp_path, found), SCENARIO)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*missing.json"):
        vllm_cases(tmp_path / "missing.json", SCENARIO)


def test_what_does_not_fit_is_unsupported(tmp_path: Path) -> None:
    path = saved(tmp_path, own_result())
    cases = vllm_cases(path, SCENARIO | {"model": {"name": "Llama3-70B"}})
    assert all(each.reason.startswith("does not fit: Llama3-70B") for each in predict(cases))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"total_input_tokens": 10**10, "completed": 3}, "workload.prompt_tokens.tokens: must be at most 1000000000"),
        ({"completed": 10**9, "total_input_tokens": 10**10}, "workload.num_requests: "),
    ],
)
def test_totals_that_no_workload_has_are_not_predicted(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    details = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
    found = without(own_result(), *details) | {"max_concurrency": None, "request_rate": 4.0, **changes}
    assert all(each.reason.startswith(reason) for each in predict(vllm_cases(saved(tmp_path, found), SCENARIO)))


def test_what_is_measured_of_failed_requests_does_not_matter(tmp_path: Path) -> None:
    found = DETAILED | {"ttfts": [0.1, "x"], "itls": [[], 3], "errors": ["", "refused"]}
    assert len(vllm_cases(saved(tmp_path, found), SCENARIO)) == 2
