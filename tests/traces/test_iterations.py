"""Annotations of iterations, and of what ranks stop for."""

from __future__ import annotations

import json

from simsys.traces.iterations import Iterations


def marked(*marks: tuple[str, float]) -> Iterations:
    iterations = Iterations()
    for name, now_s in marks:
        iterations.mark(0, name, now_s)
    return iterations


def shown(iterations: Iterations) -> list[tuple[str, int, float, float]]:
    events = [json.loads(text) for text in iterations.events(5, 0, 1)]
    assert {each["pid"] for each in events} == {5}
    return [(each["name"], each["tid"], each["ts"], each["dur"]) for each in events]


def test_steps_are_annotated_as_by_pytorchs_profiler() -> None:
    iterations = marked(("iteration_start", 0.0), ("forward", 0.1), ("iteration_end", 1.0), ("iteration_start", 1.0))
    iterations.mark(0, "iteration_end", 3.0)
    assert shown(iterations) == [("ProfilerStep#0", 0, 0.0, 1e6), ("ProfilerStep#1", 0, 1e6, 2e6)]
    assert iterations.left_out() == []


def test_repeated_iterations_are_one_slice_and_left_out() -> None:
    iterations = marked(("iteration_start", 0.0), ("iteration_end", 1.0))
    iterations.repeat(0, 3, 1.0, 1.0, 0)
    assert shown(iterations)[1] == ("iterations 1 to 3, each like 0", 0, 1e6, 3e6)
    assert iterations.left_out() == ["operations of iterations 1 to 3: each equal to iteration 0"]


def test_many_sets_of_repeated_iterations_are_counted() -> None:
    iterations = marked(("iteration_start", 0.0), ("iteration_end", 1.0))
    for place in range(5):
        iterations.repeat(0, 1, 1.0 + place, 1.0, 0)
    assert iterations.left_out() == [
        "operations of iteration 1: equal to iteration 0",
        "operations of iteration 2: equal to iteration 0",
        "operations of 3 further sets of iterations",
    ]


def test_stops_have_their_own_lane() -> None:
    iterations = marked(("iteration_start", 0.0), ("data_loaded", 0.25), ("checkpoint", 0.75), ("iteration_end", 1.0))
    assert shown(iterations)[1:] == [("waits for data", 1, 0.0, 0.25e6), ("checkpoint", 1, 0.75e6, 0.25e6)]
    assert marked(("iteration_start", 0.0), ("data_loaded", 0.0), ("iteration_end", 1.0)).stops == {}
