"""A KV cache that keeps the blocks of prompts and shares them: automatic prefix caching, as in vLLM v1.

A block is found by the ids of `RequestTable.hash_ids`. It is cached as soon as the step that fills it is scheduled,
until memory is needed. Unlike in vLLM, a request that computes a block cached by another request meanwhile uses that
one and frees its own (as in SGLang).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simsys.errors import InternalError
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_tree import Chain, Node, PrefixTree
from simsys.serving.requests import RequestTable
from simsys.serving.sequences import Sequences


class Chains(NamedTuple):
    """The ids of the blocks of all requests, the same for all caches.

    Args:
        of: By request, the ids of its prompt and, where known, of its answer.
        id_tokens: Tokens per id: at least a block.
        any: Whether any request has an id.
    """

    of: Sequence[Chain]
    id_tokens: int
    any: bool


def block_chains(requests: RequestTable, block_size: int) -> Chains:
    """The ids of the blocks of requests.

    Ids of an answer are known from the next turn's prompt, unless that has left out thoughts before the answer.

    Args:
        requests: All requests.
        block_size: Tokens of a block of the KV cache.
    """
    if not requests.hash_ids:
        return Chains([()] * len(requests), block_size, any=False)
    chains: list[Chain] = list(requests.hash_ids)
    for request, before in enumerate(requests.after):
        if before >= 0 and not (requests.forgets_thoughts and requests.reasoning_tokens[before]):
            ids, own = requests.hash_ids[request], requests.hash_ids[before]
            if ids[: len(own)] == own:
                chains[before] = ids
    for request, attempt in enumerate(requests.attempt):
        if attempt:
            chains[request] = chains[request - attempt]
    id_tokens = requests.hash_block_tokens
    if id_tokens < block_size:  # a block is identified by the id of its last token
        whole = ((chain, range(1, len(chain) * id_tokens // block_size + 1)) for chain in chains)
        chains = [tuple(chain[(end * block_size - 1) // id_tokens] for end in ends) for chain, ends in whole]
        id_tokens = block_size
    return Chains(chains, id_tokens, any=any(chains))


class PrefixCache(PagedKVCache):
    """Blocks by request, of which some are shared.

    `held` counts all blocks of a request; `free_blocks` counts unused blocks, cached or not.

    Args:
        num_blocks: Blocks that fit into memory.
        block_size: Tokens per block.
        sequences: The sequences.
        chains: Block ids of the requests.
    """

    __slots__ = (
        *("_chains", "_found", "_id_tokens", "_longer", "_looked_up"),
        *("_nodes", "_returning", "_sequences", "tree"),
    )

    def __init__(self, num_blocks: int, block_size: int, sequences: Sequences, chains: Chains) -> None:
        super().__init__(num_blocks, block_size)
        self._sequences, self._chains, self._id_tokens = sequences, chains.of, chains.id_tokens
        self._longer: dict[int, Chain] = {}  # of requests that were preempted
        self._returning = -1
        self._looked_up, self._found = (-1, 0, 0), 0  # request, most blocks and state of the tree; tokens found
        self._nodes: dict[int, Node | None] = {}  # by request, the end of what it shares
        self.tree = PrefixTree(num_blocks, block_size, chains.id_tokens)
        self.looks_up, self.shares = True, chains.any

    def _begin_to_share(self) -> None:
        """From now on something can be found; so far blocks were counted, and nothing more."""
        self.shares = True
        self.tree.unused = self.free_blocks
        self._nodes = dict.fromkeys(self.held)

    @property
    def cached_blocks(self) -> int:
        """Unused blocks in the cache."""
        return self.tree.cached_blocks

    def cached_tokens(self, request: int) -> int:
        """Tokens of a waiting request that are found here: whole blocks, and never its last token."""
        chain = self._chain(request) if self._longer else self._chains[request]
        tree = self.tree
        if not chain or chain[0] not in tree.index:
            return 0
        limit = (self._sequences.target_tokens(request) - 1) // self.block_size
        if tree.unused < 0:
            tree.reclaim(0)
        key = request, limit, tree.changes
        if key != self._looked_up:  # which a policy and an engine ask for again and again
            self._looked_up, self._found = key, tree.match(chain, limit) * self.block_size
        return self._found

    gpu_tokens = cached_tokens
    """The same, where a subclass finds tokens elsewhere, too."""

    def admission_blocks(self, request: int, tokens: int) -> int:
        """Free blocks that a waiting request takes if it is to hold `tokens` tokens."""
        shared = self.gpu_tokens(request) // self.block_size
        return self.blocks_for(tokens) - shared + self.tree.idle(self._chain(request), shared)

    def start(self, request: int, tokens: int, *, cached: int = 0, reserve: int = 0) -> bool:
        """Let a request hold `tokens` tokens, the first `cached` of which are found here; False if they do not fit."""
        if not self.shares:
            return self.grow(request, max(tokens, reserve))
        tree, chain, block_size = self.tree, self._chain(request), self.block_size
        shared, blocks = cached // block_size, -(-(tokens if tokens > reserve else reserve) // block_size)
        free = self.free_blocks - self.reserved_blocks
        if blocks > free and blocks - shared + tree.idle(chain, shared) > free:
            return False
        node, idle = tree.hold(chain, shared) if shared else (None, 0)
        self._nodes[request], self.held[request] = node, shared
        self.free_blocks -= idle
        self._hold(request, chain, tokens, blocks)
        return True

    def grow_shared(self, request: int, tokens: int) -> bool:
        """Let `request` hold `tokens` tokens; False, and no change, if the unreserved free blocks do not suffice."""
        held = self.held[request]
        blocks = max(self.blocks_for(tokens), held)
        if blocks - held > self.free_blocks - self.reserved_blocks:
            return False
        self._hold(request, self._chain(request), tokens, blocks)
        return True

    def took_unshared(self, blocks: int) -> None:
        """Decoding sequences have taken blocks, which nothing can be found in."""
        self.tree.unused -= blocks

    def give_back(self, blocks: int) -> None:
        """Give back blocks that were taken for decoding sequences, and that none of them needs."""
        self.free_blocks += blocks
        if self.shares:
            self.tree.reclaim(0)  # what was taken has evicted others, whether or not anything was looked up since
            self.tree.unused += blocks

    def holds(self, request: int, tokens: int) -> bool:
        """True if the cached prefix of a waiting request is pinned by a running one."""
        return not self.tree.idle(self._chain(request), tokens // self.block_size)

    def spare_blocks(self, request: int, most: int) -> int:
        """How many blocks, `most` at most, decoding may take before a waiting request finds less here than now."""
        shared = self.gpu_tokens(request) // self.block_size
        return self.tree.before(self._chain(request), shared, most) if shared else most

    def foresee(self, blocks: int) -> None:
        """Give up what blocks have cost that decoding sequences hold already, though they are not taken yet."""
        if self.shares:
            self.tree.reclaim(blocks)

    def expect_back(self, request: int) -> None:
        """The request that is released next will come again, and then find all its blocks."""
        if not self.shares:
            self._begin_to_share()
        self._returning = request
        chain = self._chain(request)
        ids = -(-self._sequences.final_cache_tokens(request) // self._id_tokens)
        if ids > len(chain):
            self._looked_up = -1, 0, 0
            self._longer[request] = (*chain, *((request, place) for place in range(len(chain), ids)))

    def forget(self, request: int) -> None:
        """A request that was expected back does not come again; its blocks stay cached until memory is needed."""
        self._longer.pop(request, None)

    def release_shared(self, request: int, tokens: int) -> None:
        """Free the blocks of a request with a number of tokens; full ones with ids are cached from now on."""
        if request == self._returning:
            self._returning = -1
        elif self._longer:
            self._longer.pop(request, None)
        tree, node, chain = self.tree, self._nodes[request], self._chain(request)
        blocks, held, full = -(-tokens // self.block_size), self.held[request], tokens // self.block_size
        self.held[request] = blocks = blocks if blocks > held else held
        if node is not None and node.end > full:
            node = self._nodes[request] = tree.forget(node, full)
        end = 0 if node is None else node.end
        if end < full and end < len(chain) * self._id_tokens // self.block_size:
            self._hold(request, chain, tokens, blocks)
            node = self._nodes[request]
        del self._nodes[request], self.held[request]
        own = blocks - (0 if node is None else node.end)
        tree.scrap(own)
        self.free_blocks = free = self.free_blocks + own + tree.release(node)
        if free > self.num_blocks:
            raise InternalError(f"more KV blocks were released than taken, at request {request}")

    def _chain(self, request: int) -> Chain:
        if self._longer and request in self._longer:
            return self._longer[request]
        return self._chains[request]

    def _hold(self, request: int, chain: Chain, tokens: int, blocks: int) -> None:
        """Let a request hold `blocks` blocks, and let the full ones among its first `tokens` tokens be found."""
        tree, node = self.tree, self._nodes[request]
        shared = 0 if node is None else node.end
        own = self.held[request] - shared
        full, known = tokens // self.block_size, len(chain) * self._id_tokens // self.block_size
        if full > known:
            full = known
        if full > shared:
            found = tree.match(chain, full, shared)
            if found > shared:
                further, idle = tree.hold(chain, found)
                tree.release(node)
                node, shared = further, found
                self.free_blocks -= idle
            self._nodes[request] = tree.add(chain, node, full) if full > shared else node
        missing = blocks - shared - own
        self.held[request] = blocks
        self.free_blocks = free = self.free_blocks - missing
        if missing > 0:
            tree.unused -= missing
        elif missing:
            tree.scrap(-missing)
        if free < self.least_free_blocks:
            self.least_free_blocks = free
