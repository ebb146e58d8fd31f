"""Serving runs that end at a time: against the same run without an end, at all levels, for all that can be served."""

from __future__ import annotations

import io
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check import check_config, check_file
from simsys.config.experiment import SimulationConfig, SimulationSettings
from simsys.errors import ConfigError, UsageError
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.report.prometheus import write_prometheus
from simsys.simulation import simulate

END_S = 0.15
CASES: dict[str, dict[str, Any]] = {
    "chunked prefill": {},
    "prefill first": {"serving": {"scheduler": "vllm_v0"}},
    "crowded": {"serving": {"max_num_seqs": 8, "scheduler": "priority"}},
    "tensor parallel": {"parallelism": {"strategy": "TP", "tp_degree": 2}},
    "pipeline": {"parallelism": {"strategy": "PP", "pp_stages": 2}},
    "drafts": {"serving": {"speculative": {"draft_tokens": 2, "acceptance_rate": 0.7}}},
    "scaled": {"serving": {"autoscaling": {"scale_up_queue": 1, "startup": "50 ms", "interval": "20 ms"}}},
    "split": {"serving": {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}}},
}


def config(*, lod: str = "medium", stepping: bool = False, **changes: Any) -> SimulationConfig:
    settings: dict[str, Any] = {
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 2},
        "model": {"name": "GPT2-Small"},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": "400 req/s"},
            "prompt_tokens": {"kind": "uniform", "low": 1, "high": 700},
            "output_tokens": {"kind": "uniform", "low": 1, "high": 60},
        },
        "simulation": {"duration": f"{END_S} s", "lod": lod},
        **changes,
    }
    settings["serving"] = {"stepping": stepping, **settings.get("serving", {})}
    found = SimulationConfig(**settings)
    assert check_config(found) == []
    return found


def figures(result: RunResult) -> dict[str, float]:
    found = {name: value for name, value in result.metrics.items() if isinstance(value, float)}
    if found.pop("mean_kv_transfer_ms", None) is not None:  # transfers contend at high, and hold blocks meanwhile
        found.pop("mean_kv_cache_usage")
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_alike_at_all_levels(name: str) -> None:
    """Of drafts, blocks in use within a run of steps are a mean."""
    medium, stepping, high = (
        simulate(config(**CASES[name], lod=lod, stepping=stepping))
        for lod, stepping in (("medium", False), ("medium", True), ("high", False))
    )
    assert medium.metrics["in_flight"] > 0
    assert medium.simulated_s == END_S
    for other in (stepping, high):
        assert list(other.rows["state"]) == list(medium.rows["state"])
        assert other.requests is not None
        assert medium.requests is not None
        assert other.requests.generated_tokens == medium.requests.generated_tokens
        expected, within = figures(medium), {"mean_kv_cache_usage": 0.01} if name == "drafts" else {}
        assert figures(other) == {
            key: pytest.approx(each, rel=within.get(key, 1e-9)) for key, each in expected.items()
        }


def test_what_has_ended_by_then_is_what_a_longer_run_has_by_then() -> None:
    whole = {"duration": f"{END_S} s", **config().model_dump(exclude_none=True)["workload"]}
    whole["arrivals"] = {"kind": "poisson", "rate": "400 req/s"}
    longer, cut = simulate(config(workload=whole, simulation={})), simulate(config())
    ended_s = [seconds if seconds is not None and seconds <= END_S else None for seconds in longer.rows["finished_s"]]
    assert list(cut.rows["finished_s"]) == ended_s
    assert longer.requests is not None
    assert cut.requests is not None
    gaps = gaps_by_request(longer.requests)
    assert gaps is not None
    times = zip(longer.rows["first_token_s"], gaps, strict=True)
    by_then = [sum(time_s <= END_S for time_s in accumulate([first_s, *rest])) for first_s, rest in times]
    assert cut.requests.generated_tokens == by_then
    done = [tokens for tokens, time_s in zip(by_then, ended_s, strict=True) if time_s is not None]
    assert cut.metrics["completed"] == len(done)
    assert cut.metrics["in_flight"] == len(by_then) - len(done)
    assert cut.metrics["in_flight_output_tokens"] == sum(by_then) - sum(done)
    assert cut.metrics["output_throughput"] == pytest.approx(sum(done) / END_S)
    tokens = sum(cut.timeline["output_tokens_per_s"]) * cut.timeline["time_s"][1]
    assert tokens == pytest.approx(sum(by_then), rel=0.02)


@pytest.mark.parametrize(
    ("arrivals", "count"),
    [
        ({"kind": "constant", "rate": "100 req/s"}, 15),
        ({"kind": "time_varying", "rates": [{"duration": "50 ms", "rate": "2000 req/s"}]}, 300),
        ({"kind": "gamma", "rate": "2000 req/s", "burstiness": 2.0}, 300),
    ],
)
def test_arrivals_without_end_need_no_number(arrivals: dict[str, Any], count: int) -> None:
    job = build_job(config(workload={"arrivals": arrivals, "prompt_tokens": 10, "output_tokens": 2}))
    assert isinstance(job, ServingJob)
    assert len(job.requests) == pytest.approx(count, rel=0.2)
    assert job.requests.arrival_s[-1] < END_S


def test_without_a_duration_they_do() -> None:
    endless = config().model_copy(update={"simulation": SimulationSettings()})
    (problem,) = check_config(endless)
    assert problem.path == "workload"
    assert problem.message.startswith("num_requests is missing; only a trace knows its own number of requests")
    with pytest.raises(UsageError, match="num_requests is missing"):
        simulate(endless)


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        ("0 s", "'0 s' is zero; a time above zero is needed"),
        ("-1 s", "'-1 s' is negative"),
        (5, "5 has no unit"),
        ("soon", "'soon' is not a time"),
        ("1 us", "no request arrives within 1 us"),
    ],
)
def test_bad_durations_are_problems_where_they_are_written(duration: Any, message: str, tmp_path: Path) -> None:
    given = {"hardware": {"profile": "dgx-h100"}, "model": {"name": "GPT2-Small"}, "serving": {}}
    given["workload"] = {"arrivals": {"kind": "poisson", "rate": "1 req/s"}, "prompt_tokens": 9, "output_tokens": 9}
    text = json.dumps(given)[:-1] + ',\n"simulation": {"duration": ' + json.dumps(duration) + "}}\n"
    file = tmp_path / "run.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        check_file(file)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.path, problem.line, problem.column) == ("simulation.duration", 2, 28)


def test_training_has_no_such_end() -> None:
    with pytest.raises(ValidationError, match=r"this is training; give training\.num_iterations"):
        SimulationConfig(
            hardware={"profile": "dgx-h100"},
            model={"name": "GPT2-Small"},
            training={"batch_size_per_gpu": 1},
            simulation={"duration": "1 s"},
        )


def test_a_closed_loop_has_as_many_in_flight_as_clients() -> None:
    clients = {"arrivals": {"kind": "closed_loop", "concurrency": 7}, "num_requests": 5000}
    result = simulate(config(workload={**clients, "prompt_tokens": 100, "output_tokens": 30}))
    assert result.metrics["in_flight"] == 7
    assert result.metrics["completed"] >= 7
    assert list(result.rows["state"]).count("not sent") == 5000 - 7 - result.metrics["completed"]
    arrivals = [seconds for seconds in result.rows["arrival_s"] if seconds is not None]
    ends = sorted(seconds for seconds in result.rows["finished_s"] if seconds is not None)
    assert arrivals == pytest.approx([0.0] * 7 + ends), "a client sends when it has been answered"


def test_what_prometheus_would_find_at_the_end() -> None:
    result = simulate(config(**CASES["crowded"]))
    text = io.StringIO()
    write_prometheus(result, "m", text)
    samples = dict(line.rsplit(" ", 1) for line in text.getvalue().splitlines() if not line.startswith("#"))
    found = {name.split("{")[0]: float(value) for name, value in samples.items()}
    states = list(result.rows["state"])
    assert found["vllm:num_requests_running"] + found["vllm:num_requests_waiting"] == states.count("in flight")
    assert 8 < found["vllm:num_requests_running"] <= 16, "two replicas of 8 seats"
    assert 0 < found["vllm:kv_cache_usage_perc"] <= result.metrics["max_kv_cache_usage"]
    assert result.requests is not None
    assert found["vllm:generation_tokens_total"] == sum(result.requests.generated_tokens)


def test_a_run_whose_requests_have_all_ended_is_over() -> None:
    few = {"arrivals": {"kind": "constant", "rate": "100 req/s"}, "num_requests": 5}
    result = simulate(config(workload={**few, "prompt_tokens": 100, "output_tokens": 3}))
    assert result.metrics["completed"] == 5
    assert END_S > result.simulated_s == pytest.approx(max(result.rows["finished_s"]), rel=1e-12)


@pytest.mark.parametrize("name", ["chunked prefill", "tensor parallel", "pipeline"])
def test_jobs_give_their_gpus_back_in_time(name: str) -> None:
    jobs = [{"name": "first", "gpus": 2}, {"name": "second", "gpus": 2, "arrival": "10 ms"}]
    high, medium = (
        simulate(config(**CASES[name], jobs=jobs, simulation={"duration": "50 ms", "lod": lod}))
        for lod in ("high", "medium")
    )
    assert medium.rows["started_s"] == [0.0, 0.05]
    assert medium.rows["ended_s"] == [0.05, 0.1]
    for one, other in zip(high.jobs, medium.jobs, strict=True):
        assert one.metrics["in_flight"] == other.metrics["in_flight"] > 0
        assert figures(one) == pytest.approx(figures(other), rel=1e-9)
