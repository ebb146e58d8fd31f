"""The two phases of a request: prefill computes the KV cache, decode generates tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop
from typing import Any, ClassVar, NamedTuple, cast

from simsys.model.batch import Batch, batch_of
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.sequences import Sequences


class Chunk(NamedTuple):
    """A piece of a prompt that one step processes."""

    request: int
    tokens: int


chunk_of = cast("Callable[[tuple[int, int]], Chunk]", partial(tuple.__new__, Chunk))
"""A chunk of both of its fields in order, made quickly."""


class PrefillPhase(ABC):
    """Turns prompts into KV cache and first tokens.

    Args:
        sequences: The requests.
    """

    in_single_steps: ClassVar[bool] = False
    """Whether `work` and `finish` are needed for each step, so that several steps are not simulated at once."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences

    @abstractmethod
    def work(self, chunks: Sequence[Chunk]) -> Batch:
        """The batch of a step with these chunks."""

    @abstractmethod
    def finish(self, chunks: Sequence[Chunk], steps: int = 1) -> list[int]:
        """Complete a number of steps with chunks of this size; return the requests with a new output token."""


class DecodePhase(ABC):
    """Generates one token per sequence and step.

    Args:
        sequences: The requests.
        kv: The cache that their blocks come from.
    """

    plain: ClassVar[bool] = True
    """True if every step has one token per sequence; otherwise `batch_with` returns the batch."""

    def __init__(self, sequences: Sequences, kv: PagedKVCache) -> None:
        self.sequences = sequences
        self.kv = kv
        self.growth_log: list[int] | None = None
        """Records of block allocations by step (`EngineLog.fresh_growth`), if requested."""
        self.mean_growth_log: list[int] | None = None
        """Records of allocations for a mean number of tokens (`EngineLog.fresh_mean_growth`), if requested."""
        self.queries = 1
        """Tokens of each sequence that a step processes."""
        self.blocks_per_step = 1
        """Most KV blocks that a sequence needs for one step."""
        self.size = 0
        """Sequences that decode."""
        self.cached_tokens: float = 0
        """Cached tokens of the sequences; each step adds one per sequence."""

    @abstractmethod
    def add(self, request: int) -> None:
        """A request with at least one output token to go starts to decode."""

    @abstractmethod
    def remove(self, request: int) -> None:
        """A request is preempted: its tokens so far are kept, its cache is released."""

    @abstractmethod
    def steps_left(self) -> int:
        """Steps until the next sequence has its last token, at least 1; asked only while sequences decode."""

    @abstractmethod
    def missing_blocks(self, steps: int = 1) -> int:
        """KV blocks that the next steps need, up to `steps_left` of them."""

    def steps_within(self, blocks: int, most: int) -> int:
        """Largest number of steps, at most `most`, that need at most a number of KV blocks."""
        return bisect_right(range(1, most + 1), blocks, key=self.missing_blocks)

    def batch_with(self, prompts: Batch) -> Batch:
        """The batch of a step with all decoding sequences and prompts.

        Each sequence's new token attends to its cached tokens and to itself.
        """
        size = self.size
        tokens, logits, pairs, context = prompts[:4]
        return batch_of(
            (tokens + size, logits + size, pairs, context, self.cached_tokens + size, size, 0.0, 0.0, 0.0, False)
        )

    def growth(self) -> Batch:
        """Context and pairs that a step in which all sequences decode adds to the next one's."""
        return Batch(decode_context_tokens=self.size)

    @abstractmethod
    def finish(self, steps: int = 1) -> list[int]:
        """Complete a number of steps; return the requests with their last token, after release of their cache."""


NONE_ENDED: list[int] = []
"""The answer of `DecodePhase.finish` for most steps, at whose end no request has its last token."""


class LockstepDecode(DecodePhase):
    """Decoding of sequences whose last steps are known when they join: the base of phases that keep a heap of them."""

    def __init__(self, sequences: Sequences, kv: PagedKVCache) -> None:
        super().__init__(sequences, kv)
        self.step = 0
        """Steps so far."""
        self.joined: dict[int, tuple[Any, ...]] = {}
        """By request: its last step, itself, the step at which it joined, and what the phase knows of it."""
        self.ends: list[tuple[Any, ...]] = []
        """A heap of these. Entries that `joined` no longer has are stale, since their requests were preempted; the
        first entry never is."""
        self.stale = 0  # entries

    def forget(self) -> None:
        """Drop stale ends that come first."""
        ends, joined = self.ends, self.joined
        while ends and joined.get(ends[0][1]) is not ends[0]:
            heappop(ends)
            self.stale -= 1

    def steps_left(self) -> int:
        """Until the first of the ends."""
        left: int = self.ends[0][0] - self.step
        return left
