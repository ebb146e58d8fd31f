"""A replica of the model: step after step under one scheduler, and what a router may ask about it.

One scheduler drives all ranks of a replica: had each rank its own, two ranks could decide differently about
the same queue and their collectives would never match.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from sys import maxsize
from typing import TYPE_CHECKING

from simpy.events import Event, EventPriority

from simsys.errors import UsageError
from simsys.model.batch import Batch
from simsys.platform.environment import AFTERWARDS, Environment
from simsys.probes import Probes
from simsys.rank import Team
from simsys.serving.host_costs import HostCosts
from simsys.serving.phases import Chunk
from simsys.serving.scheduler import Scheduler

if TYPE_CHECKING:
    from simsys.executors.steps.express import Express
    from simsys.serving.source import Source


class Replica:
    """The engine: callbacks at the ends of runs of steps, between which nothing about the batch changes.

    Args:
        scheduler: The policy, with the cache and the phases.
        team: The ranks.
        env: The environment.
        probes: Observers.
        host: Host costs of the engine.
        rank: Of engines that wake at one moment, that with the lowest is first; by default the team's first rank.
        max_context_tokens: Longest prompt plus output the model accepts; 0 for no limit.
        decode_tokens: What the KV cache holds where requests get the tokens after their first; by default, this one.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        team: Team,
        env: Environment,
        probes: Probes,
        *,
        host: HostCosts,
        rank: int | None = None,
        max_context_tokens: int = 0,
        decode_tokens: int | None = None,
    ) -> None:
        self.scheduler, self.sequences, self.kv = scheduler, scheduler.sequences, scheduler.kv
        self.on_end: Callable[[int], None] | None = None
        """Called with every request that has ended, be it refused."""
        self.hand_over: Callable[[int], None] | None = None
        """Called with every request that has its first token, if it is to get the others elsewhere."""
        self.express: Express | None = None
        """What does the replica's work in its place, as long as it does."""
        self.team, self._env, self._probes = team, env, probes
        self._per_step_s, self._per_sequence_s = host.per_step_s, host.per_sequence_s
        self._prefill, self._decode = scheduler.prefill, scheduler.decode
        self._running, self._prefilling = scheduler.running, scheduler.prefilling
        self._block_size = self.kv.block_size
        self._capacity_tokens = self.kv.capacity_tokens if decode_tokens is None else decode_tokens
        self._surely_fits = min(self._capacity_tokens, self.kv.capacity_tokens)  # a request of so many tokens
        self._max_context_tokens, self._notes = max_context_tokens, self.kv.fresh_notes
        self._steps = team.steps(self._boundary)
        self.rank = team.group.ranks[0] if rank is None else rank
        self._waking = EventPriority(AFTERWARDS + 1 + self.rank)
        self._refuses = None if type(scheduler).refusal is Scheduler.refusal else scheduler.refusal
        self._busy = self._stopped = False
        self._copying = self._unasked = False  # while the next run waits for copies; if a request has come meanwhile
        self._left, self._longest_run = 0, maxsize  # steps of the run under way, none while it changes; of any decode
        self._tokens = self._decoding = 0  # of each of its steps
        self._chunks: Sequence[Chunk] = ()
        self._joining: list[int] = []  # whose caches have come from elsewhere
        self._began_s = 0.0  # when the run did, if it has chunks

    @property
    def outstanding(self) -> int:
        """Requests that wait or run here."""
        return len(self.scheduler.waiting) + len(self._running)

    def hasten(self, source: Source) -> None:
        """All is there that takes part in a run."""
        self._steps.hasten(self, source)

    def submit(self, request: int) -> None:
        """A request arrives here."""
        if self.express is not None:
            self.express.submit(request)
        elif self.accepts(request):
            self.scheduler.waiting.append(request)
            self.notice(request)

    def accepts(self, request: int) -> bool:
        """Whether a request can be served; if it cannot, that is its end."""
        sequences, context = self.sequences, self._max_context_tokens
        total = sequences.prompt_tokens[request] + sequences.output_tokens[request]
        if not total > context > 0 and total <= self._surely_fits and self._refuses is None:
            return True
        reason = self._refusal(request)
        if reason:
            for hook in self._probes.request_rejected:
                hook(request, reason, self._env._now)
            if self.on_end is not None:
                self.on_end(request)
        return not reason

    def settle(self) -> None:
        """Let all be known here that others do in the replica's place."""
        if self.express is not None:
            self.express.settle()

    def notice(self, request: int) -> None:
        """A request has joined the queue: begin, or end the run at the next step if that may change it."""
        idle = self.express is not None or not self._busy or self._copying
        if idle or (self._left > 1 and self.scheduler.wants(request, self._tokens)):
            self.ask_again()

    def ask_again(self) -> None:
        """Begin, or end the run at the next step, since the policy may choose something else now."""
        if self.express is not None:
            self.express.leave()
        if self._busy:
            if self._left > 1:
                self._steps.cut()
            self._unasked = self._copying
        else:
            self._busy = True
            self._left = 0
            wake = Event(self._env)
            wake.callbacks.append(lambda _: self._next())
            self._env.fire_at(self._env._now, wake, priority=self._waking)

    def free_blocks(self) -> int:
        """KV blocks that are free now, in the middle of a run too."""
        return self.kv.free_blocks - self._grown_blocks()

    def cached_tokens(self, request: int) -> int:
        """Tokens at the beginning of a request that are in the KV cache now, in the middle of a run too."""
        found = self.kv.cached_tokens(request)
        if not found or self.kv.holds(request, found):
            return found
        self.kv.foresee(self._grown_blocks())
        return self.kv.cached_tokens(request)

    def _grown_blocks(self) -> int:
        """Blocks that the steps of the run under way that have ended have taken."""
        if self.express is not None:
            return self.express.grown_blocks()
        if not self._left:
            return 0
        passed = self._steps.passed()
        return self._decode_blocks(passed) + self._chunk_blocks(passed + 1)

    def give_back(self, request: int) -> None:
        """Release the cache of a request that has been handed over, in the middle of a run too."""
        kv, waiting = self.kv, self.scheduler.waiting
        kv.peak_blocks = max(kv.peak_blocks, kv.num_blocks - self.free_blocks())
        kv.release(request, self.sequences.prompt_tokens[request])
        self._note(0)
        if waiting:
            self.notice(waiting[0])

    def stop(self) -> None:
        """The run ends now: book the steps that have ended, and begin no others."""
        if self.express is not None:
            self.express.leave()
        steps = self._steps.stop() if self._left else 0
        if steps:
            chunks = self._chunks
            self._hold(chunks, steps + 1)  # and those of the step under way
            self._prefill.finish(chunks, steps)
            if self._decoding:
                self._decode.finish(steps)
        self._note(0)
        for request in self._running:
            if self._decodes(request):
                self._decode.remove(request)
        self._stopped = self._busy = True
        self._copying, self._left = False, 0

    def _decodes(self, request: int) -> bool:
        """Whether a running request is not still processing its prompt."""
        return request not in self._prefilling

    def check_finished(self) -> None:
        """A policy that never admits a request must not end as if all were well.

        Raises:
            UsageError: If requests wait although nothing will happen any more.
        """
        if self.scheduler.waiting and not self._stopped:
            raise UsageError(
                f"scheduler {type(self.scheduler).__name__} leaves {len(self.scheduler.waiting)} requests waiting "
                "although nothing runs"
            )

    def _refusal(self, request: int) -> str:
        """Why a request can never be served; empty if it can."""
        sequences, context, capacity = self.sequences, self._max_context_tokens, self._capacity_tokens
        total = sequences.prompt_tokens[request] + sequences.output_tokens[request]
        if total > context > 0:
            return f"longer than the model's context of {context} tokens"
        if total - 1 > capacity:
            return f"longer than the KV cache of {capacity} tokens"
        if sequences.prompt_tokens[request] > self.kv.capacity_tokens:
            return f"its prompt is longer than the KV cache of {self.kv.capacity_tokens} tokens"
        return self._refuses(request) if self._refuses is not None else ""

    def _boundary(self, steps: int) -> None:
        """A run of steps has ended: book what it has done, last tokens first, then prompts; and go on."""
        self._left = 0
        chunks = self._chunks
        if chunks and steps > 1:
            self._hold(chunks, steps)
        decode, scheduler, each = self._decode, self.scheduler, self._decode.queries
        if self._decoding:
            for request in decode.finish(steps):
                del self._running[request]
                self._finished(request)
        if chunks:
            self._advance(chunks, steps)
        if scheduler.waiting or self._prefilling or self._joining or decode.size * each > self.kv.free_blocks:
            self._next()
        else:
            scheduler.preempted = False
            self._start_decoding()

    def _hold(self, chunks: Sequence[Chunk], steps: int) -> None:
        """Take the blocks of the chunks of a run; those of the first step were taken when it was scheduled."""
        kv = self.kv
        kv.reserved_blocks = 0
        for request, tokens in chunks:
            computed = self.sequences.computed_tokens[request]
            if self._notes is not None:
                kv.chunks.extend((self._began_s, self._env._now, steps, computed, tokens, kv.held[request]))
            kv.grow(request, computed + tokens * steps)

    def _advance(self, chunks: Sequence[Chunk], steps: int) -> None:
        """Let requests whose prompt is complete decode, or end."""
        sequences = self.sequences
        for request in self._prefill.finish(chunks, steps):
            del self._prefilling[request]
            generated = sequences.generated_tokens[request]
            if generated == 1:
                for hook in self._probes.request_first_token:
                    hook(request, self._env._now)
            else:
                for hook in self._probes.request_resumed:
                    hook(request, self._env._now)
            if generated < sequences.output_tokens[request]:
                if self.hand_over is None:
                    self._decode.add(request)
                else:
                    del self._running[request]
                    self.hand_over(request)
            else:
                self.kv.release(request, sequences.computed_tokens[request])
                del self._running[request]
                self._finished(request)

    def _finished(self, request: int) -> None:
        for hook in self._probes.request_finished:
            hook(request, self._env._now)
        if self.on_end is not None:
            self.on_end(request)

    def _next(self) -> None:
        """Start the next run of steps, or rest."""
        scheduler, decode = self.scheduler, self._decode
        if scheduler.waiting or self._prefilling or decode.size * decode.queries > self.kv.free_blocks:
            chunks = self._ask()
            copies = None if scheduler.swap is None else scheduler.swap.copies()
            if copies is None:
                self._start(chunks)
            else:
                self._copying = True
                self._note(-decode.size)
                copies.callbacks.append(lambda _: self._copied(chunks))
        else:
            scheduler.preempted = False
            self._start_decoding()

    def _copied(self, chunks: list[Chunk]) -> None:
        """Start the run that has waited for copies; the policy has not seen who has come meanwhile."""
        if self._stopped:
            return
        self._copying = False
        self._start(chunks)
        if self._unasked:
            self._unasked = False
            if self._left > 1:
                self._steps.cut()

    def _note(self, sequences: int) -> None:
        if self._notes is not None:
            self._notes += (self._env._now, self.kv.free_blocks, self.kv.taken_blocks, sequences)

    def _start(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._start_with_prompts(chunks)
        else:
            self._start_decoding()

    def _start_decoding(self) -> None:
        """Start a run without prompts, or rest."""
        decode, kv = self._decode, self.kv
        self._chunks = ()
        self._decoding = size = decode.size
        self._note(size)
        if not size:
            self._busy = False
            return
        steps = min(decode.steps_left(), self._longest_run)
        if steps > 1:
            if self.scheduler.preempted:
                steps = 1
            elif size * (steps // self._block_size + 1) > kv.free_blocks:
                steps = self._that_fit(steps)
            if steps > 1 and kv.shares and self.scheduler.waiting:
                steps = self._until_less_is_found(steps)
        self._left, self._tokens = steps, size
        host_s = self._per_step_s + self._per_sequence_s * size
        if decode.plain:
            self._steps.decode(size, decode.cached_tokens + size, steps, host_s)
        else:
            self._steps.run(decode.beside(Batch()), steps, host_s)

    def _start_with_prompts(self, chunks: list[Chunk]) -> None:
        """Start a run that lasts until a sequence ends, a prompt is complete or memory runs out."""
        scheduler, decode, kv = self.scheduler, self._decode, self.kv
        decoding = decode.size if scheduler.mixes else 0
        self._chunks, self._decoding, self._began_s = chunks, decoding, self._env._now
        self._note(decoding or -decode.size)
        batch = self._prefill.work(chunks)
        steps, more_pairs = 1, 0.0
        if not batch.logits:  # no prompt is complete after one step
            steps = scheduler.repeats(chunks)
            for _, tokens in chunks:
                more_pairs += tokens * tokens
        if decoding:
            batch = decode.beside(batch)
            if steps > 1:
                steps = min(steps, decode.steps_left())
        if steps > 1:
            steps = 1 if scheduler.preempted else self._that_fit(steps)
        self._left, self._tokens = steps, int(batch.tokens)
        self._steps.run(batch, steps, self._per_step_s + self._per_sequence_s * batch.logits, more_pairs)
        if steps > 1 and kv.shares:  # what a chunk leaves in the cache may help others
            self._left = 1
            self._steps.cut()

    def _ask(self) -> list[Chunk]:
        """What the policy chooses, and room for the sequences that decode."""
        scheduler = self.scheduler
        fruitless = 0
        while True:
            scheduler.preempted = False
            if scheduler.mixes:
                scheduler.make_room()
                chunks = scheduler.schedule()
            else:
                self.kv.reserved_blocks = 0
                chunks = scheduler.schedule()
                if not chunks:
                    scheduler.make_room()
            if chunks or self._decode.size or not scheduler.preempted:
                return chunks
            fruitless += 1
            self._check_progress(fruitless)

    def _check_progress(self, fruitless: int) -> None:
        """A policy that preempts all it admits, again and again, must not run for ever."""
        if fruitless > len(self.scheduler.waiting) + 1:
            raise UsageError(
                f"scheduler {type(self.scheduler).__name__} preempts every request that it admits, so none is served"
            )

    def _that_fit(self, steps: int) -> int:
        """How many of the next steps find all the KV blocks they need; the first one does."""
        return max(1, bisect_right(range(1, steps + 1), self.kv.free_blocks, key=self._blocks))

    def _until_less_is_found(self, steps: int) -> int:
        """How many steps there are to one after which who waits finds less in the cache, so may fit into less."""
        taken, kv = self._decode.missing_blocks, self.kv
        most = taken(steps - 1)
        spare = min((kv.spare_blocks(request, most) for request in self.scheduler.considers()), default=most)
        return 1 + bisect_right(range(1, steps), spare, key=taken)

    def _blocks(self, steps: int) -> int:
        return self._decode_blocks(steps) + self._chunk_blocks(steps)

    def _decode_blocks(self, steps: int) -> int:
        return self._decode.missing_blocks(steps) if self._decoding else 0

    def _chunk_blocks(self, steps: int) -> int:
        """Blocks that the chunks of so many steps of the run need besides those of the first one."""
        computed = self.sequences.computed_tokens
        return sum(
            self.kv.missing_blocks(request, computed[request] + tokens * steps) for request, tokens in self._chunks
        )
