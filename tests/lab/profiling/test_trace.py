"""What is read of a Kineto trace."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.lab.profiling.trace import CollectiveCall, Trace


def event(name: str, start_us: float, length_us: float, **arguments: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": start_us, "dur": length_us, "tid": 1, "args": arguments}


EVENTS = [
    event("lab::forward", 0.0, 100.0),
    event("lab::backward", 100.0, 200.0),
    event("c10d::allreduce_", 150.0, 1.0, **{"Input Dims": [[[10], [6]], []], "Input type": ["TensorList", ""]}),
    event("c10d::_allgather_base_", 5.0, 1.0, **{"Input Dims": [[8], [4]], "Input type": ["c10::BFloat16"] * 2}),
    event("c10d::allreduce_", 160.0, 1.0, **{"Input Dims": [[[1]], []], "Input type": ["TensorList", ""]}),
    event("gloo:all_gather", 50.0, 30.0),
    event("gloo:all_reduce", 160.0, 40.0),
    event("gloo:all_reduce", 180.0, 40.0),
    {"name": "[memory]", "ts": 1.0, "args": {"Bytes": 100}},
    {"name": "[memory]", "ts": 2.0, "args": {"Bytes": 50}},
    {"name": "[memory]", "ts": 3.0, "args": {"Bytes": -120}},
]


def test_collectives_in_order_without_single_numbers() -> None:
    found = Trace(EVENTS).collectives()
    assert [(each.kind, each.nbytes, each.phase) for each in found] == [
        ("all_gather", 16.0, "forward"),
        ("all_reduce", 40.0, "backward"),
    ]
    assert isinstance(found[0], CollectiveCall)


def test_exchanges_at_once_count_once() -> None:
    trace = Trace(EVENTS)
    assert trace.phase_s() == pytest.approx({"forward": 1e-4, "backward": 2e-4})
    assert trace.exchange_s("forward") == pytest.approx(3e-5)
    assert trace.exchange_s("backward") == pytest.approx(6e-5)


def test_the_greatest_growth_of_memory() -> None:
    assert Trace(EVENTS).peak_growth_bytes() == 150


def test_what_a_collective_allocates_ends_with_it_though_its_free_is_not_recorded() -> None:
    def memory(time_us: float, nbytes: int, place: int) -> dict[str, Any]:
        return {"name": "[memory]", "ts": time_us, "args": {"Bytes": nbytes, "Addr": place}}

    exchange = [event("c10d::_reduce_scatter_base_", 10.0, 2.0), event("gloo:reduce_scatter", 11.0, 20.0)]
    inside, after = memory(10.5, 100, 1), memory(40.0, 60, 2)
    assert Trace([*exchange, inside, after]).peak_growth_bytes() == 100
    assert Trace([inside, after]).peak_growth_bytes() == 160
    assert Trace([inside, memory(20.0, 70, 1), after]).peak_growth_bytes() == 130
    assert Trace([*exchange, inside, memory(15.0, 30, 2)]).peak_growth_bytes() == 130
