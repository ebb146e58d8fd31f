"""The KV cache of a replica with tiers below the memory of its GPUs.

The blocks on the GPUs are those of `PrefixCache`; chunks of a whole number of blocks are in the tiers. A prefix is
looked up on the GPUs first, then chunk by chunk in the first tier that has the chunk.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from simsys.serving.kv_tier import Tier
from simsys.serving.prefix_cache import Chains, PrefixCache
from simsys.serving.prefix_tree import Node, PrefixTree
from simsys.serving.sequences import Sequences


class Found(NamedTuple):
    """What tiers hold of a prompt beyond the blocks on the GPUs."""

    cached: int
    """Tokens on the GPUs."""
    until: int
    """Tokens up to the end of what tiers hold."""
    tokens: tuple[int, ...]
    """By tier, tokens to load."""
    written_s: float
    """When the last of these chunks is written."""

    @property
    def missing(self) -> int:
        """Tokens to load."""
        return self.until - self.cached


class TieredCache(PrefixCache):
    """Blocks on the GPUs, and chunks in tiers.

    Args:
        num_blocks: Blocks that fit into the GPUs.
        block_size: Tokens per block.
        sequences: The sequences.
        chains: Block ids of the requests.
        tiers: The tiers, the fastest one first.
        chunk_tokens: Tokens of a chunk, a multiple of `block_size`.
        depth: Tiers that loads read from; prefixes further below are prefetched.
        least_tokens: Fewest tokens to load.
        at_once: Whether prefixes in tiers count as found when a request is admitted, and are loaded then; if not,
            `begin_load` and `end_load` come first.
        decodes: Whether the cache of generated tokens is written, too.
    """

    __slots__ = (
        "_at_once",
        "_decodes",
        "_depth",
        "_least_tokens",
        "_stored",
        "chunk_tokens",
        "loaded",
        "loading",
        "returned",
        "tiers",
        "to_load",
    )

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        sequences: Sequences,
        chains: Chains,
        *,
        tiers: Sequence[Tier],
        chunk_tokens: int,
        depth: int,
        least_tokens: int = 0,
        at_once: bool = False,
        decodes: bool = False,
    ) -> None:
        super().__init__(num_blocks, block_size, sequences, chains)
        self.tiers, self.chunk_tokens = tiers, chunk_tokens
        self._depth, self._least_tokens, self._at_once, self._decodes = depth, least_tokens, at_once, decodes
        self.loading: dict[int, Found] = {}
        """Requests with blocks whose data are on their way."""
        self.loaded: dict[int, Found] = {}
        """Waiting requests with blocks whose data have come."""
        self.returned: dict[int, None] = {}
        """Waiting requests that were set aside before."""
        self.to_load: list[tuple[int, Found]] = []
        """Requests that were admitted with a prefix that is in tiers, to be loaded for their first step."""
        self._stored: dict[int, int] = {}  # by running request, tokens whose chunks were written
        if tiers[0].spec.writes_back:
            self.tree = SpillingTree(num_blocks, block_size, chains.id_tokens, tiers[0], chunk_tokens)

    def cached_tokens(self, request: int) -> int:
        """Tokens of a waiting request that need not be computed."""
        if request in self.loaded:
            return self.loaded[request].until
        if self._at_once and (found := self.wanted(request)):
            return found.until
        return self.gpu_tokens(request)

    def wanted(self, request: int) -> Found | None:
        """What is to be loaded for a waiting request; None if nothing is."""
        found = self.look_up(request, self._depth)
        return found if found.missing and found.missing >= self._least_tokens else None

    def look_up(self, request: int, depth: int) -> Found:
        """What the first tiers hold of a waiting request beyond its blocks on the GPUs.

        Args:
            request: The request.
            depth: Number of tiers.
        """
        self.foresee(0)
        cached, chain, size = self.gpu_tokens(request), self._chain(request), self.chunk_tokens
        limit = (self._sequences.target_tokens(request) - 1) // self.block_size * self.block_size
        tokens, written_s, until, place = [0] * len(self.tiers), 0.0, cached, cached // size
        last = min(len(chain) * self._id_tokens // size, -(-limit // size))
        while place < last:
            key = chain[((place + 1) * size - 1) // self._id_tokens], place
            holder = next((index for index in range(depth) if key in self.tiers[index].held), None)
            if holder is None:
                break
            end = min((place + 1) * size, limit)
            tokens[holder] += end - until
            written_s, until, place = max(written_s, self.tiers[holder].held[key]), end, place + 1
        return Found(cached, until, tuple(tokens), written_s)

    def keys(self, request: int, tokens: int) -> list[Hashable]:
        """The chunks with ids that the first tokens of a request fill."""
        chain, size, id_tokens = self._chain(request), self.chunk_tokens, self._id_tokens
        chunks = min(tokens, len(chain) * id_tokens) // size
        return [(chain[((place + 1) * size - 1) // id_tokens], place) for place in range(chunks)]

    def begin_load(self, request: int, found: Found) -> bool:
        """Take blocks for a waiting request, so that its prefix can be loaded; False if they do not fit.

        All blocks of its prompt are taken, so that requests with loaded prefixes never wait for each other's blocks.
        """
        target = self._sequences.target_tokens(request)
        if not super().start(request, found.cached, cached=found.cached, reserve=target):
            return False
        self.loading[request] = found
        self.use(request, found.until)
        return True

    def end_load(self, request: int) -> None:
        """The prefix has been loaded: others may find it, too."""
        found = self.loaded[request] = self.loading.pop(request)
        self.promote(request, found)
        self.grow_shared(request, found.until)

    def drop_load(self, request: int) -> None:
        """A waiting request gives its blocks up again; what was loaded stays cached until the blocks are needed."""
        found = self.loaded.pop(request)
        super().release_shared(request, found.until)

    def use(self, request: int, tokens: int) -> None:
        """The first tokens of a request are used now, in all tiers."""
        keys = self.keys(request, self._to_chunks(tokens))
        for tier in self.tiers:
            tier.use(keys)

    def promote(self, request: int, found: Found) -> None:
        """Keep chunks from lower tiers in the tiers above them."""
        self.foresee(0)
        lowest = max((place for place, tokens in enumerate(found.tokens) if tokens), default=0)
        if lowest:
            keys = self.keys(request, self._to_chunks(found.until))
            for tier in self.tiers[:lowest]:
                tier.take_promoted(keys)

    def _to_chunks(self, tokens: int) -> int:
        return -(-tokens // self.chunk_tokens) * self.chunk_tokens

    def store(self, request: int, tokens: int) -> None:
        """The first tokens of a running request are computed: write its whole chunks that are missing in tiers."""
        if not self._decodes:
            tokens = min(tokens, self._sequences.prompt_tokens[request])
        keys = self.keys(request, tokens) if tokens - self._stored.get(request, 0) >= self.chunk_tokens else ()
        if keys:
            self.foresee(0)
            self._stored[request] = tokens // self.chunk_tokens * self.chunk_tokens
            for tier in self.tiers:
                if not tier.spec.writes_back:
                    tier.write(keys)

    def start(self, request: int, tokens: int, *, cached: int = 0, reserve: int = 0) -> bool:
        """Let a request hold `tokens` tokens, the first `cached` of which are found; False if it must wait.

        All blocks of its prompt are taken, so that room for a request does not depend on what tiers hold.
        """
        reserve = max(reserve, self._sequences.target_tokens(request))
        if request in self.loaded:
            fits = self._start_loaded(request, tokens, reserve)
        elif (found := self.wanted(request)) is None:
            fits = super().start(request, tokens, cached=cached, reserve=reserve)
        else:
            fits = self._at_once and super().start(request, tokens, cached=found.cached, reserve=reserve)
            if fits:
                self.use(request, found.until)
                self.to_load.append((request, found))
        if fits:
            self.returned.pop(request, None)
        return fits

    def _start_loaded(self, request: int, tokens: int, reserve: int) -> bool:
        """Let a request whose prefix was loaded hold more tokens."""
        held = self.held[request]
        blocks = max(self.blocks_for(max(tokens, reserve)), held)
        if blocks - held > self.free_blocks - self.reserved_blocks:
            return False
        self._hold(request, self._chain(request), tokens, blocks)
        del self.loaded[request]
        return True

    def has_room_for(self, request: int) -> bool:
        """Whether all blocks of the prompt of a waiting request are free."""
        tokens = self._sequences.target_tokens(request)
        return super().admission_blocks(request, tokens) <= self.free_blocks - self.reserved_blocks

    def admission_blocks(self, request: int, tokens: int) -> int:
        """Free blocks that a waiting request takes if it is to hold `tokens` tokens."""
        if request in self.loaded:
            return max(0, self.blocks_for(tokens) - self.held[request])
        return super().admission_blocks(request, tokens)

    def took_unshared(self, blocks: int) -> None:
        """Decoding sequences have taken blocks: evict what they cost at once, before some are given back."""
        super().took_unshared(blocks)
        self.foresee(0)

    def holds(self, request: int, tokens: int) -> bool:
        """True if the prefix of a waiting request that is on the GPUs is pinned by a running one."""
        return super().holds(request, min(tokens, self.gpu_tokens(request)))

    def release_shared(self, request: int, tokens: int) -> None:
        """Free the blocks of a request; what it has generated is written before, if that is wanted."""
        if self._decodes and request != self._returning:
            self.store(request, tokens)
        self._stored.pop(request, None)
        super().release_shared(request, tokens)


class SpillingTree(PrefixTree):
    """Cached blocks whose chunks are written to a tier when they are evicted.

    Args:
        num_blocks: As of `PrefixTree`.
        block_size: As of `PrefixTree`.
        id_tokens: As of `PrefixTree`.
        tier: Where chunks go.
        chunk_tokens: Tokens of a chunk.
    """

    def __init__(self, num_blocks: int, block_size: int, id_tokens: int, tier: Tier, chunk_tokens: int) -> None:
        super().__init__(num_blocks, block_size, id_tokens)
        self._tier, self._chunk_blocks, self._chunk_tokens = tier, chunk_tokens // block_size, chunk_tokens

    def evict(self, node: Node, end: int) -> None:
        """Write the chunks that lose a block, the last one first, if their last block is among those evicted."""
        size = self._chunk_blocks
        for place in reversed(range(end // size, node.end // size)):
            each = node.chain[((place + 1) * self._chunk_tokens - 1) // self._id_tokens]
            if not isinstance(each, tuple):  # the tokens of a preempted request, which no other request shares
                self._tier.take_evicted((each, place))
        super().evict(node, end)
