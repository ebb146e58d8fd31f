"""The order in which replicas that decode fetch caches."""

from __future__ import annotations

import pytest

from frameworks.disaggregated_decode import DisaggregatedDecode
from frameworks.llm_decode import LLMDecode
from frameworks.llm_prefill import LLMPrefill
from simsys.probes import Probes
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences
from simsys.testing import toy_platform

BLOCK = 4


def scheduler(waiting: list[int], elsewhere: set[int], free_blocks: int) -> tuple[DisaggregatedDecode, list[int]]:
    """A scheduler with a queue, and a list of the requests whose caches it fetches; each cache has two blocks."""
    sequences = Sequences(RequestTable([0.0] * 4, [8] * 4, [9] * 4))
    kv = PagedKVCache(free_blocks + 1, BLOCK)
    assert kv.grow(3, 1)
    options = DisaggregatedDecode.Options(max_num_seqs=4, max_num_batched_tokens=64)
    phases = LLMPrefill(sequences), LLMDecode(sequences, kv)
    made = DisaggregatedDecode(options, sequences, kv, *phases, toy_platform(1).env, Probes([]))
    fetched: list[int] = []
    made.elsewhere, made.start_fetch = elsewhere, fetched.append
    for request in waiting:
        sequences.computed_tokens[request] = 8 if request in elsewhere else 0
        made.waiting.append(request)
    return made, fetched


@pytest.mark.parametrize(("free_blocks", "expected"), [(1, []), (2, [1]), (4, [1, 0]), (9, [1, 0, 2])])
def test_caches_are_fetched_in_the_order_of_the_queue_while_they_fit(free_blocks: int, expected: list[int]) -> None:
    decoding, fetched = scheduler([1, 0, 2], {0, 1, 2}, free_blocks)
    assert decoding.schedule() == []
    assert fetched == expected
    assert list(decoding.waiting) == [request for request in (1, 0, 2) if request not in expected]


def test_a_preempted_request_is_recomputed_before_later_caches_are_fetched() -> None:
    decoding, fetched = scheduler([1, 0], {0}, free_blocks=0)
    assert decoding.schedule() == []
    assert (fetched, list(decoding.waiting)) == ([], [1, 0])
    roomy, fetched = scheduler([1, 0], {0}, free_blocks=9)
    assert [tuple(chunk) for chunk in roomy.schedule()] == [(1, 8)]
    assert (fetched, list(roomy.waiting)) == ([0], [])
