"""A naive serving engine to compare with: request objects, lists of block numbers, O(batch) work per step.

Written from the documentation of vLLM V1's scheduler: running requests first, in order of admission, then the
waiting ones, under a budget of tokens and of sequences; if blocks run out the request admitted last is
preempted and computed again; no admission in a step that has preempted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from simsys.model.batch import Batch
from simsys.serving.requests import RequestTable


@dataclass(eq=False)
class Request:
    """One request and all that is known about it."""

    number: int
    arrival_s: float
    prompt: int
    output: int
    computed: int = 0
    generated: int = 0
    decoding: bool = False
    blocks: list[int] = field(default_factory=list)

    @property
    def to_compute(self) -> int:
        return self.prompt + self.generated - self.computed


@dataclass(frozen=True)
class Step:
    """One step of the engine: prompt chunks in order, what the pass processes, and when."""

    chunks: list[tuple[int, int]]
    batch: Batch
    started_s: float
    ended_s: float


@dataclass(frozen=True)
class Limits:
    """Settings of an engine."""

    num_blocks: int
    block_size: int = 4
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 32
    long_prefill_token_threshold: int = 0
    max_context_tokens: int = 0
    reserves_prompts: bool = False


class ReferenceEngine:
    """Serves a table of requests.

    Args:
        requests: In order of arrival.
        limits: The engine's settings.
        seconds: Duration of a step that processes a batch.
    """

    def __init__(self, requests: RequestTable, limits: Limits, seconds: Callable[[Batch], float]) -> None:
        columns = zip(requests.arrival_s, requests.prompt_tokens, requests.output_tokens, strict=True)
        self.arriving = deque(Request(number, *row) for number, row in enumerate(columns))
        self.limits, self.seconds = limits, seconds
        self.now_s = 0.0
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.free = list(range(limits.num_blocks))
        self.steps: list[Step] = []
        self.events: list[tuple[str, int, float]] = []

    def run(self) -> None:
        while True:
            self.deliver()
            if not self.running and not self.waiting:
                if not self.arriving:
                    return
                self.now_s = self.arriving[0].arrival_s
                continue
            if scheduled := self.schedule():
                self.step(scheduled)

    def tell(self, event: str, request: Request) -> None:
        self.events.append((event, request.number, self.now_s))

    def deliver(self) -> None:
        while self.arriving and self.arriving[0].arrival_s <= self.now_s:
            request = self.arriving.popleft()
            total = request.prompt + request.output
            context, capacity = self.limits.max_context_tokens, self.limits.num_blocks * self.limits.block_size
            if (context and total > context) or total - 1 > capacity:
                self.events.append(("rejected", request.number, request.arrival_s))
            else:
                self.waiting.append(request)

    def wanted(self, request: Request, budget: int) -> int:
        threshold = self.limits.long_prefill_token_threshold
        tokens = request.to_compute
        return min(tokens if not threshold else min(tokens, threshold), budget)

    def allocate(self, request: Request, tokens: int) -> bool:
        while len(request.blocks) * self.limits.block_size < request.computed + tokens:
            needed = -(-(request.computed + tokens) // self.limits.block_size) - len(request.blocks)
            if needed > len(self.free):
                return False
            request.blocks.append(self.free.pop())
        return True

    def preempt(self, request: Request) -> None:
        self.running.remove(request)
        self.release(request)
        request.computed, request.decoding = 0, False
        self.waiting.appendleft(request)
        self.tell("preempted", request)

    def release(self, request: Request) -> None:
        self.free += request.blocks
        request.blocks = []

    def schedule(self) -> list[tuple[Request, int]]:
        budget = self.limits.max_num_batched_tokens
        scheduled: list[tuple[Request, int]] = []
        preempted = False
        for request in list(self.running):
            if request not in self.running:  # preempted by one before it
                break
            tokens = self.wanted(request, budget)
            while tokens and not self.allocate(request, tokens):
                last = self.running[-1]
                self.preempt(last)
                preempted = True
                if last is request:
                    break
            if request not in self.running:
                break
            if tokens:
                scheduled.append((request, tokens))
                budget -= tokens
        while not preempted and self.waiting and budget and len(self.running) < self.limits.max_num_seqs:
            request = self.waiting[0]
            tokens = self.wanted(request, budget)
            whole = -(-request.to_compute // self.limits.block_size)
            if self.limits.reserves_prompts and whole > len(self.free):
                break
            if not self.allocate(request, tokens):
                break
            self.running.append(self.waiting.popleft())
            self.tell("admitted", request)
            scheduled.append((request, tokens))
            budget -= tokens
        return scheduled

    def step(self, scheduled: list[tuple[Request, int]]) -> None:
        chunks = [(request.number, tokens) for request, tokens in scheduled if not request.decoding]
        batch = Batch()
        for request, tokens in scheduled:
            batch += self.batch(request, tokens)
        started_s = self.now_s
        self.now_s += self.seconds(batch)
        self.steps.append(Step(chunks, batch, started_s, self.now_s))
        for request, tokens in scheduled:
            request.computed += tokens
            if not request.to_compute:
                self.token(request)

    def batch(self, request: Request, tokens: int) -> Batch:
        if request.decoding:
            return Batch(1, 1, decode_context_tokens=request.computed + 1, decode_sequences=1)
        pairs = sum(request.computed + place for place in range(1, tokens + 1))
        logits = int(tokens == request.to_compute)
        return Batch(tokens, logits, attention_pairs=pairs, prompt_context_tokens=request.computed)

    def token(self, request: Request) -> None:
        request.generated += 1
        request.decoding = True
        if request.generated == 1:
            self.tell("first token", request)
        if request.generated == request.output:
            self.tell("finished", request)
            self.running.remove(request)
            self.release(request)
