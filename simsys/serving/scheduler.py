"""The serving loop of one replica, and what a scheduler policy and the two phases have to provide.

One scheduler drives all ranks of a replica: had each rank its own, two ranks could decide differently about
the same queue and their collectives would never match.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from simsys.config.base import Configurable
from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.rank import Team
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.sequences import Sequences

if TYPE_CHECKING:
    from simsys.serving.inbox import Inbox


class Chunk(NamedTuple):
    """A piece of a prompt that one step processes."""

    request: int
    tokens: int


class PrefillPhase(ABC):
    """Turns prompts into KV cache and first tokens.

    Args:
        sequences: The requests.
    """

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences

    @abstractmethod
    def work(self, chunks: Iterable[Chunk]) -> Batch:
        """What a step with these chunks has to process."""

    @abstractmethod
    def finish(self, chunks: Iterable[Chunk]) -> list[int]:
        """The step is done; return the requests that have an output token now."""


class DecodePhase(ABC):
    """Generates one token per sequence and step.

    Args:
        sequences: The requests.
        kv: The cache that their blocks come from.
    """

    def __init__(self, sequences: Sequences, kv: PagedKVCache) -> None:
        self.sequences = sequences
        self.kv = kv

    @property
    @abstractmethod
    def size(self) -> int:
        """Sequences that decode."""

    @abstractmethod
    def add(self, request: int) -> None:
        """A request with at least one output token to go starts to decode."""

    @abstractmethod
    def remove(self, request: int) -> None:
        """A request is preempted: its tokens so far are kept, its cache is released."""

    @abstractmethod
    def missing_blocks(self) -> int:
        """KV blocks that the next step needs."""

    @abstractmethod
    def work(self) -> Batch:
        """What the next step has to process."""

    @abstractmethod
    def finish(self) -> list[int]:
        """The step is done; return the requests that have their last token, whose cache is released."""


@dataclass(frozen=True)
class HostCosts:
    """Host time that an engine spends around a step, in seconds."""

    per_step_s: float = 0.0
    per_sequence_s: float = 0.0


class Scheduler(Configurable, ABC):
    """A replica's scheduler: subclass it and write `schedule`.

    Args:
        options: The policy's settings.
        sequences: The requests.
        kv: The replica's KV cache.
        prefill: How prompts are processed.
        decode: How tokens are generated.
        inbox: Where requests arrive.
        host: Host costs of the engine.
    """

    def __init__(
        self,
        options: Any,
        sequences: Sequences,
        kv: PagedKVCache,
        prefill: PrefillPhase,
        decode: DecodePhase,
        inbox: Inbox,
        host: HostCosts,
    ) -> None:
        self.options = options
        self.sequences, self.kv, self.prefill, self.decode = sequences, kv, prefill, decode
        self.inbox, self.host = inbox, host
        self.waiting: deque[int] = inbox.waiting
        """Requests that hold no cache, the next to be admitted first."""
        self.running: dict[int, None] = {}
        """Requests that hold cache, in order of admission."""
        self.prefilling: dict[int, None] = {}
        """Those of them whose prompt is not complete."""
        self.preempted = False
        """Whether this step has preempted a request."""

    @abstractmethod
    def schedule(self) -> list[Chunk]:
        """Choose the prompt chunks of the next step with `admit` and `extend`; all decoding sequences run too."""

    def admit(self, request: int, tokens: int) -> Chunk | None:
        """Let a waiting request start with `tokens` of its prompt; None if that must wait.

        It must if its blocks do not fit, or if this step has preempted a request (as in vLLM v1).
        """
        if self.preempted or not self.kv.grow(request, tokens):
            return None
        if self.waiting[0] == request:
            self.waiting.popleft()
        else:
            self.waiting.remove(request)
        self.running[request] = self.prefilling[request] = None
        self.inbox.admitted(request)
        return Chunk(request, tokens)

    def extend(self, request: int, tokens: int) -> Chunk | None:
        """Process `tokens` more of a running prompt; preempts later requests if it must, None if it is one itself."""
        while not self.kv.grow(request, self.sequences.computed_tokens[request] + tokens):
            if self.preempt_last() == request:
                return None
        return Chunk(request, tokens)

    def serve(self, team: Team) -> Generator[Any, Any, None]:
        """The process of the replica: step after step until no request is left."""
        fruitless = 0
        while True:
            self.make_room()
            chunks = self.schedule()
            if not chunks and not self.decode.size:
                if self.preempted:
                    fruitless += 1
                    self.check_progress(fruitless)
                    continue
                if self.inbox.closed:
                    self.check_all_served()
                    return
                yield self.inbox.arrival()
                continue
            started_s = self.inbox.now
            decoding = self.decode.size
            batch = self.decode.work()
            if chunks:
                batch += self.prefill.work(chunks)
            host_s = self.host.per_step_s + self.host.per_sequence_s * batch.logits
            yield team.forward(batch, host_s=host_s, name="step")
            fruitless = 0
            self.inbox.stepped(started_s, self.inbox.now, decoding, chunks)
            self.end_step(chunks)

    def check_progress(self, fruitless: int) -> None:
        """A policy that preempts all it admits, again and again, must not run for ever."""
        if fruitless > len(self.waiting) + 1:
            raise UsageError(
                f"scheduler {type(self).__name__} preempts every request that it admits, so none is served"
            )

    def check_all_served(self) -> None:
        """A policy that never admits a request must not end as if all were well."""
        if self.waiting:
            raise UsageError(
                f"scheduler {type(self).__name__} leaves {len(self.waiting)} requests waiting although nothing runs"
            )

    def end_step(self, chunks: list[Chunk]) -> None:
        """Book what the step has done: last tokens first, then prompts that are complete."""
        for request in self.decode.finish():
            del self.running[request]
            self.inbox.finished(request)
        for request in self.prefill.finish(chunks):
            del self.prefilling[request]
            if self.sequences.generated_tokens[request] == 1:
                self.inbox.first_token(request)
            if self.sequences.generated_tokens[request] < self.sequences.output_tokens[request]:
                self.decode.add(request)
            else:
                self.kv.release(request, self.sequences.computed_tokens[request])
                del self.running[request]
                self.inbox.finished(request)

    def make_room(self) -> None:
        """Preempt the requests admitted last until the decoding ones can grow."""
        self.preempted = False
        while self.decode.missing_blocks() > self.kv.free_blocks:
            self.preempt_last()
        self.kv.reserved_blocks = self.decode.missing_blocks()

    def preempt_last(self) -> int:
        """Preempt the request that was admitted last, by recomputation, and return it."""
        request = next(reversed(self.running))
        del self.running[request]
        if request in self.prefilling:
            del self.prefilling[request]
            self.kv.release(request, self.sequences.computed_tokens[request])
        else:
            self.decode.remove(request)
            self.kv.reserved_blocks = self.decode.missing_blocks()
        self.sequences.computed_tokens[request] = 0
        self.preempted = True
        self.waiting.appendleft(request)
        self.inbox.preempted(request)
        return request
