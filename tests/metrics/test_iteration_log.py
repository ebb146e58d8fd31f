"""For what the time of an iteration counts, from operations written by hand."""

from __future__ import annotations

import pytest

from simsys.metrics.iteration_log import IterationLog


def booked(log: IterationLog, end_s: float = 10.0) -> dict[str, float]:
    """The parts of the one iteration, which add up to it."""
    log.mark("iteration_end", end_s)
    (exposed,) = log.exposed
    rows = {name: values[0] for name, values in log.rows().items()}
    parts = {"compute": rows["compute_s"], **exposed, "bubble": rows["bubble_s"], "idle": rows["idle_s"]}
    assert sum(parts.values()) + rows["data_s"] + rows["checkpoint_s"] == pytest.approx(end_s)
    assert sum(exposed.values()) == pytest.approx(rows["exposed_communication_s"])
    return parts


def begun(*, pipelined: bool = True) -> IterationLog:
    """A log at the start of an iteration."""
    log = IterationLog(pipelined=pipelined)
    log.mark("iteration_start", 0.0)
    return log


def test_waiting_for_a_message_is_a_bubble_until_it_is_sent() -> None:
    log = begun()
    log.waited(0.0, 3.0, 4.0)
    log.computation("forward", 4.0, 10.0)
    assert booked(log) == {"compute": 6.0, "pipeline": 1.0, "bubble": 3.0, "idle": 0.0}


def test_a_message_that_is_under_way_already_is_no_bubble() -> None:
    log = begun()
    log.computation("forward", 0.0, 9.0)
    log.waited(9.0, 2.0, 10.0)
    assert booked(log) == {"compute": 9.0, "pipeline": 1.0, "bubble": 0.0, "idle": 0.0}


def test_of_two_collectives_the_one_that_began_first_counts() -> None:
    log = begun()
    log.computation("backward", 0.0, 4.0)
    log.exchange("data", 3.0, 6.0)
    log.exchange("tensor", 2.0, 5.0)
    log.exchange("data", 4.5, 10.0)
    assert booked(log) == {"compute": 4.0, "tensor": 1.0, "data": 5.0, "bubble": 0.0, "idle": 0.0}


def test_a_collective_counts_before_the_message_that_is_waited_for() -> None:
    log = begun()
    log.exchange("data", 1.0, 4.0)
    log.waited(0.0, 5.0, 10.0)
    assert booked(log) == {"compute": 0.0, "data": 3.0, "pipeline": 5.0, "bubble": 2.0, "idle": 0.0}


def test_the_end_of_a_message_that_it_sent_is_waited_for_if_there_is_nothing_else() -> None:
    log = begun(pipelined=False)
    log.computation("backward", 0.0, 4.0)
    log.message(3.0, 6.0)
    log.computation("optimizer", 8.0, 10.0)
    assert booked(log) == {"compute": 6.0, "pipeline": 2.0, "bubble": 0.0, "idle": 2.0}
    assert log.optimizer == [2.0]


@pytest.mark.parametrize(("pipelined", "bubble_s"), [(True, 5.0), (False, 0.0)])
def test_waiting_for_other_stages_to_join_or_to_end_is_a_bubble_and_other_waiting_is_not(
    pipelined: bool, bubble_s: float
) -> None:
    log = begun(pipelined=pipelined)
    log.exchange("data", 1.0, 2.0)
    log.exchange("pipeline", 5.0, 6.0)
    log.computation("optimizer", 7.0, 8.0)
    idle_s = 7.0 - bubble_s
    assert booked(log) == {"compute": 1.0, "data": 1.0, "pipeline": 1.0, "bubble": bubble_s, "idle": idle_s}


def test_data_and_checkpoints_are_neither_bubble_nor_idle() -> None:
    log = begun()
    log.mark("data_loaded", 2.0)
    log.computation("forward", 2.0, 5.0)
    log.mark("checkpoint", 6.0)
    assert booked(log) == {"compute": 3.0, "bubble": 1.0, "idle": 0.0}
    assert (log.data, log.checkpoint) == ([2.0], [4.0])


def test_an_axis_is_known_even_if_all_of_it_is_hidden() -> None:
    log = begun()
    log.computation("backward", 0.0, 10.0)
    log.exchange("data", 1.0, 2.0)
    booked(log)
    assert log.axes == {"data"}
    assert log.exposed_along("data") == 0.0
