"""The MetricsCollector of serving."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Any

from simsys.metrics.collector import MetricsCollector
from simsys.metrics.image_log import ImageLog
from simsys.metrics.replica_log import ReplicaLog
from simsys.metrics.serving import serving_metrics
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.serving_timeline import means, timeline
from simsys.metrics.stop_rule import StopRule
from simsys.metrics.tier_log import TierLog
from simsys.serving.cancelled import Cancelled
from simsys.serving.engine_log import EngineLog
from simsys.serving.requests import RequestTable

if TYPE_CHECKING:
    import numpy as np


class ServingMetrics(MetricsCollector):
    """Times of every request, in columns allocated beforehand, and the steps of every replica.

    Args:
        requests: All requests of the run.
        slo: Targets, limits and attainment (`serving_metrics`).
        api_s: How long a request needs to the scheduler.
        starts_s: When the run begins.
        gpus_per_replica: GPUs of each replica.
        stop: Decides when the run ends, if anything does.
    """

    def __init__(
        self,
        requests: RequestTable,
        slo: Mapping[str, float],
        api_s: float = 0.0,
        starts_s: float = 0.0,
        *,
        gpus_per_replica: int = 1,
        stop: StopRule | None = None,
    ) -> None:
        self.log = ServingLog(requests, api_s, starts_s)
        if stop is not None:
            stop.watch(self.log)
        self.replica_log = ReplicaLog(gpus_per_replica)
        self.tier_log, self.image_log = TierLog(), ImageLog()
        self.slo = slo

    def replica_started(self, rank: int, log: EngineLog) -> None:
        """Record the use of a cache over time."""
        self.log.engine_logs[rank] = log
        log.keep()

    def hears(self, hook: str) -> bool:
        """All that it overrides, apart from arrivals that are known beforehand."""
        known = hook == "request_arrived" and self.log.arrival_s is self.log.requests.arrival_s
        return super().hears(hook) and not known

    def request_arrived(self, request: int, now_s: float) -> None:
        """Record the arrival of a request."""
        self.log.arrival_s[request] = now_s

    @property
    def request_admitted(self) -> Callable[[int, float], None]:
        """A request is scheduled for the first time, or again."""
        admitted_s, readmitted_s = self.log.admitted_s, self.log.readmitted_s

        def note(request: int, now_s: float) -> None:
            if admitted_s[request] < 0.0:
                admitted_s[request] = now_s
            else:
                readmitted_s.append(now_s)

        return note

    @property
    def request_first_token(self) -> Callable[[int, float], None]:
        """First output token."""
        return _writing(self.log.first_token_s)

    def request_joined(self, request: int, rank: int, now_s: float) -> None:
        """A request decodes where its cache was sent."""
        self.log.joined[request] = rank, now_s

    def request_resumed(self, request: int, now_s: float) -> None:
        """The next output token after the loss of the cache."""
        self.log.resumed(request, now_s)

    @property
    def request_finished(self) -> Callable[[int, float], None]:
        """Record the last output token."""
        return _writing(self.log.finished_s)

    def request_preempted(self, request: int, now_s: float) -> None:
        """Count a preemption."""
        self.log.preempted(request, now_s)

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """Record a rejected request."""
        self.log.rejected[request] = reason
        self.log.rejected_s.append(now_s)

    def request_cancelled(self, request: int, cancelled: Cancelled) -> None:
        """Record a request whose client has given up."""
        self.log.cancelled[request] = cancelled

    @property
    def prefix_lookup(self) -> Callable[[int, int, int, float], None]:
        """Record cached tokens and looked-up tokens; as in vLLM, not after a preemption."""
        preemptions, lookups, packed = self.log.preemptions, self.log.lookups, Struct("3d").pack

        def note(request: int, hit_tokens: int, query_tokens: int, now_s: float) -> None:
            if not preemptions[request]:  # packed, numbers are appended in half the time
                lookups.frombytes(packed(now_s, hit_tokens, query_tokens))

        return note

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        """Many at once; a good time to store what engines have noted since the last ones."""
        self.log.steps.add(rank, runs)
        logs = self.log.engine_logs
        for log in (logs[rank],) if rank in logs else logs.values():
            log.store()

    @cached_property
    def _timeline(self) -> Mapping[str, np.ndarray]:
        return timeline(self.log, self.end_s)

    def stopped(self, generated_tokens: Sequence[int], now_s: float) -> None:
        """Requests are in flight, and the run ends."""
        self.log.stopped_s = now_s
        known_s = self.log.arrival_s
        if known_s is self.log.requests.arrival_s and known_s and known_s[-1] > now_s:  # the later ones are not sent
            self.log.arrival_s = [time_s if time_s <= now_s else -1.0 for time_s in known_s]
        self.log.generated_tokens = list(generated_tokens)

    def kv_transferred(self, request: int, started_s: float, ended_s: float, nbytes: float) -> None:
        """Record that a request continues on another replica."""
        self.replica_log.transferred(ended_s - started_s, nbytes)

    def image_lookup(self, request: int, hit: bool) -> None:
        """Count look-ups in encoder caches; after a preemption, an image is looked up again."""
        if not self.log.preemptions[request]:
            self.image_log.looked_up(hit)

    def images_encoded(self, rank: int, images: int, started_s: float, ended_s: float) -> None:
        """Record a pass of an encoder."""
        self.image_log.passed(rank, images, ended_s - started_s)

    def kv_reused(self, request: int, hit_tokens: int, query_tokens: int) -> None:
        """Count what is not sent to decode replicas."""
        self.replica_log.reused_tokens += hit_tokens
        self.replica_log.looked_up_tokens += query_tokens

    def kv_moved(self, kind: str, reads: bool, nbytes: float) -> None:
        """Count bytes by tier."""
        self.tier_log.moved(kind, reads, nbytes)

    def kv_loaded(self, request: int, tokens: Mapping[str, int], started_s: float, ended_s: float) -> None:
        """Record a load, and its tokens among those that were looked up."""
        self.tier_log.loaded(tokens, ended_s - started_s, again=bool(self.log.preemptions[request]))

    def scaled(self, active: int, paid: int, now_s: float) -> None:
        """Replicas come and go."""
        self.replica_log.scaled(active, paid, now_s)

    def replica_changes(self) -> Mapping[str, Sequence[Any]]:
        """One row per change."""
        return self.replica_log.columns()

    def metrics(self) -> Mapping[str, Any]:
        """Figures of the whole run."""
        end_s = self.end_s
        measured = serving_metrics(self.log, self.slo) | means(self._timeline, end_s - self.log.starts_s)
        tiers = self.tier_log.metrics(self.log.prefix_queries, measured["mean_ttft_ms"], measured["completed"])
        if tiers:
            measured["prefix_cache_hits"] -= sum(self.tier_log.hit_tokens.values())
        return {**measured, **tiers, **self._of_images(measured), **self.replica_log.metrics(end_s)}

    def _of_images(self, measured: Mapping[str, Any]) -> dict[str, Any]:
        table = self.log.requests
        if table.image is None:
            return {}
        images = [len(table.images[request]) for request in self.log.completed.nonzero()[0].tolist()]
        engines = len(self.log.engine_logs)
        return self.image_log.metrics(images, table.image.prompt_tokens, measured["duration"], engines, measured)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per request."""
        return self.log.rows()

    def over_time(self) -> Mapping[str, Any]:
        """One row per interval."""
        return {name: column.tolist() for name, column in self._timeline.items()}

    @property
    def requests(self) -> ServingLog:
        """All that is known of the requests."""
        return self.log

    @property
    def end_s(self) -> float:
        """End of the last request."""
        return self.log.ended_s


def _writing(column: MutableSequence[float]) -> Callable[[int, float], None]:
    """What writes the time of a request into a column; a function is called faster than the column's `__setitem__`."""

    def write(request: int, now_s: float) -> None:
        column[request] = now_s

    return write
