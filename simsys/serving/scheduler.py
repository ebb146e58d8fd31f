"""The base of scheduler policies, which select the prompt chunks of every step of a replica."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from simsys.config.base import Configurable
from simsys.errors import UsageError
from simsys.probes import Probes, as_one
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.phases import Chunk, DecodePhase, PrefillPhase, chunk_of
from simsys.serving.queues import Queue
from simsys.serving.sequences import Sequences
from simsys.serving.swap import SwapSpace
from simsys.user_modules import name_with_place

if TYPE_CHECKING:
    from simsys.platform.environment import Environment


class Scheduler(Configurable, ABC):
    """A replica's scheduler: subclass it and write `schedule`.

    It is called before every step while requests wait or prompts are incomplete. Without arrivals, ends and lack of
    memory, many steps may be simulated at once; then it is called again on the next of these events. So its answer
    must not change without an event, except as declared by `repeats`, and an empty answer must have no side effects.
    `wants` can avoid calls.

    Args:
        options: The policy's settings.
        sequences: The requests.
        kv: The replica's KV cache.
        prefill: The prefill phase.
        decode: The decode phase.
        env: The environment.
        probes: Observers.
    """

    mixes: ClassVar[bool] = True
    """Whether prompts and decoding sequences share a step; if not, a step with chunks runs these alone."""
    cuts_prompts: ClassVar[bool] = True
    """Whether a prompt may be spread over steps; if not, one beyond the tokens of a step is refused."""

    def __init__(
        self,
        options: Any,
        sequences: Sequences,
        kv: PagedKVCache,
        prefill: PrefillPhase,
        decode: DecodePhase,
        env: Environment,
        probes: Probes,
    ) -> None:
        self.options = options
        self.sequences, self.kv, self.prefill, self.decode = sequences, kv, prefill, decode
        self._env, self._probes = env, probes
        self._admitted, self._looked_up = as_one(probes.request_admitted), as_one(probes.prefix_lookup)
        self._mixes = self.mixes  # of the class, which is slow to look up
        self.waiting: Queue = self.make_queue()
        """Requests that hold no cache, the next to be admitted first."""
        self.running: dict[int, None] = {}
        """Requests that hold cache, in order of admission."""
        self.prefilling: dict[int, None] = {}
        """Running requests with an incomplete prompt."""
        self.fetching: dict[int, None] = {}
        """Running requests with allocated blocks and a cache in flight."""
        self.aside: dict[int, None] = {}
        """Requests taken from those that wait while their cached prefixes are loaded."""
        self.preempted = False
        """Whether a request has been preempted since the last step."""
        self.swap: SwapSpace | None = None
        """Where preempted requests keep their cache; if nowhere, or if it is full, they are computed again."""
        self.reserves_prompts = False
        """Whether a request is admitted only if all that it has to compute fits, not its first chunk alone."""

    @abstractmethod
    def schedule(self) -> list[Chunk]:
        """Choose the prompt chunks of the next step with `admit` and `extend`; all decoding sequences run too."""

    def choose(self) -> list[Chunk]:
        """What `schedule` answers, with room made for the sequences that decode.

        Raises:
            UsageError: If the policy preempts whatever it admits.
        """
        fruitless = 0
        while True:
            self.preempted = False
            if self._mixes:
                self.make_room()
            else:
                self.kv.reserved_blocks = 0
            if self.swap is not None:
                self.swap.prepare()
            chunks = self.schedule()
            if not self._mixes and not chunks:
                self.make_room()
            if chunks or self.decode.size:
                return chunks
            if self.swap is not None and self.waiting and self.swap.gives_way():
                continue
            if not self.preempted:
                return chunks
            fruitless += 1
            if fruitless > len(self.waiting) + 1:
                raise UsageError(
                    f"scheduler {name_with_place(type(self))} preempts every request that it admits, so none is served"
                )

    def check_served(self) -> None:
        """Nothing happens any more, so none may wait.

        Raises:
            UsageError: If requests do.
        """
        if self.waiting:
            name, count = name_with_place(type(self)), len(self.waiting)
            raise UsageError(f"scheduler {name} leaves {count} requests waiting although nothing runs")

    def make_queue(self) -> Queue:
        """Where requests wait; by default, first come first served."""
        return deque()

    def wants(self, request: int, tokens: int) -> bool:
        """True if `schedule` may answer differently after a request has joined the queue.

        By default it is called again at the end of the step of an arrival; a policy that cannot admit the request
        returns False.

        Args:
            request: The request.
            tokens: Tokens of each current step.
        """
        return True

    def considers(self) -> Iterable[int]:
        """The waiting requests considered by `schedule`, whose cached prefixes may be evicted.

        By default all; fewer requests are cheaper to track.
        """
        return self.waiting

    def repeats(self, chunks: Sequence[Chunk]) -> int:
        """Number of steps, including this one, with the same `chunks` if nothing arrives, ends or runs out.

        By default, until the last chunk of a prompt. Without chunks, 0 stands for any number; the engine asks only
        while requests wait.
        """
        fewest = 0
        for request, tokens in chunks:
            steps = (self.sequences.remaining_prompt(request) - 1) // tokens
            if steps <= 1:
                return 1
            fewest = min(fewest, steps) if fewest else steps
        return fewest

    def refusal(self, request: int) -> str:
        """Why the policy can never serve a request; empty if it can."""
        return ""

    def admit(self, request: int, tokens: int, *, reserve: int = 0) -> Chunk | None:
        """Start a waiting request with `tokens` of its prompt; None if it must wait.

        It must wait if its blocks do not fit, or if this step has preempted a request (as in vLLM v1). With
        `reserves_prompts`, blocks of the whole prompt must fit, but only those of `tokens` are allocated. With a
        cached prefix, the rest of the prompt may be less than `tokens`.

        Args:
            request: The request.
            tokens: Tokens of its prompt.
            reserve: Tokens with blocks allocated at once, if more.
        """
        if self.preempted:
            return None
        sequences, kv, swapped = self.sequences, self.kv, False
        target = sequences.prompt_tokens[request] + sequences.generated_tokens[request]
        if self.reserves_prompts and tokens < target and not self._has_room_for(request, tokens):
            return None
        if kv.shares or sequences.on_host:
            found = self.found_tokens(request)
            tokens = min(tokens, target - found)
            swapped = request in sequences.on_host
            if not kv.start(request, found + tokens, cached=0 if swapped else found, reserve=reserve):
                return None
        else:
            found = 0
            if tokens > target:
                tokens = target
            if not kv.grow(request, tokens if tokens >= reserve else reserve):
                return None
        waiting = self.waiting
        if waiting[0] == request:
            waiting.popleft()
        else:
            waiting.remove(request)
        self.running[request] = self.prefilling[request] = None
        now_s, admitted = self._env._now, self._admitted
        admitted(request, now_s)
        if swapped:
            self._swap_in(request, found)
        elif kv.looks_up:
            looked_up = self._looked_up
            looked_up(request, found, target, now_s)
        sequences.computed_tokens[request] = found
        return chunk_of((request, tokens))

    def _has_room_for(self, request: int, tokens: int) -> bool:
        """Whether all that a waiting request has to compute fits, if `tokens` of it are computed at once."""
        return self.admission_blocks(request, tokens) <= self.kv.free_blocks - self.kv.reserved_blocks

    def found_tokens(self, request: int) -> int:
        """Tokens of a waiting request that need not be computed, as they are cached or come back from the host."""
        if self.sequences.on_host and request in self.sequences.on_host:
            space, tokens = self.sequences.on_host[request]
            return tokens if space is self.swap else 0
        return self.kv.cached_tokens(request)

    def tokens_to_compute(self, request: int) -> int:
        """Tokens of a waiting request that are to be computed before its next output token."""
        return self.sequences.target_tokens(request) - self.found_tokens(request)

    def admission_blocks(self, request: int, tokens: int) -> int:
        """Free blocks that admitting a request needs if `tokens` tokens of it are computed at once."""
        target = self.sequences.target_tokens(request)
        tokens = target if self.reserves_prompts else min(self.found_tokens(request) + tokens, target)
        if request in self.sequences.on_host:
            return self.kv.blocks_for(tokens)
        return self.kv.admission_blocks(request, tokens)

    def extend(self, request: int, tokens: int) -> Chunk | None:
        """Process `tokens` more of a running prompt; preempts others if needed, None if it is preempted."""
        while not self.kv.grow(request, self.sequences.computed_tokens[request] + tokens):
            if self.preempt(self.victim()) == request:
                return None
        return chunk_of((request, tokens))

    def make_room(self) -> None:
        """Preempt requests until the decoding ones can grow."""
        kv = self.kv
        while (missing := self.decode.missing_blocks()) > kv.free_blocks:
            self.preempt(self.victim())
        kv.reserved_blocks = missing

    def victim(self) -> int:
        """The running request to preempt; by default the one admitted last."""
        return next(reversed(self.running))

    def preempt(self, request: int) -> int:
        """Preempt a running request and return it: its cache is copied to the host, or computed again."""
        sequences = self.sequences
        self.kv.expect_back(request)
        cached = self.take_out(request)
        sequences.computed_tokens[request] = 0
        if self.swap is not None and cached and self.swap.put(self.kv.blocks_for(cached)):
            sequences.on_host[request] = self.swap, cached
        self.preempted = True
        self.waiting.appendleft(request)
        for hook in self._probes.request_preempted:
            hook(request, self._env._now)
        return request

    def take_out(self, request: int) -> int:
        """Let a running request go and release its cache; return the number of its cached tokens."""
        del self.running[request]
        if request in self.prefilling:
            del self.prefilling[request]
            cached = self.sequences.computed_tokens[request]
            self.kv.release(request, cached)
            return cached
        self.decode.remove(request)
        self.kv.reserved_blocks = self.decode.missing_blocks()
        return self.sequences.target_tokens(request) - 1

    def forget(self, request: int) -> bool:
        """A waiting request does not come again: give up what is kept for it; True if it has a cache elsewhere."""
        self.kv.forget(request)
        if self.swap is not None:
            self.swap.forget(request)
        space, tokens = self.sequences.on_host.pop(request, (None, 0))
        if space is not None:
            space.drop(self.kv.blocks_for(tokens))
        return False

    def _swap_in(self, request: int, tokens: int) -> None:
        """Copy the cache of a request back from the host; a cache on another replica's host is discarded."""
        space, held = self.sequences.on_host.pop(request)
        if space is self.swap:
            space.get(self.kv.blocks_for(tokens))
        else:
            space.drop(self.kv.blocks_for(held))
