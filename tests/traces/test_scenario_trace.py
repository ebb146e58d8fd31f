"""The trace of a scenario as a document, also of several jobs."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.simulation import simulate
from simsys.traces.scenario_trace import ScenarioTrace
from tests.helpers.traced_scenarios import (
    JOBS,
    SERVING,
    assert_lanes_are_free,
    of,
    processes,
    slices,
    traced,
    training,
)


def test_the_document_is_as_pytorchs_profiler_writes_it() -> None:
    result, document = traced(training())
    assert (document["schemaVersion"], document["displayTimeUnit"]) == (1, "ms")
    assert document["distributedInfo"] == {"backend": "simsys", "rank": 0, "world_size": 4}
    assert {"traceName", "baseTimeNanoseconds", "deviceProperties"} <= set(document)
    about = document["simsys"]
    assert (about["scenario"], about["level_of_detail"], about["kind"]) == ("gpt2", "medium", "training")
    assert about["contention"] == result.contention


@pytest.mark.parametrize("settings", [SERVING, JOBS], ids=["serving", "jobs"])
def test_each_trace_leaves_out_what_it_says(settings: dict[str, Any]) -> None:
    _, document = traced(of(settings))
    assert document["simsys"]["left_out"]


def test_jobs_have_processes_of_their_own() -> None:
    result, document = traced(of(JOBS))
    names = processes(document)
    assert sorted(names.values()) == [
        "chat: replica 0 (first rank 0)",
        "chat: requests",
        "large: rank 0 (stands for 4 ranks: 0 to 3)",
        "small: rank 0 (stands for 2 ranks: 0, 1)",
    ]
    assert len(names) == 4
    assert_lanes_are_free(document)
    labels = {each["args"]["labels"] for each in document["traceEvents"] if each["name"] == "process_labels"}
    assert labels == {"small", "large", "chat"}
    pid = next(pid for pid, name in names.items() if name.startswith("large"))
    steps = [each for each in slices(document, pid=pid) if "ProfilerStep" in each["name"]]
    assert steps[-1]["ts"] + steps[-1]["dur"] == pytest.approx(1e6 * result.rows["ended_s"][1], abs=1e-2)
    begins = [each for each in document["traceEvents"] if each["ph"] == "b" and each["name"].startswith("request")]
    chat = result.jobs[2].requests
    assert chat is not None
    assert begins[0]["args"]["prompt tokens"] == chat.requests.prompt_tokens[0]


def test_sentences_about_several_jobs_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = ScenarioTrace(of(JOBS))
    simulate(of(JOBS), [trace.probe])
    texts = trace.left_out()
    assert texts[0] == "small: 1 of 2 ranks are shown, each for others that do the same at the same time"
    assert any(text.startswith("chat: kernels") for text in texts)
    for part in trace.parts.values():
        monkeypatch.setattr(part, "left_out", lambda: ["all"])
    assert trace.left_out() == ["small, large, chat: all"]
