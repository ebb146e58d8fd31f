"""Layer-wise transfers from prefill to decode replicas: KV caches are sent while the prompt is being computed.

As with SGLang's layer-pipelined transfer (``--enable-disagg-layer-pipeline``), vLLM Ascend's layer-wise connector and
Mooncake (Qin et al. 2025, §5.2). A decode replica is chosen when the first chunk of a prompt is scheduled, and takes
blocks for the whole prompt as soon as it has room. Layer l of a chunk is sent when it is computed; of L layers with
computation C and transfer T, the last byte arrives max(T / L, T - C (L - 1) / L) after the chunk is computed. Two
transfers stand for these: all layers but the last one, whose bytes load the links from the begin of the chunk on and
are there a layer's computation later than on the links; and the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from simsys.model.batch import Batch
from simsys.serving.engine import Engine
from simsys.serving.fetching import FetchingScheduler
from simsys.serving.handover import KV_TRANSFER, Handover
from simsys.serving.phases import Chunk, PrefillPhase


class Part:
    """Tokens of a prompt that one step computes, or that were cached before the first one."""

    __slots__ = ("begun_s", "compute_s", "early_s", "sent_s", "tokens")

    def __init__(self, tokens: int, begun_s: float) -> None:
        self.tokens, self.begun_s = tokens, begun_s
        self.compute_s = -1.0
        """Time of the step; below 0 until it has ended."""
        self.sent_s = self.early_s = -1.0
        """When all layers but the last one began to load the links, and when they were over them; below 0 before."""


class Push:
    """The transfer of one request.

    Args:
        source: Where its prompt is computed.
        target: Where it is to decode.
    """

    def __init__(self, source: Engine, target: Engine) -> None:
        self.source, self.target = source, target
        self.known = False
        """Whether the target has taken blocks."""
        self.computed_s = -1.0
        """When the prompt was complete; below 0 before."""
        self.sent_tokens = self.reached_tokens = 0
        """Tokens from the first one on that are sent, or need not be; and those of the last step that began."""
        self.waiting: list[Part] = []
        """Parts that wait for blocks of the target."""
        self.under_way = 0
        self.first_s, self.nbytes = -1.0, 0.0
        """When the target took blocks, and the bytes of all transfers."""


class PushingPrefill(PrefillPhase):
    """A prefill phase that reports the begin and the end of steps.

    Args:
        engine: The engine.
        handover: Receives the reports.
        prefill: The phase.
    """

    in_single_steps = True

    def __init__(self, engine: Engine, handover: LayerwiseHandover, prefill: PrefillPhase) -> None:
        super().__init__(prefill.sequences)
        self._engine, self._handover, self._prefill = engine, handover, prefill

    def work(self, chunks: Sequence[Chunk]) -> Batch:
        """A step with these chunks begins."""
        for chunk in chunks:
            self._handover.begins(self._engine, chunk)
        return self._prefill.work(chunks)

    def finish(self, chunks: Sequence[Chunk], steps: int = 1) -> list[int]:
        """The step has ended."""
        complete = self._prefill.finish(chunks, steps)
        for request, _ in chunks:
            self._handover.ends(request)
        return complete


class LayerwiseHandover(Handover):
    """Moves requests from prefill replicas to decode replicas, and sends their caches layer by layer.

    Args:
        prefilling: Engines of prefill replicas.
        decoding: Engines of decode replicas.
        more: As of `Handover`.
        layers: Layers of the model.
        named: As of `Handover`.
    """

    def __init__(
        self, prefilling: Sequence[Engine], decoding: Sequence[Engine], *more: Any, layers: int, **named: Any
    ) -> None:
        super().__init__(prefilling, decoding, *more, **named)
        self._layers = layers
        self._pushes: dict[int, Push] = {}
        self._parts: dict[int, Part] = {}  # of the steps under way
        for source in prefilling:
            source.wrap_prefill(partial(PushingPrefill, source, self))
        for target in decoding:
            assert isinstance(target.scheduler, FetchingScheduler)
            target.scheduler.takes_prompts = True

    def begins(self, source: Engine, chunk: Chunk) -> None:
        """A step that computes a chunk begins."""
        request, tokens = chunk
        sequences = source.sequences
        if sequences.output_tokens[request] == 1:
            return  # it ends where its prompt is computed
        computed, push = sequences.computed_tokens[request], self._pushes.get(request)
        if push is None:
            push = self._pushes[request] = Push(source, self._router.route(request))
            self._holders[request] = source
            if computed:
                self._part(push, computed).compute_s = 0.0  # found in a cache
            push.target.scheduler.waiting.append(request)
            push.target.notice(request)
        elif computed < push.reached_tokens and not push.known:  # after a preemption, all of it is computed again
            push.waiting.clear()
            push.sent_tokens = 0
            if computed:
                self._part(push, computed).compute_s = 0.0
        push.reached_tokens = computed + tokens
        part = self._parts[request] = self._part(push, push.reached_tokens)
        if push.known:
            self._send_early(push, request, part)

    def _part(self, push: Push, until: int) -> Part:
        """The next part, up to a number of tokens, of which some may have been sent before a preemption."""
        part = Part(max(0, until - push.sent_tokens), self._env.now)
        push.sent_tokens = max(until, push.sent_tokens)
        if not push.known:
            push.waiting.append(part)
        return part

    def ends(self, request: int) -> None:
        """The step under way that computes tokens of a request ends."""
        part = self._parts.pop(request, None)
        if part is None:
            return
        part.compute_s = self._env.now - part.begun_s
        push = self._pushes[request]
        if push.known:
            self._send_last(push, request, part)

    def _leave(self, source: Engine, request: int) -> None:
        """A request has its first token: it decodes elsewhere once all of its cache is there."""
        self._pushes[request].computed_s = self._env.now
        self._complete(request)

    def _start(self, target: Engine, scheduler: FetchingScheduler, request: int) -> None:
        """The target has taken blocks: send what has been computed, and what is being computed."""
        push = self._pushes[request]
        del self._holders[request]
        push.target, push.known, push.first_s = target, True, self._env.now
        reused = self._reused(target, scheduler, request)
        for part in push.waiting:
            fewer = min(reused, part.tokens)
            reused -= fewer
            part.tokens -= fewer
            if part.compute_s >= 0.0:
                self._send_last(push, request, part)
            else:
                self._send_early(push, request, part)
        push.waiting.clear()
        push.sent_tokens += reused  # of what is computed from now on
        if push.computed_s >= 0.0:
            self._env.at(self._env.now, lambda _: self._complete(request))

    def _send_early(self, push: Push, request: int, part: Part) -> None:
        """Send all layers but the last one of a part whose step is under way."""
        if not part.tokens or self._layers == 1:
            return
        part.sent_s = self._env.now

        def sent(_: object) -> None:
            part.early_s = self._env.now
            push.under_way -= 1
            if part.compute_s >= 0.0:
                self._send_last(push, request, part)

        self._send(push, part.tokens * (self._layers - 1) / self._layers, sent)

    def _send_last(self, push: Push, request: int, part: Part) -> None:
        """The step of a part has ended: send its last layer after the layers before it, or all layers at once."""
        if not part.tokens:
            return
        if part.sent_s < 0.0:
            self._send(push, part.tokens, partial(self._sent, push, request))
        elif part.early_s >= 0.0:
            first_layer_s = part.begun_s + part.compute_s / self._layers
            follows_s = part.early_s + max(0.0, first_layer_s - part.sent_s)
            push.under_way += 1
            self._env.at(max(follows_s, self._env.now), lambda _: self._send_late(push, request, part))

    def _send_late(self, push: Push, request: int, part: Part) -> None:
        push.under_way -= 1
        self._send(push, part.tokens / self._layers, partial(self._sent, push, request))

    def _sent(self, push: Push, request: int, _: object) -> None:
        push.under_way -= 1
        self._complete(request)

    def _send(self, push: Push, tokens: float, sent: Callable[[object], None]) -> None:
        push.under_way += 1
        nbytes = [tokens * each for each in self._token_bytes]
        push.nbytes += self._whole(push.target, nbytes)
        push.source.team.send(push.target.team, nbytes, name=KV_TRANSFER).callbacks.append(sent)

    def _complete(self, request: int) -> None:
        """Let a request decode if its prompt is complete and all of its cache has come."""
        push = self._pushes.get(request)
        if push is None or push.computed_s < 0.0 or not push.known or push.under_way:
            return
        del self._pushes[request]
        self._arrived(push.source, push.target, request)
        started_s = max(push.first_s, push.computed_s)
        for hook in self._probes.kv_transferred:
            hook(request, started_s, self._env.now, push.nbytes)
