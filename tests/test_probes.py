"""Probes observe and change nothing, and one that fails is taken out of the run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from simsys.executors import LEVELS
from simsys.ops import Operation
from simsys.parallel.layout import Layout
from simsys.probes import HOOKS, Probe, Probes
from simsys.rank import Rank
from tests.helpers.toys import Log, simulate, work_of

LAYOUT = Layout(data=2, pipeline=2)


def program(rank: Rank) -> Iterator[Any]:
    """A bit of everything that probes hear of."""
    rank.mark("iteration_start")
    rank.allocate(1e9, name="weights")
    yield rank.compute(work_of(0.3))
    pending = rank.all_reduce(1e9, over="data")
    if rank.index < 2:
        yield rank.send(rank.index + 2, 1e8)
    else:
        yield rank.recv(rank.index - 2)
    yield pending
    rank.release(name="weights")
    rank.mark("iteration_end")


class Counter(Probe):
    """Hears only operations and counts them; fails at a given one."""

    def __init__(self, fail_at: int = 0) -> None:
        self.heard, self.fail_at = 0, fail_at

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        self.heard += 1
        if self.heard == self.fail_at:
            raise ZeroDivisionError("a bug in the probe")


class Deaf(Probe):
    """Hears nothing."""


@pytest.mark.parametrize("level", LEVELS)
def test_observing_changes_neither_a_time_nor_the_number_of_events(level: str) -> None:
    unseen = simulate(level, program, LAYOUT, probes=[])
    seen = simulate(level, program, LAYOUT, probes=[Log(), Counter(), Log()])
    assert seen.ends_s == unseen.ends_s
    assert seen.platform.env.events_scheduled == unseen.platform.env.events_scheduled


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("fail_at", [1, 2])
def test_a_probe_that_fails_is_removed_with_a_warning_and_the_run_goes_on(level: str, fail_at: int) -> None:
    broken, before, after = Counter(fail_at), Counter(), Log()
    unseen = simulate(level, program, LAYOUT, probes=[])
    with pytest.warns(RuntimeWarning, match=r"Counter\.operation failed and was removed: ZeroDivisionError") as caught:
        run = simulate(level, program, LAYOUT, probes=[before, broken, after])
    assert len(caught) == 1
    assert run.ends_s == unseen.ends_s
    assert broken.heard == fail_at
    assert before.heard == len(after.operations) > 2  # the others hear everything, the failing round included
    assert len(after.marks) == 2 * len(run.ends_s)


def test_a_probe_that_fails_in_one_hook_hears_no_other_either() -> None:
    class Broken(Log):
        def mark(self, rank: int, name: str, now_s: float) -> None:
            raise ValueError("a bug")

    broken = Broken()
    with pytest.warns(RuntimeWarning, match=r"Broken\.mark failed and was removed: ValueError\('a bug'\)"):
        simulate("high", program, LAYOUT, probes=[broken])
    assert broken.memory_in_use == broken.operations == []


def test_what_must_stop_the_program_passes_through_a_probe() -> None:
    class Stopped(Probe):
        def mark(self, rank: int, name: str, now_s: float) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate("medium", program, LAYOUT, probes=[Stopped()])


def test_only_hooks_that_a_probe_overrides_are_called() -> None:
    probes = Probes([Counter(), Deaf(), Log(), Counter()])
    assert {hook: len(getattr(probes, hook)) for hook in HOOKS} == dict.fromkeys(HOOKS, 0) | {
        "operation": 3,
        "memory": 1,
        "mark": 1,
    }


def test_without_probes_every_hook_is_empty() -> None:
    assert not any(getattr(Probes(), hook) for hook in HOOKS)


def test_every_hook_of_a_probe_does_nothing_until_overridden() -> None:
    probe = Probe()
    arguments = {
        "operation": 3,
        "waited": 4,
        "memory": 3,
        "memory_by_name": 3,
        "mark": 3,
        "repeated": 5,
        "cycles_left_out": 4,
        "images_encoded": 4,
        "kv_moved": 3,
        "kv_loaded": 4,
        "kv_reused": 3,
        "request_rejected": 3,
        "prefix_lookup": 4,
        "kv_transferred": 4,
        "request_joined": 3,
        "scaled": 3,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [getattr(probe, hook)(*[0] * arguments.get(hook, 2)) for hook in HOOKS] == [None] * len(HOOKS)


def test_an_inherited_hook_is_heard_and_probes_are_called_in_order() -> None:
    calls: list[str] = []

    class First(Probe):
        def mark(self, rank: int, name: str, now_s: float) -> None:
            calls.append(f"{type(self).__name__} {name}")

    class Second(First):
        """Overrides nothing itself."""

    for hook in Probes([Second(), First()]).mark:
        hook(0, "begin", 0.0)
    assert calls == ["Second begin", "First begin"]
