"""The paged KV cache of a replica: blocks of a fixed number of tokens (Kwon et al. 2023, §4.1).

Without sharing, which block a sequence holds does not matter, so blocks are counted, not listed.
"""

from __future__ import annotations

from array import array
from typing import ClassVar

from simsys.errors import InternalError


class PagedKVCache:
    """Blocks by request.

    Args:
        num_blocks: Blocks that fit into memory.
        block_size: Tokens per block.
    """

    __slots__ = (
        "_full_blocks",
        "block_size",
        "free_blocks",
        "held",
        "notes",
        "num_blocks",
        "peak_blocks",
        "reserved_blocks",
    )

    shares: ClassVar[bool] = False
    """Whether requests may find blocks of others."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free_blocks = num_blocks
        self.reserved_blocks = 0
        """Those of the free blocks that decoding sequences will take at the end of this step."""
        self.peak_blocks = 0
        self.held: dict[int, int] = {}
        self.notes: array[float] | None = None
        """What `note` was told, if anybody watches: four numbers each, the third of which are blocks in use then.

        The second are those in use just before, with all that the run took that ended then.
        """
        self._full_blocks = 0

    def watch(self) -> array[float]:
        """Keep notes from now on, and return them."""
        self.notes = array("d")
        return self.notes

    def note(self, notes: array[float], now_s: float, sequences: int) -> None:
        """A run of steps begins, or there is nothing more to do.

        Args:
            notes: Those of this cache.
            now_s: When.
            sequences: How many decode in it; less than 0 if so many wait while it processes prompts alone.
        """
        used = self.num_blocks - self.free_blocks
        notes.extend((now_s, self._full_blocks, used, sequences))
        self._full_blocks = used

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1."""
        return 1.0 - self.free_blocks / self.num_blocks

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
        missing = -(-tokens // self.block_size) - self.held.get(request, 0)
        if missing > 0:
            if missing > self.free_blocks - self.reserved_blocks:
                return False
            self.held[request] = self.held.get(request, 0) + missing
            self.free_blocks -= missing
            used = self.num_blocks - self.free_blocks
            if used > self.peak_blocks:
                self.peak_blocks = used
        return True

    def cached_tokens(self, request: int) -> int:
        """Tokens of a waiting request that are found here."""
        return 0

    def admission_blocks(self, request: int, tokens: int) -> int:
        """Free blocks that a waiting request takes if it is to hold `tokens` tokens."""
        return self.blocks_for(tokens)

    def start(self, request: int, tokens: int, *, cached: int = 0, reserve: int = 0) -> bool:
        """Let a waiting request hold `tokens` tokens; False, and no change, if they do not fit.

        Args:
            request: Which.
            tokens: How many.
            cached: How many of them are found here.
            reserve: Tokens to take blocks for, if more.
        """
        return self.grow(request, max(tokens, reserve))

    def expect_back(self, request: int) -> None:
        """The request that is released next will come again."""

    def foresee(self, blocks: int) -> None:
        """Decoding sequences hold so many blocks already, though they are not taken yet."""

    def take_for_decode(self, blocks: int) -> None:
        """Take blocks for decoding sequences; they are attributed when the sequence is released."""
        if blocks > self.free_blocks:
            raise InternalError(f"decode takes {blocks} KV blocks, {self.free_blocks} are free")
        self.free_blocks -= blocks
        used = self._full_blocks = self.num_blocks - self.free_blocks
        if used > self.peak_blocks:
            self.peak_blocks = used

    def release(self, request: int, tokens: int) -> None:
        """Give back the blocks of a request that holds `tokens` tokens, and what it took beyond them in this step."""
        self.free_blocks += max(self.held.pop(request, 0), self.blocks_for(tokens))
        if self.free_blocks > self.num_blocks:
            raise InternalError(f"more KV blocks were released than taken, at request {request}")
