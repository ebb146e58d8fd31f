"""Events at times of one's own."""

from __future__ import annotations

import math

import pytest

from simsys.compat import Event, EventType, SimulationEngine
from simsys.errors import UsageError


def test_usage_example() -> None:
    seen: list[tuple[float, int]] = []

    def my_callback_function(event: Event) -> None:
        seen.append((engine.current_time, event.node_id))

    engine = SimulationEngine()

    # Schedule events
    event = Event(
        timestamp=1.0,
        event_type=EventType.COMPUTE_START,
        node_id=0,
        callback=my_callback_function,
    )
    engine.schedule_event(event)

    # Run simulation
    stats = engine.run(collect_history=True)

    assert seen == [(1.0, 0)]
    assert engine.event_history == [event]
    assert stats == {"simulated_s": 1.0, "events": 1, "events_by_type": {"COMPUTE_START": 1}}


def test_the_types_of_the_design() -> None:
    assert {str(each) for each in EventType} == {
        f"{what}_{end}" for what in ("COMPUTE", "COMM", "ALLREDUCE", "ITERATION") for end in ("START", "END")
    }


def test_order_and_further_events() -> None:
    engine = SimulationEngine()

    def again(event: Event) -> None:
        if event.timestamp < 3.0:
            engine.schedule_event(Event(event.timestamp + 1.0, EventType.COMM_START, callback=again))

    engine.schedule_event(Event(2.0, EventType.COMM_END, node_id=1))
    engine.schedule_event(Event(2.0, EventType.COMM_END, node_id=2))
    engine.schedule_event(Event(0.0, EventType.COMM_START, callback=again))
    assert engine.run(until=1.5, collect_history=True)["events"] == 2
    engine.run(collect_history=True)
    assert [event.timestamp for event in engine.event_history] == [0.0, 1.0, 2.0, 2.0, 2.0, 3.0]
    assert [event.node_id for event in engine.event_history if event.event_type == EventType.COMM_END] == [1, 2]


@pytest.mark.parametrize("time_s", [0.5, -1.0, math.nan, math.inf])
def test_the_past_is_refused(time_s: float) -> None:
    engine = SimulationEngine()
    engine.schedule_event(Event(1.0, EventType.COMM_START))
    engine.run()
    with pytest.raises(UsageError, match="at 1 s or later"):
        engine.schedule_event(Event(time_s, EventType.COMM_START))
