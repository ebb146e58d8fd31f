"""The trace of training: its figures are those of the result, at every level of detail."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.metrics.history import EventHistory
from simsys.simulation import simulate
from simsys.traces.step_times import Step, times_of
from simsys.traces.training_trace import TrainingTrace
from tests.helpers.traced_scenarios import assert_lanes_are_free, processes, slices, traced, training

PLANS: list[dict[str, Any]] = [
    {"strategy": "DDP", "dp_degree": 4},
    {"strategy": "FSDP", "dp_degree": 8},
    {"strategy": "TP", "tp_degree": 4},
    {"strategy": "TP_PP_DDP", "tp_degree": 2, "pp_stages": 2, "dp_degree": 2},
]


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["strategy"])
def test_parts_of_an_iteration_are_those_of_the_result(plan: dict[str, Any], lod: str) -> None:
    config = training(lod, 2, **plan)
    observed = TrainingTrace()
    result = simulate(config, [observed])
    rows = result.rows
    step = Step(0, rows["started_s"][0], rows["started_s"][0] + rows["iteration_s"][0])
    found = times_of(step, observed.activities()[0])
    assert found.compute_s == pytest.approx(rows["compute_s"][0], rel=1e-9)
    if "pp_stages" not in plan:
        assert sum(found.exposed_s.values()) == pytest.approx(rows["exposed_communication_s"][0], abs=1e-9)
        assert found.idle_s == pytest.approx(rows["idle_s"][0], abs=1e-9)
    else:  # kernels of messages begin when they are awaited, and the wait before is a bubble in the result
        waits_s = rows["exposed_communication_s"][0] + rows["bubble_s"][0] + rows["idle_s"][0]
        assert sum(found.exposed_s.values()) + found.idle_s == pytest.approx(waits_s, abs=1e-9)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["strategy"])
def test_a_representative_shows_at_medium_what_it_does_at_high(plan: dict[str, Any]) -> None:
    shown = []
    for lod in ("medium", "high"):
        observed = TrainingTrace()
        simulate(training(lod, 1, **plan), [observed])
        shown.append({rank: sorted(pieces) for rank, pieces in observed.activities().items()})
    for rank, pieces in shown[0].items():
        assert [kind for _, _, kind in pieces] == [kind for _, _, kind in shown[1][rank]]
        for place in range(2):
            times_s = [[piece[place] for piece in found] for found in (pieces, shown[1][rank])]
            exact = 1e-3 if "pp_stages" in plan else 1e-9  # messages of the ranks of a stage meet at high
            assert times_s[0] == pytest.approx(times_s[1], rel=exact, abs=1e-12)


def test_very_many_passes_are_summed_and_the_trace_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.executors.iterations.foreseen.MOST_OBSERVED", 10)
    _, document = traced(training("medium", 2, **PLANS[3]))
    assert document["simsys"]["left_out"][-1].startswith("single passes where they are very many")
    assert slices(document, name="micro-batches")


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["strategy"])
def test_lanes(plan: dict[str, Any], lod: str) -> None:
    _, document = traced(training(lod, 2, **plan))
    assert_lanes_are_free(document)
    kernels = slices(document, cat="kernel")
    assert {each["tid"] for each in kernels if not each["name"].startswith("nccl")} == {7}
    assert all(each["tid"] == each["args"]["stream"] != 7 for each in kernels if each["name"].startswith("nccl"))


def test_a_collective_is_shown_on_each_member() -> None:
    _, document = traced(training("high", 1))
    found = slices(document, name="ncclDevKernel_AllReduce_Sum")
    by_rank = {rank: [(each["ts"], each["dur"]) for each in found if each["pid"] == rank] for rank in range(4)}
    assert by_rank[0]
    assert all(by_rank[rank] == by_rank[0] for rank in range(4))
    assert found[0]["args"]["Process Group Ranks"] == "[0, 1, 2, 3]"
    assert found[0]["args"]["In msg nelems"] > 0


def test_a_representative_names_the_ranks_it_stands_for() -> None:
    _, document = traced(training("medium", 3))
    assert processes(document) == {0: "rank 0 (stands for 4 ranks: 0 to 3)"}
    about = document["simsys"]
    assert about["represented_ranks"] == {"0": [0, 1, 2, 3]}
    assert about["left_out"] == [
        "1 of 4 ranks are shown, each for others that do the same at the same time",
        "operations of iterations 1 to 2: each equal to iteration 0",
    ]


def test_at_high_nothing_is_left_out() -> None:
    _, document = traced(training("high", 3))
    assert document["simsys"]["left_out"] == []
    assert processes(document) == {rank: f"rank {rank}" for rank in range(4)}
    assert len(slices(document, cat="user_annotation", pid=0)) == 3


def test_other_observers_may_need_every_iteration() -> None:
    _, document = traced(training("medium", 5), [EventHistory()])
    assert len([each for each in slices(document, cat="user_annotation") if "ProfilerStep" in each["name"]]) == 5


def test_memory_and_bandwidth_are_counted() -> None:
    result, document = traced(training("high", 1))
    counters = [each for each in document["traceEvents"] if each["ph"] == "C" and each["pid"] == 0]
    memory = [each["args"]["GB"] for each in counters if each["name"] == "memory in use"]
    assert max(memory) == pytest.approx(result.metrics["peak_memory_bytes"] / 1e9, rel=1e-5)
    bandwidth = [each["args"]["GB/s"] for each in counters if each["name"] == "bus bandwidth"]
    assert bandwidth[-1] == 0
    assert 0 < max(bandwidth) < 450  # of NVLink in one direction


def test_a_long_run_is_cut_and_says_so() -> None:
    config = training("high", 2)
    observed = TrainingTrace(most=50)
    simulate(config, [observed])
    assert sum(len(part) for part in observed.activities().values()) <= 4 * 50
    assert "more than 50 slices" in observed.left_out()[-1]


def test_observing_changes_nothing() -> None:
    config = training("high", 2)
    assert traced(config)[0].as_dict() == simulate(config).as_dict()
