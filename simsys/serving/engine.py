"""The serving engine: run after run of steps under one scheduler, and what a router may ask about it.

A *run* is a number of steps with one batch: nothing arrives that the policy wants, nothing ends and memory suffices.
Between two runs the engine books what the steps have done, asks the policy, and begins the next run; it does so in the
same way at every level of detail and for every policy. How long a run takes, and in how many events, is the business
of a `Stepper`.

One scheduler drives all ranks of an engine: had each rank its own, two ranks could decide differently about the same
queue, and their collectives would never match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from simsys.model.batch import NOTHING
from simsys.serving.leaving import HAD_ENOUGH, Leaving
from simsys.serving.phases import Chunk
from simsys.serving.run_length import grown_blocks, steps_that_fit, steps_until_prefix_eviction
from simsys.sums import ordered_sum


class Engine(Leaving):
    """Books the ends of runs and begins the next ones; while it is idle, an entry of the environment's agenda.

    Args:
        given: As of `Leaving`.
        named: As of `Leaving`.
    """

    __slots__ = ("passed_on",)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.passed_on: Callable[[Engine], None] | None = None
        """Called after the policy has chosen, if requests wait all the same."""

    @property
    def outstanding(self) -> int:
        """Requests that wait or run here."""
        scheduler = self.scheduler
        return len(scheduler.waiting) + len(scheduler.aside) + len(self._running) + len(self._held)

    @property
    def queued(self) -> int:
        """Requests that wait here: on their way to the scheduler, in its queue, or for cached prefixes."""
        return self.outstanding - len(self._running)

    def free_blocks(self) -> int:
        """KV blocks that are free now, in the middle of a run too."""
        return self.kv.free_blocks - grown_blocks(self)

    def cached_tokens(self, request: int) -> int:
        """Tokens at the beginning of a request that are in the KV cache now, in the middle of a run too."""
        found = self.kv.cached_tokens(request)
        if not found or self.kv.holds(request, found):
            return found
        self.kv.foresee(grown_blocks(self))
        return self.kv.cached_tokens(request)

    def submit(self, request: int) -> None:
        """A request arrives here."""
        if not self._serves_all and not self.accepts(request):
            return
        if self._intake is not None and not self._intake.passes(request):
            return
        self.scheduler.waiting.append(request)
        self.notice(request)

    def accepts(self, request: int) -> bool:
        """Whether a request can be served; if it cannot, that is its end."""
        reason = self._limits.refusal(request)
        if reason:
            for hook in self._probes.request_rejected:
                hook(request, reason, self._env._now)
            for told in self.prompt_watchers:
                told(request)
            if self.on_end is not None:
                self.on_end(request)
        return not reason

    def notice(self, request: int) -> None:
        """A request has joined the queue: begin, or end the run at the next step if that may change it."""
        if self.left > 1:
            if self.scheduler.wants(request, self.tokens):
                self.stepper.cut()
        elif not self.busy or self.copying:
            self.ask_again()

    def ask_again(self) -> None:
        """Begin, or end the run at the next step, since the policy may choose something else now."""
        if self.busy:
            if self.left > 1:
                self.stepper.cut()
            self._asked_while_copying = self.copying
        else:
            self.busy = True
            self.left = 0
            self.due_s, moved = self._env._now, self._moved
            moved()

    def happen(self) -> float:
        """Wake, after all else of this moment."""
        self.due_s = inf
        self.boundary(0)
        return inf

    def join(self, request: int) -> None:
        """The cache of a request has come from elsewhere: it decodes from the next step on."""
        self.joining.append(request)
        self.ask_again()

    def give_back(self, request: int) -> None:
        """Release the cache of a request that has been handed over, in the middle of a run too."""
        kv, waiting = self.kv, self.scheduler.waiting
        kv.least_free_blocks = min(kv.least_free_blocks, self.free_blocks())
        kv.release(request, self.sequences.prompt_tokens[request])
        self._note()
        if waiting:
            self.notice(waiting[0])

    def boundary(self, steps: int) -> None:
        """Book what a run has done, last tokens first, then prompts; and begin the next one, or rest.

        Args:
            steps: Number of steps that have ended; 0 after a rest.
        """
        chunks, scheduler, decode = self.chunks, self.scheduler, self._decode
        self.left = 0
        if steps and (self._held or self._counts):
            assert self._intake is not None
            self._intake.ran(steps, prompts=bool(chunks))
        if chunks and steps > 1:
            self._hold(chunks, steps)
        if self.decoding:
            ended = decode.finish(steps)
            if ended:
                self._end(ended)
        if chunks:
            self._advance(chunks, steps)
        if self.joining:
            self._join()
        if self.leaving:
            self._leave()
        if scheduler.waiting or self._prefilling or decode.size * decode.blocks_per_step > self.kv.free_blocks:
            chunks = scheduler.choose()
            if self.passed_on is not None and scheduler.waiting:
                self.passed_on(self)
            if scheduler.swap is not None and self._copies(chunks):
                return
            if chunks:
                self._begin_prompts(chunks)
                return
        else:
            scheduler.preempted = False
        self._begin_decode()

    def _end(self, ended: Sequence[int]) -> None:
        """Requests have their last token."""
        running, finished, on_end = self._running, self._finished, self.on_end
        now_s, quitting = self._env._now, self.sequences.quitting
        for request in ended:
            del running[request]
            if quitting and request in quitting:
                self._gave_up(request, HAD_ENOUGH)
                continue
            finished(request, now_s)
            if on_end is not None:
                on_end(request)

    def _advance(self, chunks: Sequence[Chunk], steps: int) -> None:
        """Let requests whose prompt is complete decode, or end."""
        sequences, now_s, watchers = self.sequences, self._env._now, self.prompt_watchers
        first_token = self._first_token  # as a local name, a function is called faster than as an attribute
        for request in self._prefill.finish(chunks, steps):
            del self._prefilling[request]
            generated = sequences.generated_tokens[request]
            ends = generated == sequences.output_tokens[request]
            if watchers and generated == 1:
                for told in watchers:
                    told(request)
            if generated > 1:
                self._resumed(request, now_s)
            elif ends or not self.answers_later:
                first_token(request, now_s)
            if ends:
                self.kv.release(request, sequences.computed_tokens[request])
                self._end((request,))
            elif self.hand_over is None or request in self.leaving:
                self._decode.add(request)
            else:
                del self._running[request]
                self.hand_over(request)

    def _join(self) -> None:
        """Let requests decode whose caches have come."""
        for request in self.joining:
            del self.scheduler.fetching[request]
            self._decode.add(request)
            for hook in self._probes.request_joined:
                hook(request, self.rank, self._env._now)
        self.joining.clear()
        self.decoding = 0

    def _copies(self, chunks: list[Chunk]) -> bool:
        """Whether copies to or from the host come before the next run."""
        assert self.scheduler.swap is not None
        copies = self.scheduler.swap.copies(chunks)
        if copies is None:
            return False
        self.copying, self.decoding = True, 0
        self._note()
        self._wait(self._decode.size)
        copies.callbacks.append(lambda _: self._copied(chunks))
        return True

    def _copied(self, chunks: list[Chunk]) -> None:
        """Begin the run that has waited for copies; the policy has not seen who has come meanwhile."""
        if self._stopped:
            return
        self.copying = False
        if chunks:
            self._begin_prompts(chunks)
        else:
            self._begin_decode()
        if self._asked_while_copying:
            self._asked_while_copying = False
            if self.left > 1:
                self.stepper.cut()

    def _begin_decode(self) -> None:
        """Begin a run without prompts, or rest."""
        decode, kv, notes = self._decode, self.kv, self._notes
        size = decode.size
        follows = size == self.decoding and not self.chunks  # sequences join by chunks, or by `_join`
        self.chunks, self.decoding = (), size
        if not size:
            self._rest()
            return
        if notes is not None:
            notes += (self._env._now, kv.free_blocks, kv.taken_blocks)
        if self._pausing:
            self._go_on(size)
        steps = decode.steps_left()
        if self._held or self._counts:
            assert self._intake is not None
            steps = min(steps, self._intake.longest_run)
        if steps > 1:
            if self.scheduler.preempted:
                steps = 1
            elif size * (steps * decode.queries // self._block_size + decode.blocks_per_step) > kv.free_blocks:
                steps = steps_that_fit(self, steps)
            if steps > 1 and self.scheduler.waiting:
                steps = min(steps, self.scheduler.repeats(()) or steps)
                if steps > 1 and kv.shares:
                    steps = steps_until_prefix_eviction(self, steps)
        self.left, self.tokens = steps, size
        host_s = self._per_step_s + self._per_sequence_s * size
        if self._plain:
            self.stepper.decode(size, decode.cached_tokens + size, steps, host_s, follows)
        else:
            self.stepper.run(decode.batch_with(NOTHING), steps, host_s, decode.growth())

    def _begin_prompts(self, chunks: list[Chunk]) -> None:
        """Begin a run that lasts until a sequence ends, a prompt is complete or memory runs out."""
        scheduler, decode, kv = self.scheduler, self._decode, self.kv
        decoding, notes = decode.size if self._mixes else 0, self._notes
        self.chunks, self.decoding, self._began_s = chunks, decoding, self._env._now
        if notes is not None:
            notes += (self._began_s, kv.free_blocks, kv.taken_blocks)
        if not self._mixes:
            self._wait(decode.size)
        elif self._pausing:
            self._go_on(decoding)
        batch = self._prefill.work(chunks)  # whose places of tokens and logits are used, as names are slow to look up
        steps, more = 1, NOTHING
        if not batch[1] and not self._held:  # no prompt is complete after one step
            steps = scheduler.repeats(chunks)
            more = (decode.growth() if decoding else NOTHING)._replace(
                attention_pairs=ordered_sum(float(tokens * tokens) for _, tokens in chunks),
                prompt_context_tokens=batch.tokens,
            )
        if decoding:
            batch = decode.batch_with(batch)
            if steps > 1:
                steps = min(steps, decode.steps_left())
        if steps > 1:
            steps = 1 if scheduler.preempted else steps_that_fit(self, steps)
        self.left, self.tokens = steps, int(batch[0])
        self.stepper.run(batch, steps, self._per_step_s + self._per_sequence_s * batch[1], more)
        if steps > 1 and (kv.shares or self._prefill.in_single_steps):
            # what a chunk leaves in the cache may help others, or is sent to where the request decodes
            self.left = 1
            self.stepper.cut()
