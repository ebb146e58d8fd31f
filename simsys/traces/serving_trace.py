"""The trace of a serving job: a process per replica with its steps, and one of all requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from simsys.metrics.engine_notes import EngineNotes
from simsys.metrics.step_log import StepLog, StepRuns
from simsys.probes import Probe
from simsys.traces import chrome
from simsys.traces import requests as of
from simsys.traces.lanes import in_lanes, nanoseconds

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.cancelled import Cancelled
    from simsys.serving.engine_log import EngineLog

MOST_STEPS = 1_000_000
"""Steps that are shown one by one; of more, runs of steps with an unchanged batch are one slice each."""
FIRST_LANE = 1
"""Number of the first lane; Perfetto takes 0 for the number of the process."""


class ServingTrace(Probe):
    """Records a serving job; steps come from the runs that engines report, so that no step is simulated alone.

    Args:
        most: The largest number of steps that are shown one by one.
    """

    counts_only = True
    indispensable = True

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.stands_for: dict[int, Sequence[int]] = {}
        self._most = most
        self._steps = StepLog()
        self._requests = of.RequestLog()
        self._logs: dict[int, EngineLog] = {}
        self._transfers: list[tuple[int, float, float, float]] = []
        self._replicas: list[tuple[float, int]] = []
        self._end_s = 0.0
        self.tokens: Sequence[Sequence[int]] = ()
        """Prompt tokens of all requests, and output tokens, if they are to be shown."""

    def represented(self, rank: int, ranks: Sequence[int]) -> None:
        """A rank that is simulated."""
        self.stands_for[rank] = tuple(ranks)

    def replica_started(self, rank: int, log: EngineLog) -> None:
        """A process of the trace."""
        self._logs[rank] = log

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        """Slices of a replica."""
        self._steps.add(rank, runs)

    def request_arrived(self, request: int, now_s: float) -> None:
        """A request is queued."""
        self._requests.events.append((request, of.ARRIVED, now_s))

    def request_admitted(self, request: int, now_s: float) -> None:
        """It is in prefill, for the first time or again."""
        self._requests.events.append((request, of.ADMITTED, now_s))

    def request_first_token(self, request: int, now_s: float) -> None:
        """It decodes."""
        self._requests.events.append((request, of.FIRST_TOKEN, now_s))

    def request_resumed(self, request: int, now_s: float) -> None:
        """It decodes again."""
        self._requests.events.append((request, of.RESUMED, now_s))

    def request_preempted(self, request: int, now_s: float) -> None:
        """It is queued again."""
        self._requests.events.append((request, of.PREEMPTED, now_s))

    def request_finished(self, request: int, now_s: float) -> None:
        """It ends."""
        self._requests.events.append((request, of.FINISHED, now_s))

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """It ends without an answer."""
        self._requests.events.append((request, of.REJECTED, now_s))
        self._requests.reasons[request] = reason

    def request_cancelled(self, request: int, cancelled: Cancelled) -> None:
        """Its client gives up."""
        self._requests.events.append((request, of.CANCELLED, cancelled.time_s))
        self._requests.given_up[request] = cancelled.reason

    def kv_transferred(self, request: int, started_s: float, ended_s: float, nbytes: float) -> None:
        """A slice of the transfers between replicas."""
        self._transfers.append((request, started_s, ended_s, nbytes))

    def scaled(self, active: int, paid: int, now_s: float) -> None:
        """A point of the counter of replicas."""
        self._replicas.append((now_s, active))

    def stopped(self, generated_tokens: Sequence[int], now_s: float) -> None:
        """Requests end unfinished."""
        self._end_s = now_s

    def left_out(self) -> list[str]:
        """What the trace does not show, as sentences."""
        texts = ["kernels and collectives within a step: each step is one slice"]
        if self._as_runs():
            texts.append(f"single steps: more than {self._most:,}, so each run of steps of one batch is one slice")
        return texts

    def events(self, first_pid: int = 0, job: str = "") -> Iterator[str]:
        """The events as text; arguments as for `TrainingTrace.events`."""
        ranks, prefix = sorted({*self._logs, *self._steps.ranks}), f"{job}: " if job else ""
        end_s = self._end_s or max(self._steps.ended_s, *(each[2] for each in self._requests.events), 0.0)
        for number, rank in enumerate(ranks):
            yield from chrome.named_process(first_pid + rank, f"{prefix}replica {number} (first rank {rank})", job)
            yield from self._replica(first_pid + rank, rank)
        pid = first_pid + max(ranks, default=0) + 1
        yield from chrome.named_process(pid, f"{prefix}requests", job)
        yield from self._requests.slices(pid, end_s, self.tokens)
        yield from self._requests.counters(pid, end_s)
        yield from self._between_replicas(pid + 1, f"{prefix}between replicas", job)

    def _as_runs(self) -> bool:
        return sum(int(runs.count.sum()) for runs in self._steps.blocks()) > self._most

    def _replica(self, pid: int, rank: int) -> Iterator[str]:
        import numpy as np

        runs = self._steps.of(rank)
        starts, ends, which = _each_step(runs) if not self._as_runs() else _each_run(runs)
        start_ns, end_ns = nanoseconds(starts), nanoseconds(ends)
        order, further = in_lanes(np.zeros(which.size, dtype=np.int64), start_ns, end_ns)
        for lane in range(int(further.max()) + 1 if further.size else 1):
            yield from chrome.named_lane(pid, FIRST_LANE + lane, f"steps, {lane + 1}" if lane else "steps", lane)
        heads = [_kind(*each) for each in zip(*_batches(runs), strict=True)]
        columns = (which[order], start_ns[order], end_ns[order], further)
        for run, start, end, lane in zip(*(column.tolist() for column in columns), strict=True):
            name, args = heads[run]
            yield (
                f'{{"ph":"X","cat":"step","name":"{name}","pid":{pid},"tid":{FIRST_LANE + lane},'
                f'"ts":{chrome.micros(start)},"dur":{chrome.micros(end - start)},"args":{args}}}'
            )
        yield from _batch_sizes(pid, runs)
        if rank in self._logs:
            yield from _cache(pid, self._logs[rank])

    def _between_replicas(self, pid: int, name: str, job: str) -> Iterator[str]:
        """Transfers of KV caches, and the number of replicas."""
        import numpy as np

        if not self._transfers and not self._replicas:
            return
        yield from chrome.named_process(pid, name, job)
        times_ns = nanoseconds(np.array([time_s for time_s, _ in self._replicas]))
        yield from chrome.counter(
            pid, "replicas", "active", times_ns.tolist(), [float(count) for _, count in self._replicas]
        )
        if not self._transfers:
            return
        start_ns, end_ns = (nanoseconds(np.array([each[place] for each in self._transfers])) for place in (1, 2))
        order, further = in_lanes(np.zeros(start_ns.size, dtype=np.int64), start_ns, end_ns)
        for lane in range(int(further.max()) + 1):
            name = f"transfers, {lane + 1}" if lane else "transfers"
            yield from chrome.named_lane(pid, FIRST_LANE + lane, name, lane)
        for number, lane in zip(order.tolist(), further.tolist(), strict=True):
            request, _, _, nbytes = self._transfers[number]
            start, end, tid = int(start_ns[number]), int(end_ns[number]), FIRST_LANE + lane
            yield (
                f'{{"ph":"X","cat":"transfer","name":"KV cache of request {request}","pid":{pid},"tid":{tid},'
                f'"ts":{chrome.micros(start)},"dur":{chrome.micros(end - start)},"args":{{"bytes":{round(nbytes)}}}}}'
            )
        nbytes = np.array([each[3] for each in self._transfers])
        times, rate = chrome.rates(start_ns, end_ns, nbytes)
        yield from chrome.counter(pid, "KV transfers", "GB/s", times, rate)


def _batches(runs: StepRuns) -> tuple[list[int], list[int], list[int]]:
    return runs.decode_tokens.tolist(), runs.prompt_tokens.tolist(), runs.count.tolist()


def _kind(decoding: int, prompt_tokens: int, steps: int) -> tuple[str, str]:
    """Name of a step, and its arguments as text."""
    name = "mixed" if decoding and prompt_tokens else "prefill" if prompt_tokens else "decode"
    return name, f'{{"decoding sequences":{decoding},"prompt tokens":{prompt_tokens},"steps of this batch":{steps}}}'


def _each_step(runs: StepRuns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends of all steps, and the run of each; durations of a run are an arithmetic progression."""
    import numpy as np

    which = np.repeat(np.arange(len(runs)), runs.count)
    place = np.arange(which.size) - np.repeat(np.cumsum(runs.count) - runs.count, runs.count)
    return runs.ends_s(place, which), runs.ends_s(place + 1, which), which


def _each_run(runs: StepRuns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    import numpy as np

    return runs.started_s, runs.ended_s, np.arange(len(runs))


def _batch_sizes(pid: int, runs: StepRuns) -> Iterator[str]:
    """Decoding sequences of the step under way, and prompt tokens; none between steps."""
    import numpy as np

    start_ns, end_ns = nanoseconds(runs.started_s), nanoseconds(runs.ended_s)
    idle = np.append(start_ns[1:] > end_ns[:-1], True) if start_ns.size else np.zeros(0, dtype=bool)
    times = np.concatenate([start_ns, end_ns[idle]])
    order = np.argsort(times, kind="stable")
    for name, values in (("sequences", runs.decode_tokens), ("prompt tokens", runs.prompt_tokens)):
        column = np.concatenate([values, np.zeros(int(idle.sum()), dtype=np.int64)])[order]
        yield from chrome.counter(pid, "batch", name, times[order].tolist(), column.tolist())


def _cache(pid: int, log: EngineLog) -> Iterator[str]:
    """KV-cache blocks in use when each run of steps began."""
    notes = EngineNotes(log)
    if notes.times_s.size and log.cache.num_blocks:
        share = 100.0 * notes.used_blocks / log.cache.num_blocks
        yield from chrome.counter(pid, "KV cache in use", "%", nanoseconds(notes.times_s).tolist(), share.tolist())
