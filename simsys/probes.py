"""Probes: observers of a run. Observing never changes a result.

(Except for rounding and the number of events, where equal training iterations or passes are skipped if unobserved.)
A probe overrides only the hooks it needs; `Probes` collects them once, so an unused hook costs one empty loop. A probe
that raises is reported and removed, and the run continues (as with trio's instruments).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from simsys.ops import Operation, Recv

if TYPE_CHECKING:
    from simsys.serving.cancelled import Cancelled
    from simsys.serving.engine_log import EngineLog


class Probe:
    """Base of all observers; every hook is optional. Times are seconds of simulated time."""

    counts_only: ClassVar[bool] = False
    """True if equal training iterations may be reported by `repeated` instead of one by one, and equal micro-batches
    by `cycles_left_out`."""

    each_pass: ClassVar[bool] = False
    """True if passes of training are to be reported one by one, with events for each, where medium would report sums
    over many; unless they are very many, or on shared links."""

    indispensable: ClassVar[bool] = False
    """True if the run is worth nothing without it: then an error of its own is an error of the run."""

    def represented(self, rank: int, ranks: Sequence[int]) -> None:
        """A rank is simulated, for all of `ranks`, which do the same at the same time; reported before all else."""

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """An operation runs from `started_s` to `ended_s`; reported once, as soon as its end is known.

        The end may be ahead of the clock, and operations are not reported in order of time.
        """

    def waited(self, op: Recv, started_s: float, sent_s: float, ended_s: float) -> None:
        """A rank has waited for a message sent at `sent_s`; not reported if the message had arrived already.

        Summed passes are reported as one wait. Computation of the rank before it stopped for the message is reported
        as an operation.
        """

    def memory(self, rank: int, in_use_bytes: float, now_s: float) -> None:
        """The memory in use on a rank's GPU has changed."""

    def memory_by_name(self, rank: int, held_bytes: Mapping[str, int], now_s: float) -> None:
        """The memory in use on a rank's GPU has changed; by component. Copy the mapping to keep it."""

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """A framework module has begun or ended a phase, such as ``iteration_start``."""

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """`count` further training iterations follow, from `started_s` on; their operations are not reported.

        Each lasts `iteration_s` and equals iteration `like`, counted from 0.
        """

    def cycles_left_out(self, rank: int, count: int, started_s: float, ended_s: float) -> None:
        """`count` further cycles of micro-batches belong to the training iteration; their operations are not reported.

        Each equals what a rank does from `started_s` to `ended_s`. Times of operations that follow within the
        iteration are reported as if there were no such cycles, its end is not.
        """

    def request_arrived(self, request: int, now_s: float) -> None:
        """A request arrives."""

    def request_admitted(self, request: int, now_s: float) -> None:
        """A request is scheduled: for the first time, or again after a preemption."""

    def request_first_token(self, request: int, now_s: float) -> None:
        """A request has its first output token."""

    def request_finished(self, request: int, now_s: float) -> None:
        """A request has its last output token."""

    def request_resumed(self, request: int, now_s: float) -> None:
        """A request that had lost its KV cache after its first token has a further token."""

    def request_preempted(self, request: int, now_s: float) -> None:
        """A request has lost its KV cache, which will be computed again or come back from the host."""

    def prefix_lookup(self, request: int, hit_tokens: int, query_tokens: int, now_s: float) -> None:
        """A request that is admitted has been looked up in the prefix cache; again after each preemption.

        Args:
            request: The request.
            hit_tokens: Number of its cached tokens: whole blocks, without its last token.
            query_tokens: Number of its tokens: its prompt, and after a preemption also generated tokens.
            now_s: The time.
        """

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """A request can never be served, or a router rejects it with status 429."""

    def request_cancelled(self, request: int, cancelled: Cancelled) -> None:
        """The client of a request has given up, and the request holds nothing any more."""

    def replica_started(self, rank: int, log: EngineLog) -> None:
        """An engine with this first rank begins; after `log.keep`, it records the use of its KV cache."""

    def image_lookup(self, request: int, hit: bool) -> None:
        """An image of a request has been looked up in the encoder cache; again after each preemption."""

    def images_encoded(self, rank: int, images: int, started_s: float, ended_s: float) -> None:
        """A pass over images has ended, on the engine with this first rank."""

    def kv_transferred(self, request: int, started_s: float, ended_s: float, nbytes: float) -> None:
        """The KV cache of a request, `nbytes` on all ranks together, has gone from one replica to another."""

    def kv_reused(self, request: int, hit_tokens: int, query_tokens: int) -> None:
        """A replica that decodes with prefix caching has looked for the prompt of a request; the rest is sent."""

    def kv_loaded(self, request: int, tokens: Mapping[str, int], started_s: float, ended_s: float) -> None:
        """The prefix of a request has been loaded from tiers; with these numbers of tokens by kind of tier."""

    def kv_moved(self, kind: str, reads: bool, nbytes: float) -> None:
        """Bytes of KV cache are read from a tier of a kind, or written to it; below 0 if a read was cut short."""

    def request_joined(self, request: int, rank: int, now_s: float) -> None:
        """A request with a prompt processed elsewhere decodes from now on, on the engine with this first rank."""

    def scaled(self, active: int, paid: int, now_s: float) -> None:
        """New numbers of active and of paid replicas; reported with autoscaling."""

    def stopped(self, generated_tokens: Sequence[int], now_s: float) -> None:
        """A serving run ends before its requests, with these numbers of tokens for each."""

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        """A serving replica has finished steps with one token for every decoding sequence.

        Steps are reported in batches, the last ones at the end of the job.

        Args:
            rank: The first rank of the engine; a replica has one for each stage of its pipeline.
            runs: Six numbers for every run of steps in a row with the same batch: start of the first step in seconds;
                number of steps; decoding sequences; prompt tokens per step; duration of the first step in seconds;
                increase of the duration per step.
        """

    def hears(self, hook: str) -> bool:
        """True if this hook is called: by default, if the probe overrides it."""
        return getattr(type(self), hook) is not getattr(Probe, hook)

    def of_job(self, name: str) -> Probe:
        """The probe that observes the job of this name on a shared cluster: by default, one for all jobs.

        If jobs are simulated again, with links that they share, it is asked again.
        """
        return self


def as_one(hooks: Sequence[Callable[..., object]]) -> Callable[..., object]:
    """What calls all hooks of a kind; of a single one, the hook itself, for loops that do little else."""
    if len(hooks) == 1:
        return hooks[0]

    def call_all(*told: Any) -> None:
        for hook in hooks:
            hook(*told)

    return call_all


HOOKS = tuple(
    name
    for name, value in vars(Probe).items()
    if callable(value) and name[0] != "_" and name not in ("hears", "of_job")
)


class Probes:
    """The probes of one run, indexed by hook: ``for hook in probes.operation: hook(…)``."""

    represented: tuple[Callable[[int, Sequence[int]], None], ...]
    operation: tuple[Callable[[Operation, float, float], None], ...]
    waited: tuple[Callable[[Recv, float, float, float], None], ...]
    memory: tuple[Callable[[int, float, float], None], ...]
    memory_by_name: tuple[Callable[[int, Mapping[str, int], float], None], ...]
    mark: tuple[Callable[[int, str, float], None], ...]
    repeated: tuple[Callable[[int, int, float, float, int], None], ...]
    cycles_left_out: tuple[Callable[[int, int, float, float], None], ...]
    request_arrived: tuple[Callable[[int, float], None], ...]
    request_admitted: tuple[Callable[[int, float], None], ...]
    request_first_token: tuple[Callable[[int, float], None], ...]
    request_finished: tuple[Callable[[int, float], None], ...]
    request_resumed: tuple[Callable[[int, float], None], ...]
    request_preempted: tuple[Callable[[int, float], None], ...]
    prefix_lookup: tuple[Callable[[int, int, int, float], None], ...]
    request_rejected: tuple[Callable[[int, str, float], None], ...]
    request_cancelled: tuple[Callable[[int, Cancelled], None], ...]
    replica_started: tuple[Callable[[int, EngineLog], None], ...]
    image_lookup: tuple[Callable[[int, bool], None], ...]
    images_encoded: tuple[Callable[[int, int, float, float], None], ...]
    kv_transferred: tuple[Callable[[int, float, float, float], None], ...]
    kv_reused: tuple[Callable[[int, int, int], None], ...]
    kv_loaded: tuple[Callable[[int, Mapping[str, int], float, float], None], ...]
    kv_moved: tuple[Callable[[str, bool, float], None], ...]
    request_joined: tuple[Callable[[int, int, float], None], ...]
    scaled: tuple[Callable[[int, int, float], None], ...]
    stopped: tuple[Callable[[Sequence[int], float], None], ...]
    steps: tuple[Callable[[int, Sequence[float]], None], ...]

    def __init__(self, probes: Iterable[Probe] = ()) -> None:
        self._probes = list(probes)
        self._index()

    def add(self, probe: Probe) -> None:
        """Let a further probe observe from now on."""
        self._probes.append(probe)
        self._index()

    def remove(self, probe: Probe) -> None:
        """Let a probe observe no longer."""
        self._probes.remove(probe)
        self._index()

    def _index(self) -> None:
        for hook in HOOKS:
            heard = [probe for probe in self._probes if probe.hears(hook)]
            setattr(self, hook, tuple(self._guarded(probe, hook) for probe in heard))

    def _guarded(self, probe: Probe, hook: str) -> Callable[..., None]:
        call: Callable[..., None] = getattr(probe, hook)
        if probe.indispensable:
            return call

        def guarded(*args: Any) -> None:
            if probe not in self._probes:  # removed while this round of calls was under way
                return
            try:
                call(*args)
            except Exception as error:
                self._probes.remove(probe)
                self._index()
                name = f"{type(probe).__name__}.{hook}"
                warnings.warn(f"probe {name} failed and was removed: {error!r}", RuntimeWarning, stacklevel=2)

        return guarded
