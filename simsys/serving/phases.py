"""What the two phases of a request have to provide: prompts become KV cache, and tokens come out one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, cast

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

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences

    @abstractmethod
    def work(self, chunks: Sequence[Chunk]) -> Batch:
        """What a step with these chunks has to process."""

    @abstractmethod
    def finish(self, chunks: Sequence[Chunk], steps: int = 1) -> list[int]:
        """So many steps with chunks of this size are done; return the requests that have an output token now."""


class DecodePhase(ABC):
    """Generates one token per sequence and step.

    Args:
        sequences: The requests.
        kv: The cache that their blocks come from.
    """

    plain: ClassVar[bool] = True
    """Whether every step has one token of each sequence; if not, `beside` says what it has."""

    def __init__(self, sequences: Sequences, kv: PagedKVCache) -> None:
        self.sequences = sequences
        self.kv = kv
        self.growth_log: array[int] | None = None
        """Where it notes which sequences take blocks in which steps (`EngineLog.growth`), if that is wanted."""
        self.queries = 1
        """Tokens of each sequence that a step processes."""
        self.blocks_per_step = 1
        """Most KV blocks that a sequence needs for one step."""
        self.size = 0
        """Sequences that decode."""
        self.cached_tokens: float = 0
        """Tokens whose keys and values they have in the cache; each step adds one for every sequence."""

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

    def beside(self, prompts: Batch) -> Batch:
        """What a step has to process in which all sequences decode beside prompts.

        Each sequence's new token attends to its cached tokens and to itself.
        """
        size = self.size
        tokens, logits, pairs, context, *_ = prompts
        return batch_of(
            (tokens + size, logits + size, pairs, context, self.cached_tokens + size, size, 0.0, 0.0, 0.0, False)
        )

    def growth(self) -> Batch:
        """Context and pairs that a step in which all sequences decode adds to the next one's."""
        return Batch(decode_context_tokens=self.size)

    @abstractmethod
    def finish(self, steps: int = 1) -> list[int]:
        """So many steps are done; return the requests that have their last token, whose cache is released."""
