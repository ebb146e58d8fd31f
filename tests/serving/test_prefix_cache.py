"""The prefix cache against a naive one, which keeps an object for every block and a list of those that are free."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.config.experiment import SimulationConfig
from simsys.report.summary import summary_text
from simsys.serving.prefix_cache import PrefixCache, block_chains
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences
from simsys.simulation import simulate
from tests.helpers.thorough import cases


@dataclass(eq=False)
class Block:
    """A block, what it holds if somebody could find it, how many requests use it, and which one it follows."""

    key: Hashable = None
    users: int = 0
    before: Block | None = None


class NaiveCache:
    """Lists of blocks; the free ones in the order in which they are given up.

    Args:
        num_blocks: Blocks in memory.
        block_size: Tokens of each.
        keys: By request, what its blocks hold, as far as that can be found.
    """

    def __init__(self, num_blocks: int, block_size: int, keys: list[list[Hashable]]) -> None:
        self.block_size, self.keys = block_size, keys
        self.free = [Block() for _ in range(num_blocks)]
        self.found: dict[Hashable, Block] = {}
        self.lists: dict[int, list[Block]] = {}

    def match(self, request: int, limit: int) -> int:
        count = 0
        while count < min(limit, len(self.keys[request])) and self.keys[request][count] in self.found:
            count += 1
        return count

    def new(self) -> Block:
        block = self.free.pop(0)
        if block.key is not None:
            del self.found[block.key]
        block.key, block.users = None, 1
        return block

    def use(self, key: Hashable) -> Block:
        block = self.found[key]
        if not block.users:
            self.free.remove(block)
        block.users += 1
        return block

    def give(self, block: Block) -> None:
        block.users -= 1
        if not block.users:
            self.free.append(block)

    def hold(self, request: int, tokens: int, blocks: int) -> None:
        mine, keys = self.lists[request], self.keys[request]
        full = min(tokens // self.block_size, len(keys))
        given = []
        for place in range(self.match(request, full)):
            if place >= len(mine):
                mine.append(self.use(keys[place]))
            elif mine[place] is not self.found[keys[place]]:
                given.append(mine[place])
                mine[place] = self.use(keys[place])
        while given and len(mine) < blocks:
            mine.append(given.pop())
        mine += [self.new() for _ in range(blocks - len(mine))]
        for block in given:
            self.give(block)
        for place in range(full):
            if mine[place].key is None:
                mine[place].key = keys[place]
                self.found[keys[place]] = mine[place]
                mine[place].before = mine[place - 1] if place else None

    def release(self, request: int, tokens: int) -> None:
        mine = self.lists[request]
        for block in reversed(mine[tokens // self.block_size :]):
            if block.key is not None:
                if block.users > 1 or any(other.before is block for other in self.found.values()):
                    break
                del self.found[block.key]  # it was never filled
                block.key = None
        self.hold(request, tokens, len(mine))
        for block in reversed(self.lists.pop(request)):
            self.give(block)


@st.composite
def tables(draw: st.DrawFn) -> RequestTable:
    """Prompts that part from one another at some id, some of them turns of a conversation."""
    hash_tokens = draw(st.integers(1, 9))
    ids: list[tuple[int, ...]] = []
    after, unused = [], 0
    for request in range(draw(st.integers(1, 6))):
        before = draw(st.integers(-1, request - 1))
        shared = draw(st.integers(0, len(ids[before]))) if before >= 0 else 0
        own = draw(st.integers(0, 5))
        ids.append((*(ids[before][:shared] if before >= 0 else ()), *range(unused, unused + own)))
        unused += own
        after.append(before if before >= 0 and draw(st.booleans()) else -1)
    prompts = [max(1, len(each) * hash_tokens + draw(st.integers(0, 8))) for each in ids]
    return RequestTable(
        [0.0] * len(ids),
        prompts,
        [draw(st.integers(1, 12)) for _ in ids],
        after=after,
        hash_ids=ids,
        hash_block_tokens=hash_tokens,
    )


def naive_keys(requests: RequestTable, block_size: int) -> list[list[Hashable]]:
    """What the blocks of each request hold: the id of the last token, and which block it is."""
    keys: list[list[Hashable]] = []
    for request, ids in enumerate(requests.hash_ids):
        for other, before in enumerate(requests.after):
            if (
                before == request
                and requests.hash_ids[other][: len(requests.hash_ids[request])] == (requests.hash_ids[request])
            ):
                ids = requests.hash_ids[other]
        every = requests.hash_block_tokens
        blocks = len(ids) * every // block_size
        keys.append([(ids[((block + 1) * block_size - 1) // every], block) for block in range(blocks)])
    return keys


@settings(max_examples=cases(300), deadline=None)
@given(data=st.data(), requests=tables(), num_blocks=st.integers(1, 40), block_size=st.integers(1, 7))
def test_blocks_and_their_order_are_those_of_the_naive_cache(
    data: st.DataObject, requests: RequestTable, num_blocks: int, block_size: int
) -> None:
    sequences = Sequences(requests)
    cache = PrefixCache(num_blocks, block_size, sequences, block_chains(requests, block_size))
    naive = NaiveCache(num_blocks, block_size, naive_keys(requests, block_size))
    tokens_of: dict[int, int] = {}
    computed: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        request = data.draw(st.integers(0, len(requests) - 1))
        last = sequences.final_cache_tokens(request)
        if request not in tokens_of:
            cached = cache.cached_tokens(request)
            limit = (requests.prompt_tokens[request] - 1) // block_size
            assert cached == naive.match(request, limit) * block_size
            tokens = data.draw(st.integers(cached, max(cached, last)))
            reserve = data.draw(st.integers(0, last))
            blocks = cache.blocks_for(max(tokens, reserve))
            idle = sum(not naive.found[key].users for key in naive.keys[request][: cached // block_size])
            fits = blocks - cached // block_size + idle <= len(naive.free)
            assert cache.holds(request, cached) == (idle == 0)
            assert cache.admission_blocks(request, max(tokens, reserve)) == blocks - cached // block_size + idle
            assert cache.start(request, tokens, cached=cached, reserve=reserve) == fits
            if fits:
                naive.lists[request] = [naive.use(key) for key in naive.keys[request][: cached // block_size]]
                naive.hold(request, tokens, blocks)
                computed[request], tokens_of[request] = cached, tokens
        elif data.draw(st.booleans()):
            computed[request] = tokens_of[request]
            tokens = data.draw(st.integers(tokens_of[request], max(tokens_of[request], last)))
            blocks = max(cache.blocks_for(tokens), len(naive.lists[request]))
            fits = blocks - len(naive.lists[request]) <= len(naive.free)
            assert cache.grow(request, tokens) == fits
            if fits:
                naive.hold(request, tokens, blocks)
                tokens_of[request] = tokens
        else:
            tokens = data.draw(st.sampled_from([computed.pop(request), tokens_of.pop(request)]))
            cache.release(request, tokens)
            naive.release(request, tokens)
        assert cache.free_blocks == len(naive.free)
        assert cache.cached_blocks == sum(block.key is not None for block in naive.free)
        for other in range(len(requests)):
            limit = (requests.prompt_tokens[other] - 1) // block_size
            found = naive.match(other, limit)
            assert cache.cached_tokens(other) == found * block_size
            needed = [naive.found[key] for key in naive.keys[other][:found]]
            before = min((naive.free.index(block) for block in needed if not block.users), default=num_blocks)
            assert cache.spare_blocks(other, most := data.draw(st.integers(0, num_blocks))) == min(before, most)
    for request, tokens in tokens_of.items():
        cache.release(request, tokens)
    assert cache.free_blocks == num_blocks
    assert not cache.held


def test_blocks_that_decoding_gives_back_are_used_before_cached_ones() -> None:
    requests = RequestTable([0.0] * 3, [8, 24, 9], [1, 1, 1], hash_ids=[(1, 2), (3,), (1, 2)], hash_block_tokens=4)
    sequences = Sequences(requests)
    cache = PrefixCache(8, 4, sequences, block_chains(requests, 4))
    assert cache.start(0, 8)
    sequences.computed_tokens[0] = 8
    cache.release(0, 8)
    assert cache.cached_tokens(2) == 8
    cache.take_for_decode(3)
    cache.give_back(3)
    assert cache.start(1, 24), "six blocks hold nothing"
    assert (cache.free_blocks, cache.cached_tokens(2)) == (2, 8)


def test_what_a_preempted_request_adds_after_its_return_is_not_cached() -> None:
    """It has no ids by which another request could find it, and would take the place of prefixes."""
    requests = RequestTable([0.0] * 2, [8] * 2, [17] * 2)
    sequences = Sequences(requests)
    cache = PrefixCache(20, 4, sequences, block_chains(requests, 4))
    cached = []
    for request, tokens in ((1, 12), (0, 12), (1, 24)):
        assert cache.start(request, 12, cached=cache.cached_tokens(request))
        cache.take_for_decode((tokens - 12) // 4)
        sequences.computed_tokens[request], sequences.generated_tokens[request] = tokens, tokens - 7
        if tokens < 24:  # it is preempted
            cache.expect_back(request)
        cache.release(request, tokens)
        cached.append(cache.cached_blocks)
    assert cached == [3, 6, 6]
    assert cache.free_blocks == 20


def test_what_preempted_requests_find_of_themselves_is_no_hit() -> None:
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM"},
        model={"name": "Llama3-8B"},
        serving={"prefix_caching": True, "gpu_memory_utilization": 0.3},
        workload={
            "arrivals": {"kind": "poisson", "rate": "20 req/s"},
            "prompt_tokens": 512,
            "output_tokens": 512,
            "num_requests": 300,
            "prefixes": {"groups": 1_000_000, "tokens": 16},
        },
    )
    metrics = simulate(config).metrics
    assert metrics["preemptions"] > 0
    assert metrics["prefix_cache_queries"] == 300 * (512 + 16)
    assert metrics["prefix_cache_hits"] == 0


@pytest.mark.parametrize(
    ("workload", "known"), [({}, 0), ({"prefixes": {"groups": 2, "tokens": 16}}, 1), ({"sessions": {"turns": 2}}, 1)]
)
def test_a_result_says_whether_the_workload_gives_prefixes(workload: dict[str, Any], known: int) -> None:
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM"},
        model={"name": "Llama3-8B"},
        serving={"prefix_caching": True},
        workload={
            "arrivals": {"kind": "all_at_once"},
            "prompt_tokens": 64,
            "output_tokens": 8,
            "num_requests": 8,
            **workload,
        },
    )
    result = simulate(config)
    assert result.metrics["prefixes_known"] == known
    assert ("the workload has no shared prefixes" in " ".join(summary_text(result).split())) == (not known)
    assert json.loads(json.dumps(result.as_dict(), allow_nan=False))["metrics"]["prefixes_known"] == known
