"""The trace of serving: every step and every request of the result."""

from __future__ import annotations

from collections import Counter

import pytest

from simsys.simulation import simulate
from simsys.traces.serving_trace import ServingTrace
from tests.helpers.traced_scenarios import SERVING, assert_lanes_are_free, of, processes, slices, traced


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_steps_and_requests_are_those_of_the_result(lod: str) -> None:
    result, document = traced(of(SERVING, lod))
    log = result.requests
    assert log is not None
    assert_lanes_are_free(document)
    assert processes(document) == {0: "replica 0 (first rank 0)", 1: "replica 1 (first rank 1)", 2: "requests"}
    steps = slices(document, cat="step")
    assert len(steps) == sum(int(runs.count.sum()) for runs in log.steps.blocks())
    assert sum(each["args"]["decoding sequences"] for each in steps) == log.decode_steps
    for each in steps:
        decoding, prompts = each["args"]["decoding sequences"], each["args"]["prompt tokens"]
        assert each["name"] == ("mixed" if decoding and prompts else "prefill" if prompts else "decode")
    begins = [each for each in document["traceEvents"] if each["ph"] == "b"]
    phases = Counter(each["name"] for each in begins if not each["name"].startswith("request"))
    assert phases == dict.fromkeys(("queue", "prefill", "decode"), 40)
    for each in begins:
        if each["name"] == "decode":
            assert each["ts"] == pytest.approx(1e6 * log.first_token_s[int(each["id2"]["local"])], abs=1e-3)
    assert begins[0]["args"]["prompt tokens"] == log.requests.prompt_tokens[0]


def test_levels_show_the_same_steps() -> None:
    shown = [
        [(each["pid"], each["name"], each["args"]["decoding sequences"]) for each in slices(document, cat="step")]
        for _, document in (traced(of(SERVING, lod)) for lod in ("medium", "high"))
    ]
    assert shown[0] == shown[1]


def test_counters() -> None:
    _, document = traced(of(SERVING))
    counters: dict[str, list[float]] = {}
    for each in document["traceEvents"]:
        if each["ph"] == "C":
            ((series, value),) = each["args"].items()
            counters.setdefault(f"{each['name']} {series}", []).append(value)
    assert set(counters) == {
        *("batch sequences", "batch prompt tokens", "KV cache in use %", "requests waiting", "requests running")
    }
    assert 0 < max(counters["KV cache in use %"]) <= 100
    assert max(counters["batch sequences"]) <= 8
    assert [counters[name][-1] for name in ("batch sequences", "requests waiting", "requests running")] == [0, 0, 0]


def test_more_steps_than_are_shown_one_by_one() -> None:
    observed = ServingTrace(most=10)
    result = simulate(of(SERVING), [observed])
    assert result.requests is not None
    shown = [text for text in observed.events() if '"cat":"step"' in text]
    assert len(shown) == len(result.requests.steps)
    assert "more than 10" in observed.left_out()[1]


def test_requests_that_do_not_end() -> None:
    config = of(SERVING)
    config = config.model_copy(update={"simulation": config.simulation.model_copy(update={"duration": 0.5})})
    result, document = traced(config)
    cut = [each for each in document["traceEvents"] if each["ph"] == "b" and each.get("args", {}).get("unfinished")]
    assert len(cut) == result.metrics["in_flight"]
    assert max(each["ts"] for each in document["traceEvents"] if each["ph"] == "e") == pytest.approx(0.5e6)


def test_disaggregated_replicas_have_a_process_of_transfers() -> None:
    serving = {**SERVING["serving"], "disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}}
    _, document = traced(of({**SERVING, "parallelism": {}, "serving": serving}))
    assert "between replicas" in processes(document).values()
    moved = slices(document, cat="transfer")
    assert moved
    assert moved[0]["args"]["bytes"] > 0
    assert_lanes_are_free(document)
