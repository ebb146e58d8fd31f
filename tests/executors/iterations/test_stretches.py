"""Operations that follow one another as one: the same times, wherever launches have got to."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from simsys.collectives import CollectiveKind
from simsys.executors.iterations.pass_times import PassTimes
from simsys.executors.iterations.stretches import Stretch, stretches
from simsys.ops import Collective, Compute, Overlapped, PassOperation
from simsys.parallel.layout import Layout
from simsys.platform.traffic import Account
from tests.helpers.toys import work_of

GROUP = Layout(tensor=2).group(0, "tensor")
COMPUTE_S = {"short": 0.1, "long": 2.0}
LAUNCH_S, EXCHANGE_S = 0.5, 1.5
SENT = Account(lambda: iter(()))


def compute(name: str) -> Compute:
    return Compute(0, work_of(1.0), name)


def exchange() -> Collective:
    return Collective(0, CollectiveKind.ALL_REDUCE, GROUP, 8.0, "exchange")


def add(times: PassTimes, op: PassOperation) -> None:
    """Two lengths of computations, each with a launch, and one of collectives."""
    if isinstance(op, Compute):
        times.compute(COMPUTE_S[op.name], LAUNCH_S)
    elif isinstance(op, Collective):
        times.exchange(op, EXCHANGE_S)
    else:
        times.exchange(op.collective, EXCHANGE_S, times.compute(COMPUTE_S[op.compute.name], LAUNCH_S))


OPS: list[PassOperation] = [
    compute("short"),
    exchange(),
    compute("short"),
    Overlapped(compute("short"), exchange()),
    compute("long"),
    compute("short"),
]


def one_by_one(ops: Iterable[PassOperation], launched_s: float) -> PassTimes:
    times = PassTimes(launched_s=launched_s)
    for op in ops:
        add(times, op)
    return times


@pytest.mark.parametrize("count", range(1, len(OPS) + 1))
@pytest.mark.parametrize("launched_s", [-9.0, -1.0, -0.4, 0.0, 0.3, 2.0, 9.0])
def test_a_stretch_takes_as_long_as_its_operations(count: int, launched_s: float) -> None:
    found, expected = Stretch(OPS[:count], add, lambda _: SENT), one_by_one(OPS[:count], launched_s)
    assert found.times(launched_s)[1] == pytest.approx(expected.seconds, rel=1e-12)
    assert found.times(launched_s)[0].compute_s == pytest.approx(expected.compute_s, rel=1e-12)
    assert launched_s + found.launching_s == pytest.approx(expected.launched_s, rel=1e-12)


def test_what_it_sends_is_counted() -> None:
    found = Stretch(OPS, add, lambda _: SENT)
    assert found.sent == [(SENT, 16.0)]


def test_operations_whose_times_are_not_known_divide_a_pass() -> None:
    unknown = OPS[1]
    found = list(stretches(OPS, lambda op: op is not unknown, add, lambda _: SENT))
    assert [isinstance(part, Stretch) for part in found] == [True, False, True]
    assert found[1] is unknown


def test_a_pass_of_known_times_is_one_stretch_and_one_of_none_is_its_operations() -> None:
    (found,) = stretches(OPS, lambda _: True, add, lambda _: SENT)
    assert isinstance(found, Stretch)
    assert list(stretches(OPS, lambda _: False, add, lambda _: SENT)) == OPS
