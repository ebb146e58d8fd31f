"""Decisions of a simulated scheduler beside the decisions of a real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from simsys.build.job import build
from simsys.build.serving import ServingJob
from simsys.config.experiment import SimulationConfig
from simsys.conformance.replay import Decision, replayed
from simsys.conformance.step_log import LoggedStep, StepLog, read_step_log
from simsys.errors import UsageError

SHOWN = 3
"""Differences that are shown."""
REQUESTS_SHOWN = 6
FIGURES = ("equal_share", "equal_steps_at_first")
"""What ``--fail-on`` may name."""


@dataclass(frozen=True)
class Difference:
    """A step that differs.

    Args:
        place: Its place in the log, from 0.
        measured: Tokens by request in the log; empty if the engine made no such step.
        simulated: Tokens by request in the simulation.
        kind: What differs, as a phrase.
    """

    place: int
    measured: Mapping[str, int]
    simulated: Mapping[str, int]
    kind: str

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return {"step": self.place, "kind": self.kind, "log": dict(self.measured), "simsys": dict(self.simulated)}

    def text(self) -> str:
        """As lines for people: only the requests that differ."""
        both = [(name, self.measured.get(name, 0), self.simulated.get(name, 0)) for name in self._names()]
        other = [f"{name}: {logged} in the log, {found} here" for name, logged, found in both if logged != found]
        more = [f"and {len(other) - REQUESTS_SHOWN} more"] if len(other) > REQUESTS_SHOWN else []
        return "\n    ".join([f"  step {self.place}: {self.kind}", *other[:REQUESTS_SHOWN], *more])

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self.measured, *self.simulated]))


@dataclass(frozen=True)
class Conformance:
    """The decisions of one scenario against a log.

    Args:
        scenario: Name of the scenario.
        log: The log's path.
        steps: Steps of the log.
        simulated_steps: Steps of the simulation.
        differences: Steps that differ, in order.
    """

    scenario: str
    log: str
    steps: int
    simulated_steps: int
    differences: tuple[Difference, ...]

    @property
    def figures(self) -> dict[str, float]:
        """What ``--fail-on`` may name."""
        count = max(self.steps, self.simulated_steps)
        first = self.differences[0].place if self.differences else self.steps
        return {
            "equal_share": 1.0 - len(self.differences) / count if count else 1.0,
            "equal_steps_at_first": float(first),
        }

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return {
            "scenario": self.scenario,
            "log": self.log,
            "steps": self.steps,
            "simulated_steps": self.simulated_steps,
            "figures": self.figures,
            "differences": [each.as_dict() for each in self.differences],
        }

    def text(self) -> str:
        """As lines for people."""
        share, first = self.figures["equal_share"], self.differences[0].place if self.differences else None
        head = f"{self.scenario}: {self.steps:,} steps of {self.log}, {share:.1%} with equal decisions"
        if first is None:
            return f"{head}, all preemptions included"
        lines = [head, f"  the first {first:,} are equal; after a difference, later steps may differ because of it"]
        if self.simulated_steps != self.steps:
            lines.append(f"  simsys makes {self.simulated_steps:,} steps")
        return "\n".join(lines + [each.text() for each in self.differences[:SHOWN]])


def conformance(config: SimulationConfig, path: Path) -> Conformance:
    """Let the scheduler of a scenario make the steps of a log.

    Args:
        config: The serving scenario; its workload is not used.
        path: The step log.

    Raises:
        UsageError: If the scenario is none of serving, has several engines, or the log cannot be read.
        ConfigError: With every problem of the log.
    """
    if config.serving is None:
        raise UsageError(f"{config.name} is no scenario of serving, so it has no scheduler")
    # The log says which step a request comes before, also where the step was scheduled while another one ran.
    as_logged = config.serving.model_copy(update={"async_scheduling": False})
    (job,) = build(config.model_copy(update={"serving": as_logged})).jobs
    assert isinstance(job, ServingJob)
    log = read_step_log(path)
    found = compared(log, replayed(job, log))
    return Conformance(config.name, str(path), len(log.steps), found[1], found[0])


def compared(log: StepLog, decisions: list[Decision]) -> tuple[tuple[Difference, ...], int]:
    """The steps that differ, and the number of simulated steps."""
    differences = []
    for place, (logged, found) in enumerate(zip_longest(log.steps, decisions)):
        measured = dict(logged.scheduled) if logged is not None else {}
        simulated = {log.ids[request]: tokens for request, tokens in found.tokens.items()} if found else {}
        kind = _kind(log, logged, found, measured, simulated)
        if kind:
            differences.append(Difference(place, measured, simulated, kind))
    return tuple(differences), len(decisions)


def _kind(
    log: StepLog,
    logged: LoggedStep | None,
    found: Decision | None,
    measured: Mapping[str, int],
    simulated: Mapping[str, int],
) -> str:
    """What differs; empty if nothing does."""
    if logged is None or found is None:
        return "the log has no such step" if logged is None else "simsys makes no such step"
    lost, here = set(logged.preempted), {log.ids[request] for request in found.preempted}
    if lost != here:
        both = (", ".join(sorted(each)) or "none" for each in (lost, here))
        return "other requests are preempted: {} in the log, {} here".format(*both)
    if set(measured) != set(simulated):
        return "other requests are scheduled"
    return "" if measured == simulated else "other numbers of tokens"
