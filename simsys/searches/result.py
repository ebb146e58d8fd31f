"""The answer of a search: the best candidates, in groups that the expected loss of a choice cannot separate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simsys.config.expected_losses import MeasuredLoss
from simsys.metrics.metric import SERVING, TRAINING
from simsys.searches.candidates import Simplicity
from simsys.searches.goal import COST, MEMORY_SHARE, NUM_GPUS, Goal
from simsys.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

HEADLINE = {
    TRAINING: ("steady_iteration_s", "tokens_per_s_per_gpu", "mfu", MEMORY_SHARE, COST),
    SERVING: (NUM_GPUS, "usd_per_hour", "p99_ttft_ms", "p99_tpot_ms", "slo_attainment", COST),
}
"""Metrics of the table after the goal, by kind of scenario."""


@dataclass(frozen=True)
class Answer:
    """One layout of a training job, or one deployment of a serving scenario.

    Args:
        settings: Its settings by dotted path.
        metrics: Its metrics, with those that only a search has.
        value: Its value of the goal.
        lod: The level of detail of the simulation.
        group: Number of its group; candidates of a group differ by less than the expected loss of a choice.
        simplicity: Smaller for cheaper and simpler candidates, which come first in a group.
        family: The kind of hardware where several are compared; empty otherwise.
    """

    settings: Mapping[str, Any]
    metrics: Mapping[str, Any]
    value: float
    lod: str = "medium"
    group: int = 0
    simplicity: Simplicity = ()
    family: str = ""


@dataclass(frozen=True, repr=False)
class SearchResult(Shown):
    """The answer of a search.

    Args:
        name: Name of the scenario.
        goal: What was optimised.
        best: The best candidates, the best group first.
        considered: Number of candidates of the space.
        pruned: Number of candidates that were not simulated, because they do not fit, or because their bound is worse.
        simulated: Number of simulated candidates.
        reasons: Number of candidates without an answer, by reason.
        stages: What each stage of the search did, in a line each.
        loss: The measured expected loss of a choice; None if it was not measured.
        notes: Doubts about the answer.
        fixed: Settings that the scenario writes, which did not vary.
        noun: What the candidates are called.
        kv_headroom: Share of the KV cache that the answers leave free at their fullest moment; 0 for any.
    """

    name: str
    goal: Goal
    best: Sequence[Answer]
    considered: int
    pruned: int
    simulated: int
    reasons: Mapping[str, int]
    stages: Sequence[str]
    loss: MeasuredLoss | None
    notes: Sequence[str] = ()
    fixed: Mapping[str, Any] | None = None
    noun: str = "layouts"
    kv_headroom: float = 0.0

    def __repr__(self) -> str:
        if not self.best:
            return f"SearchResult({self.name}: nothing of {self.considered} {self.noun} is feasible)"
        first = self.best[0]
        return (
            f"SearchResult({self.name}: {self.goal.metric} {first.value:.6g}, "
            f"{len(self.best)} of {self.considered} {self.noun})"
        )

    @property
    def varying(self) -> list[str]:
        """Settings of which the best candidates have different values; of a single one, all."""
        paths = list(dict.fromkeys(path for each in self.best for path in each.settings))
        if len(self.best) < 2:
            return paths
        return [path for path in paths if len({str(each.settings.get(path)) for each in self.best}) > 1]

    def table(self) -> pd.DataFrame:
        """The best candidates as a data frame: group, settings by dotted path, and metrics."""
        import pandas as pd

        rows = [{"group": each.group, **each.settings, **self.headline(each), "lod": each.lod} for each in self.best]
        return pd.DataFrame(rows)

    def headline(self, answer: Answer) -> dict[str, Any]:
        """The most important metrics of a candidate, the goal first."""
        asked = [self.goal.metric, *(each.metric for each in self.goal.conditions)]
        names = dict.fromkeys([*asked, *HEADLINE[self.goal.kind]])
        return {name: answer.metrics[name] for name in names if name in answer.metrics}

    def as_dict(self) -> dict[str, Any]:
        """The answer as data for JSON."""
        loss = None if self.loss is None else self.loss.loss
        return {
            "name": self.name,
            "goal": {"metric": self.goal.metric, "direction": "maximize" if self.goal.largest else "minimize"},
            "best": [
                {
                    "settings": dict(each.settings),
                    "metrics": dict(each.metrics),
                    "expected_loss": loss,
                    "group": each.group,
                    "lod": each.lod,
                }
                for each in self.best
            ],
            "considered": self.considered,
            "pruned": self.pruned,
            "simulated": self.simulated,
            "reasons": dict(self.reasons),
            "stages": list(self.stages),
            "expected_loss": None if self.loss is None else self.loss.as_dict(),
            "notes": list(self.notes),
            "fixed": dict(self.fixed or {}),
            "kv_headroom": self.kv_headroom,
        }


def grouped(answers: Sequence[Answer], goal: Goal, loss: float) -> list[Answer]:
    """Answers in groups, the best group first; the simplest first within a group.

    A group begins with the best answer that is left, and has all answers within the expected loss of it.

    Args:
        answers: The answers.
        goal: What is best.
        loss: Expected relative loss of a choice; 0 if it is unknown.
    """
    left = sorted(answers, key=lambda each: goal.key(each.value))
    found: list[Answer] = []
    number = 0
    while left:
        limit = abs(left[0].value) * loss
        together = [each for each in left if goal.key(each.value) <= goal.key(left[0].value) + limit]
        number += 1
        ordered = sorted(together, key=lambda each: (each.simplicity, goal.key(each.value)))
        found += [replace(each, group=number) for each in ordered]
        left = left[len(together) :]
    return found


def pareto(answers: Sequence[Answer], goals: Sequence[Goal]) -> list[Answer]:
    """The answers of which no other is at least as good in every goal and better in one."""

    def keys(answer: Answer) -> list[float]:
        return [goal.key(answer.metrics[goal.metric]) for goal in goals]

    known = [(keys(each), each) for each in answers]
    return [
        each
        for mine, each in known
        if not any(all(o <= m for o, m in zip(other, mine, strict=True)) and other != mine for other, _ in known)
    ]


def first_of(answers: Sequence[Answer], top: int) -> list[Answer]:
    """The first answers, and the first one of each further family."""
    families: set[str] = set()
    found = []
    for place, each in enumerate(answers):
        if place < top or each.family not in families:
            found.append(each)
        families.add(each.family)
    return found
