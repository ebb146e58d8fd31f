"""What remedies gain: each candidate is checked and simulated, and the best ones are combined in pairs.

The gain is in throughput (samples per second) for training, and in the mean end-to-end latency of completed requests
for serving. All simulations, also that of the scenario itself for comparison, are at medium detail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from pydantic import BaseModel

from simsys.analysis.findings import Finding
from simsys.analysis.losses import losses
from simsys.analysis.remedies import FEWER_BITS, OTHER_BATCH, TRAINING, Candidate
from simsys.analysis.serving_remedies import SERVING
from simsys.build.job import Job
from simsys.build.rules.findings import Remedy
from simsys.build.training import TrainingJob
from simsys.check.effort import cpu_parts
from simsys.check.remedies import changed, remedy_text
from simsys.config.experiment import SimulationConfig
from simsys.errors import SimsysError
from simsys.searches.simulated import checked_job
from simsys.simulation import simulate_job
from simsys.sums import ordered_sum

SIMULATIONS = 40
"""Default limit of the number of simulated candidates."""
WORTH = 0.005
"""Least gain of a remedy."""
SIGNIFICANT = 0.01
"""Least severity of a resource whose remedies are tried."""
PAIRED = 5
"""Best remedies of different settings that are combined in pairs."""
AT_MEDIUM = {"simulation.lod": "medium", "simulation.collect_events": False}
REMOVED, HARDLY_ANY = 0.5, 0.1
"""A remedy removes a bottleneck if at most half of its largest loss is left, and if this is at most half of its former
share of the time, or hardly any of the former time. Both were chosen by hand."""


@dataclass(frozen=True)
class RemedyGain:
    """Settings that were simulated.

    Args:
        kind: The resource that they are for; of a pair, both.
        settings: The settings by dotted path.
        gain: Throughput over that without them, or in serving the latency without them over that with them, minus 1.
        lost_before: The largest loss of the resource, as a share of the time without them; of a pair, of the first.
        lost_after: What is left of this loss with them, for as many samples or for a request, as a share of the same
            time.
        note: What they change in addition; empty if nothing.
        gpus: Additional GPUs.
        usd_ratio: Price of a token over that without them; None if prices are unknown.
    """

    kind: str
    settings: Mapping[str, Any]
    gain: float
    lost_before: float
    lost_after: float
    note: str = ""
    gpus: int = 0
    usd_ratio: float | None = None

    @property
    def removes(self) -> bool:
        """Whether the resource is no bottleneck of this size any longer."""
        most, share = REMOVED * self.lost_before, self.lost_after * (1.0 + self.gain)
        return self.lost_after <= most and (share <= most or self.lost_after <= HARDLY_ANY)

    @property
    def text(self) -> str:
        """The settings as in a file."""
        return remedy_text(self.settings)

    def as_dict(self) -> dict[str, Any]:
        """The remedy as data for JSON."""
        return {**asdict(self), "settings": dict(self.settings), "removes": self.removes}


@dataclass(frozen=True)
class _Run:
    """A simulated scenario: the figure to compare, and its losses by name as shares of its time."""

    speed: float
    lost: Mapping[str, float]
    gpus: int
    usd: float | None


@dataclass
class Gains:
    """Simulates remedies of a scenario.

    Args:
        config: The scenario, as its job has it.
        job: The job.
        simulations: Most simulations.
        limit_s: Most estimated processor time of all simulations together.
        say: Called before each simulation with its number.
    """

    config: SimulationConfig
    job: Job
    simulations: int = SIMULATIONS
    limit_s: float = float("inf")
    say: Callable[[int], None] = lambda _: None
    tried: int = 0
    refused: int = 0
    left_out: int = 0
    _spent_s: float = field(default=0.0, init=False)
    _completed: int = field(default=0, init=False)

    def remedies(self, found: Sequence[Finding]) -> list[RemedyGain]:
        """Remedies of the resources that a run loses most to, the best first.

        Those that remove the most severe bottleneck come first; of these, those without more GPUs, then those without
        side effects; otherwise they are in the order of their gains.

        Args:
            found: What the run loses, the most severe first.
        """
        severe: dict[str, str] = {each.kind: each.losses[0].name for each in found if each.severity >= SIGNIFICANT}
        base = self._run({}) if severe else None
        if base is None:
            return []
        helping: list[tuple[RemedyGain, Candidate]] = []
        for kind, candidate in self._candidates(list(severe)):
            run = self._run(candidate.settings)
            if run is not None and (gain := run.speed / base.speed - 1.0) > WORTH:
                helping.append((_remedy(kind, severe[kind], candidate, gain, base, run), candidate))
        first = found[0].kind
        helping.sort(key=lambda pair: _rank(pair[0], first))
        best = {frozenset(each.settings): (each, candidate) for each, candidate in reversed(helping)}
        unlike = sorted(best.values(), key=lambda pair: _rank(pair[0], first))[:PAIRED]
        pairs = self._pairs(unlike, base, severe)
        return sorted([*(remedy for remedy, _ in helping), *pairs], key=lambda remedy: _rank(remedy, first))

    def _candidates(self, kinds: Sequence[str]) -> Iterator[tuple[str, Candidate]]:
        """Candidates of resources in turn, each once: those of the most severe one first."""
        remedies: Mapping[str, Sequence[Any]] = TRAINING if isinstance(self.job, TrainingJob) else SERVING
        seen: set[str] = set()
        for kind in kinds:
            for function in remedies.get(kind, ()):
                for candidate in function(self.job):
                    text = repr(sorted(candidate.settings.items()))
                    if text not in seen:
                        seen.add(text)
                        yield kind, candidate

    def _pairs(
        self, helping: Sequence[tuple[RemedyGain, Candidate]], base: _Run, severe: Mapping[str, str]
    ) -> Iterator[RemedyGain]:
        """Pairs of the best remedies with different settings that gain more than each alone."""
        order = list(severe)
        for pair in combinations(helping, 2):
            (one, first), (other, second) = sorted(pair, key=lambda each: order.index(each[0].kind))
            if set(first.settings) & set(second.settings):
                continue
            notes = ", ".join(dict.fromkeys(filter(None, (first.note, second.note))))
            both = Candidate({**first.settings, **second.settings}, notes)
            run = self._run(both.settings)
            if run is not None and (gain := run.speed / base.speed - 1.0) > max(one.gain, other.gain) + WORTH:
                kinds = " and ".join(dict.fromkeys((one.kind, other.kind)))
                yield _remedy(kinds, severe[one.kind], both, gain, base, run)

    def _run(self, settings: Remedy) -> _Run | None:
        """Check and simulate the scenario with some settings; None if that fails or exceeds a limit."""
        if self.tried >= self.simulations:
            self.left_out += 1
            return None
        try:
            job = checked_job(changed(self.config, {**settings, **AT_MEDIUM}))
            if isinstance(job, str):
                self.refused += 1
                return None
            seconds = ordered_sum(cpu_parts(job).values())
            if self._spent_s + seconds > self.limit_s:
                self.left_out += 1
                return None
            self._spent_s, self.tried = self._spent_s + seconds, self.tried + 1
            self.say(self.tried)
            result = simulate_job(job)
        except SimsysError:
            self.refused += 1
            return None
        metrics = result.metrics
        if result.kind == "training":
            speed = metrics["samples_per_s"]
        elif not metrics.get("mean_e2el_ms") or metrics["completed"] < self._completed:
            return None
        else:
            self._completed = self._completed or metrics["completed"]
            speed = 1e3 / metrics["mean_e2el_ms"]
        lost = {loss.name: loss.share for loss in losses(result)}
        return _Run(speed, lost, job.cluster.num_gpus, metrics.get("usd_per_million_tokens"))


def _remedy(kind: str, loss: str, candidate: Candidate, gain: float, base: _Run, run: _Run) -> RemedyGain:
    return RemedyGain(
        kind,
        {path: _plain(value) for path, value in candidate.settings.items()},
        gain,
        base.lost.get(loss, 0.0),
        run.lost.get(loss, 0.0) / (1.0 + gain),
        candidate.note,
        max(0, run.gpus - base.gpus),
        run.usd / base.usd if run.usd and base.usd else None,
    )


def _rank(remedy: RemedyGain, first: str) -> tuple[bool, bool, int, float]:
    """The place of a remedy: smaller is better.

    Args:
        remedy: The remedy.
        first: The most severe resource.
    """
    removes = remedy.removes and remedy.kind.startswith(first)
    changes = sum(note in remedy.note for note in (OTHER_BATCH, FEWER_BITS)) if removes else 0
    return not removes, remedy.gpus > 0, changes, -remedy.gain


def _plain(value: Any) -> Any:
    """A setting as in a file."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return [_plain(each) for each in value] if isinstance(value, list) else value
