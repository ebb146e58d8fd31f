"""One tier: its LRU order against a naive list, and its channels against closed forms."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.config.kv_tiers import TierKind
from simsys.platform.environment import Environment
from simsys.serving.kv_tier import TIER_KINDS, ReadChannel, Tier, TierSpec

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["write", "use", "promote", "evicted"]), st.lists(st.integers(0, 3), max_size=6)),
    max_size=40,
)


def chunks_of(prompt: list[int]) -> list[tuple[int, ...]]:
    """By place, all tokens up to the end of the chunk."""
    return [tuple(prompt[: end + 1]) for end in range(len(prompt))]


class NaiveLRU:
    """A list, the least recently used chunk first."""

    def __init__(self, most: int, below: NaiveLRU | None = None) -> None:
        self.most, self.below, self.held = most, below, list[tuple[int, ...]]()

    def put(self, key: tuple[int, ...], *, again: bool = True) -> None:
        if key in self.held:
            if not again:
                return
            self.held.remove(key)
        self.held.append(key)

    def shrink(self) -> None:
        while len(self.held) > self.most:
            key = self.held.pop(0)
            if self.below is not None:
                self.below.put(key, again=False)
                self.below.shrink()


@given(actions=ACTIONS, most=st.integers(1, 6), below=st.integers(1, 6))
def test_order_is_that_of_a_naive_lru(actions: list[tuple[str, list[int]]], most: int, below: int) -> None:
    env = Environment()
    lower = Tier(TierSpec("ssd", below, 1.0, 1.0, 1.0, writes_back=True), env)
    upper = Tier(TierSpec("cpu", most, 1.0, 1.0, 1.0), env, lower)
    naive = NaiveLRU(most, NaiveLRU(below))
    assert naive.below is not None
    for action, prompt in actions:
        keys = chunks_of(prompt)
        if action == "write":
            upper.write(keys)
        elif action == "promote":
            upper.take_promoted(keys)
        elif action == "use":
            upper.use(keys)
            keys = [key for key in keys if key in naive.held]
        elif keys:
            upper.take_evicted(keys[-1])
            keys = [key for key in keys[-1:] if key not in naive.held]
        for key in reversed(keys):
            naive.put(key)
        naive.shrink()
        assert list(upper.held) == naive.held
        assert list(lower.held) == naive.below.held


@given(actions=ACTIONS, most=st.integers(1, 12))
def test_a_chunk_is_never_there_without_those_before_it(actions: list[tuple[str, list[int]]], most: int) -> None:
    """The end of a prompt is evicted first, so that what is left of it can be found."""
    tier = Tier(TierSpec("cpu", most, 1.0, 1.0, 1.0), Environment())
    for _, prompt in actions:
        tier.write(chunks_of(prompt))
        assert all(key[:-1] in tier.held for key in tier.held if len(key) > 1)


def test_reads_take_turns_and_latencies_overlap() -> None:
    env, arrived_s = Environment(), list[float]()
    channel = ReadChannel(env, bytes_per_s=10.0, latency_s=3.0)
    for nbytes in (20.0, 50.0):
        channel.start(nbytes, lambda: arrived_s.append(env.now))
    env.run()
    assert arrived_s == [3.0 + 2.0, 2.0 + 3.0 + 5.0]


@pytest.mark.parametrize(("at_s", "came"), [(0.5, 0.0), (2.0, 10.0), (4.0, 30.0)])
def test_a_cancelled_read_has_what_came_and_frees_the_channel(at_s: float, came: float) -> None:
    env, arrived_s, found = Environment(), list[float](), list[float]()
    channel = ReadChannel(env, bytes_per_s=10.0, latency_s=1.0)
    first = channel.start(100.0, lambda: arrived_s.append(-1.0))
    channel.start(20.0, lambda: arrived_s.append(env.now))
    env.at(at_s, lambda _: found.append(channel.cancel(first)))
    env.run()
    assert found == [came]
    assert arrived_s == [at_s + 1.0 + 2.0]


def test_a_cancelled_read_that_waits_has_nothing() -> None:
    env, arrived_s = Environment(), list[float]()
    channel = ReadChannel(env, bytes_per_s=10.0, latency_s=0.0)
    channel.start(10.0, lambda: arrived_s.append(env.now))
    second = channel.start(10.0, lambda: arrived_s.append(-1.0))
    assert channel.cancel(second) == 0.0
    env.run()
    assert arrived_s == [1.0]


def test_writes_take_turns_and_only_missing_chunks_are_written() -> None:
    moved = list[tuple[str, bool, float]]()
    spec = TierSpec("cpu", 9, 10.0, 1.0, 5.0, latency_s=0.5)
    tier = Tier(spec, Environment(), None, [lambda *each: moved.append(each)])
    tier.write(["a", "b"])
    tier.write(["a", "b", "c"])
    assert moved == [("cpu", False, 20.0), ("cpu", False, 10.0)]
    assert dict(tier.held) == {"a": 4.5, "b": 4.5, "c": 6.5}


def test_kinds_are_those_that_a_user_may_write() -> None:
    assert get_args(TierKind) == TIER_KINDS
