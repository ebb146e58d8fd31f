"""A made-up serving run, told to a collector as runs of steps and written down token by token."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simsys.metrics.serving_collector import ServingMetrics
from simsys.serving.engine_log import EngineLog
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable


@dataclass
class Played:
    """What was told, and what it means."""

    collector: ServingMetrics
    tokens_s: list[list[float]] = field(default_factory=list)
    """By request, when each of its tokens came."""
    waiting_s: list[tuple[float, float]] = field(default_factory=list)
    running_s: list[tuple[float, float]] = field(default_factory=list)
    """From when until when each request waited, and ran."""
    decoding_s: list[tuple[float, float, int]] = field(default_factory=list)
    """Every step with decoding sequences, and how many."""

    @property
    def gaps_s(self) -> np.ndarray:
        return np.concatenate([[], *(np.diff(times_s) for times_s in self.tokens_s)])


class Engine:
    """One replica that does what chance tells it, on one clock."""

    def __init__(
        self, played: Played, rank: int, waiting: list[int], rng: np.random.Generator, *, mixes: bool
    ) -> None:
        self.kv = PagedKVCache(64, 16)
        self.log = EngineLog(self.kv)
        played.collector.replica_started(rank, self.log)
        self.played, self.rank, self.waiting, self.rng, self.mixes = played, rank, waiting, rng, mixes
        self.requests = played.collector.log.requests
        self.running: list[int] = []
        self.since_s = {request: self.requests.arrival_s[request] for request in waiting}
        self.now_s = 0.0
        self.told: list[float] = []

    def serve(self) -> None:
        while self.waiting or self.running:
            ready = [each for each in self.waiting if self.since_s[each] <= self.now_s]
            if not ready and not self.running:
                self.note(0)
                self.now_s = min(self.since_s[each] for each in self.waiting)
                continue
            if self.running and self.rng.random() < 0.2:
                self.preempt(self.running[-1])
            prompts = ready[: int(self.rng.integers(0, 3))] if self.running else ready[:1]
            for request in prompts:
                self.admit(request)
            self.step(prompts, 1 if prompts else int(self.rng.integers(1, 1 + self.least())) if self.running else 0)

        self.note(0)
        self.played.collector.steps(self.rank, self.told)

    def note(self, sequences: int) -> None:
        assert self.log.fresh is not None
        self.log.fresh += (self.now_s, self.kv.free_blocks, self.kv.taken_blocks)
        if sequences < 0:
            self.log.wait(self.now_s, -sequences)
        elif len(self.log.pauses) % 2:
            self.log.go_on(self.now_s, sequences)

    def least(self) -> int:
        return min(self.requests.output_tokens[each] - len(self.played.tokens_s[each]) for each in self.running)

    def preempt(self, request: int) -> None:
        self.running.remove(request)
        self.waiting.append(request)
        self.played.running_s.append((self.since_s[request], self.now_s))
        self.since_s[request] = self.now_s
        self.played.collector.request_preempted(request, self.now_s)

    def admit(self, request: int) -> None:
        self.waiting.remove(request)
        self.played.waiting_s.append((self.since_s[request], self.now_s))
        self.since_s[request] = self.now_s
        self.played.collector.request_admitted(request, self.now_s)

    def step(self, prompts: list[int], count: int) -> None:
        if not count:
            return
        decoding = self.running if self.mixes or not prompts else []
        first_s = float(self.rng.choice([0.25, 0.375, self.rng.random() + 0.01]))
        last_s = first_s if count == 1 else first_s * float(self.rng.choice([1.0, 1.25, 0.75]))
        lengths_s = np.linspace(first_s, last_s, count)
        started_s, ends_s = self.now_s, (self.now_s + np.cumsum(lengths_s)).tolist()
        self.note(len(decoding) or -len(self.running))
        self.now_s = ends_s[-1]
        growth_s = (last_s - first_s) / max(count - 1, 1)
        self.told += (started_s, count, len(decoding), 7 * len(prompts), first_s, growth_s)
        for end_s, length_s in zip(ends_s, lengths_s, strict=True):
            for request in decoding:
                self.played.tokens_s[request].append(end_s)
            if decoding:
                self.played.decoding_s.append((end_s - length_s, end_s, len(decoding)))
        self.end([*decoding], prompts)

    def end(self, decoding: list[int], prompts: list[int]) -> None:
        for request in prompts:
            if self.played.tokens_s[request]:
                self.played.collector.request_resumed(request, self.now_s)
            else:
                self.played.collector.request_first_token(request, self.now_s)
            self.played.tokens_s[request].append(self.now_s)
            self.running.append(request)
        for request in [*decoding, *prompts]:
            if len(self.played.tokens_s[request]) == self.requests.output_tokens[request]:
                self.running.remove(request)
                self.played.running_s.append((self.since_s[request], self.now_s))
                self.played.collector.request_finished(request, self.now_s)


def play(seed: int, *, requests: int = 40, replicas: int = 2, mixes: bool = True) -> Played:
    """Serve requests by chance; the last one is rejected."""
    rng = np.random.default_rng(seed)
    table = RequestTable(
        np.sort(rng.random(requests) * 20).tolist(),
        rng.integers(1, 30, requests).tolist(),
        rng.integers(1, 15, requests).tolist(),
    )
    played = Played(ServingMetrics(table, {"ttft": 5.0, "tpot": 0.5}), [[] for _ in range(requests)])
    for replica in range(replicas):
        order = list(range(replica, requests - 1, replicas))
        Engine(played, 2 * replica, order, rng, mixes=mixes).serve()
    played.collector.request_rejected(requests - 1, "too long", table.arrival_s[-1])
    return played
