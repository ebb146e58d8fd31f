"""The paged KV cache of a replica: blocks of a fixed number of tokens (Kwon et al. 2023, §4.1).

Without sharing, which block a sequence holds does not matter, so blocks are counted, not listed.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from simsys.errors import InternalError


def blocks_due(due: list[int], step: int, steps: int) -> int:
    """Number of blocks allocated by decoding in a number of steps from `step` on.

    Args:
        due: By remainder of a step modulo the block size, number of sequences that allocate a block.
        step: The first step.
        steps: Number of steps.
    """
    size = len(due)
    first = step % size
    last = first + steps
    if last <= size:
        return sum(due[first:last])
    rounds, rest = divmod(steps, size)
    last = first + rest
    blocks = sum(due[first:last]) if last <= size else sum(due[first:]) + sum(due[: last - size])
    return blocks + rounds * sum(due) if rounds else blocks


def steps_within(due: list[int], step: int, blocks: int, most: int) -> int:
    """Largest number of steps from `step` on, at most `most`, in which decoding allocates at most `blocks` blocks.

    Args:
        due: As of `blocks_due`.
        step: The first step.
        blocks: Number of blocks, 0 or more.
        most: Number of steps.
    """
    per_round = sum(due)
    if not per_round:
        return most
    size, (rounds, rest) = len(due), divmod(blocks, per_round)
    first = step % size
    steps = rounds * size + bisect_right([*accumulate(due[first:] + due[:first])], rest)
    return steps if steps < most else most


class PagedKVCache:
    """Blocks by request.

    Args:
        num_blocks: Blocks that fit into memory.
        block_size: Tokens per block.
    """

    __slots__ = (
        "block_size",
        "free_blocks",
        "held",
        "least_free_blocks",
        "looks_up",
        "num_blocks",
        "reserved_blocks",
        "shares",
        "taken_blocks",
    )

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.looks_up = False
        """Whether requests that are admitted are looked for."""
        self.shares = False
        """Whether a request may find blocks here now; then `grow_shared`, `took_unshared` and `release_shared` act."""
        self.free_blocks = num_blocks
        self.reserved_blocks = 0
        """Free blocks that decoding sequences will allocate at the end of this step."""
        self.least_free_blocks = num_blocks
        """Fewest blocks that have been free so far."""
        self.held: dict[int, int] = {}
        self.taken_blocks = 0
        """Blocks allocated for decoding so far, including freed ones."""

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1."""
        return 1.0 - self.free_blocks / self.num_blocks

    @property
    def peak_blocks(self) -> int:
        """Most blocks that have been in use so far."""
        return self.num_blocks - self.least_free_blocks

    @property
    def capacity_tokens(self) -> int:
        """Tokens that all blocks hold together."""
        return self.num_blocks * self.block_size

    def blocks_for(self, tokens: int) -> int:
        """Blocks that `tokens` tokens fill or begin."""
        return -(-tokens // self.block_size)

    def missing_blocks(self, request: int, tokens: int) -> int:
        """Blocks to add so that `request` holds `tokens` tokens."""
        return max(0, self.blocks_for(tokens) - self.held.get(request, 0))

    def grow(self, request: int, tokens: int) -> bool:
        """Let `request` hold `tokens` tokens; False, and no change, if the unreserved free blocks do not suffice."""
        if self.shares:
            return self.grow_shared(request, tokens)
        blocks, free, held = -(-tokens // self.block_size), self.free_blocks, self.held
        missing = blocks - held[request] if request in held else blocks
        if missing > 0:
            if missing > free - self.reserved_blocks:
                return False
            held[request] = blocks
            self.free_blocks = free = free - missing
            if free < self.least_free_blocks:
                self.least_free_blocks = free
        return True

    def grow_shared(self, request: int, tokens: int) -> bool:
        """As `grow`, if `shares`; only caches that set it have this method."""
        raise InternalError("a cache without shared blocks was asked for some")

    def cached_tokens(self, request: int) -> int:
        """Tokens of a waiting request that are found here."""
        return 0

    def admission_blocks(self, request: int, tokens: int) -> int:
        """Free blocks that a waiting request needs for `tokens` tokens."""
        return self.blocks_for(tokens)

    def start(self, request: int, tokens: int, *, cached: int = 0, reserve: int = 0) -> bool:
        """Allocate `tokens` tokens for a waiting request; False, without changes, if they do not fit.

        Args:
            request: The request.
            tokens: Number of tokens.
            cached: Number of cached ones among them.
            reserve: Tokens with allocated blocks, if more.
        """
        return self.grow(request, max(tokens, reserve))

    def expect_back(self, request: int) -> None:
        """The request that is released next will come again."""

    def forget(self, request: int) -> None:
        """A request that was expected back does not come again."""

    def holds(self, request: int, tokens: int) -> bool:
        """True if the cached prefix of a waiting request is pinned by a running one."""
        return True

    def spare_blocks(self, request: int, most: int) -> int:
        """Number of blocks, at most `most`, that decoding may allocate before a waiting prefix is evicted."""
        return most

    def foresee(self, blocks: int) -> None:
        """Announce blocks that decoding sequences hold already and that are allocated later."""

    def take_for_decode(self, blocks: int) -> None:
        """Allocate blocks for decoding sequences; they are attributed when the sequence is released."""
        free = self.free_blocks - blocks
        if free < self.least_free_blocks:
            if free < 0:
                raise InternalError(f"decode takes {blocks} KV blocks, {self.free_blocks} are free")
            self.least_free_blocks = free
        self.free_blocks = free
        self.taken_blocks += blocks
        if self.shares:
            self.took_unshared(blocks)

    def took_unshared(self, blocks: int) -> None:
        """Record blocks allocated by decoding sequences, if requests may share blocks."""

    def give_back(self, blocks: int) -> None:
        """Free blocks allocated for decoding sequences that none of them needs."""
        self.free_blocks += blocks

    def release(self, request: int, tokens: int) -> None:
        """Free the blocks of a request with `tokens` tokens, and further blocks allocated in this step."""
        if self.shares:
            self.release_shared(request, tokens)
            return
        blocks, held = -(-tokens // self.block_size), self.held.pop(request, 0)
        self.free_blocks = free = self.free_blocks + (held if held > blocks else blocks)
        if free > self.num_blocks:
            raise InternalError(f"more KV blocks were released than taken, at request {request}")

    def release_shared(self, request: int, tokens: int) -> None:
        """As `release`, if `shares`; only caches that set it have this method."""
        raise InternalError("a cache without shared blocks was asked to release some")
