"""Queues in the order of a key, and one that several replicas share."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from simsys.serving.queues import OrderedQueue, SharedQueue


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.data())
def test_the_smallest_key_comes_next_and_of_equal_ones_the_smallest_number(
    keys: list[int], data: st.DataObject
) -> None:
    queue = OrderedQueue(lambda request: keys[request])
    for request in data.draw(st.permutations(range(len(keys)))):
        data.draw(st.sampled_from([queue.append, queue.appendleft]))(request)
    expected = sorted(range(len(keys)), key=lambda request: (keys[request], request))
    assert list(queue) == expected
    assert [queue[place] for place in range(len(keys))] == expected
    gone = data.draw(st.sampled_from(expected))
    queue.remove(gone)
    expected.remove(gone)
    assert [queue.popleft() for _ in range(len(queue))] == expected


def test_a_key_is_asked_for_when_a_request_comes_in() -> None:
    asked: list[int] = []
    queue = OrderedQueue(lambda request: asked.append(request) or -request)
    queue.append(1)
    queue.append(2)
    assert asked == [1, 2]
    assert list(queue) == [2, 1]


def test_whoever_shares_a_queue_hears_of_every_request_that_comes_in() -> None:
    told: list[int] = []
    queue = SharedQueue(deque(), told.append)
    for request in (5, 6, 7):
        queue.append(request)
    assert queue.popleft() == 5
    queue.appendleft(4)
    queue.remove(4)
    queue.remove(6)
    assert (list(queue), len(queue), queue[0]) == ([7], 1, 7)
    assert queue.popleft() == 7
    assert told == [5, 6, 7, 4]
