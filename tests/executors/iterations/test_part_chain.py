"""Parts of a pass that begin one after another."""

from __future__ import annotations

from simsys.executors.iterations.part_chain import Begin, Chain
from simsys.ops import Pass
from simsys.platform.environment import At, Environment

PASS = Pass(())


def lasting(env: Environment, seconds: float, begun: list[float]) -> Begin:
    def begin(chain: Chain) -> bool:
        begun.append(env.now)
        At(env, env.now + seconds, chain.go_on)
        return False

    return begin


def at_once(env: Environment, begun: list[float]) -> Begin:
    def begin(_: Chain) -> bool:
        begun.append(env.now)
        return True

    return begin


def test_parts_follow_one_another_and_the_last_one_fires_the_event() -> None:
    env, begun = Environment(), list[float]()
    parts = [at_once(env, begun), lasting(env, 2.0, begun), at_once(env, begun), lasting(env, 3.0, begun)]
    ended = Chain(env, PASS, parts).begin()
    env.run(until=ended)
    assert begun == [0.0, 0.0, 2.0, 2.0]
    assert env.now == 5.0


def test_parts_that_take_no_time_of_the_clock_have_ended_at_once() -> None:
    env, begun = Environment(), list[float]()
    assert Chain(env, PASS, [at_once(env, begun)] * 3).begin().processed
    assert Chain(env, PASS, []).begin().processed
    assert begun == [0.0] * 3


def test_chains_that_one_goes_on_for_end_with_it() -> None:
    env, begun, joined = Environment(), list[float](), list[Chain]()

    def join(chain: Chain) -> bool:
        joined.append(chain)
        return False

    events = [Chain(env, PASS, [join, at_once(env, begun)]).begin() for _ in range(3)]
    ends = list[float]()
    for event in events:
        event.callbacks.append(lambda _: ends.append(env.now))
    joined[0].lead(joined[1:], [lasting(env, 4.0, begun), lasting(env, 1.0, begun)])
    env.run()
    assert begun == [0.0, 4.0]
    assert ends == [5.0] * 3
