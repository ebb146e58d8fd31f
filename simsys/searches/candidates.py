"""What a search needs of the candidates of one kind of scenario: layouts of training, or deployments of serving."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from simsys.searches.simulated import Simulations, Task

Simplicity = tuple[float, ...]
"""Smaller for cheaper and simpler candidates."""


class Candidate(ABC):
    """A candidate that fits into memory and breaks no rule.

    Attributes:
        least_key: A lower bound of the key of its value of the goal (`Goal.key`).
        known: Metrics that are known without a simulation.
    """

    least_key: float
    known: Mapping[str, float]
    exact: bool = True
    """Whether its bound is that of the closed forms, or a lower one that is found sooner (`Space.tightened`)."""
    final: bool = False
    """Whether its short run is as the scenario says, so that no other one is needed."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Its settings by dotted path; together with the scenario they are its scenario."""

    @abstractmethod
    def task(self, *, short: bool) -> Task:
        """The task to simulate it: `short` at medium detail, or as the scenario says."""

    @abstractmethod
    def metrics(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of its run, with those that only a search has."""

    @abstractmethod
    def simplicity(self, metrics: Mapping[str, Any]) -> Simplicity:
        """Its place among equally good candidates."""

    def problem(self, metrics: Mapping[str, Any]) -> str:
        """Why a run of it is no answer, apart from the conditions; empty if it is one."""
        return ""


class SizedCandidate(Candidate):
    """A candidate in a series of sizes, of which larger ones cost more and do better.

    Attributes:
        place: The place of its size in the series.
        last_place: The place of the largest size.
    """

    place: int
    last_place: int

    @property
    @abstractmethod
    def family(self) -> str:
        """The kind of hardware; the answer has the best candidate of each."""

    @abstractmethod
    def resized(self, place: int) -> Self:
        """The candidate at another place of the series."""


@dataclass
class Space(ABC):
    """The candidates of a search: stage 1.

    Attributes:
        kind: Kind of the scenario, ``training`` or ``serving``.
        noun: What the candidates are called.
        keys: Paths of the settings that make up a candidate.
        shortened: What a run of stage 2 simulates.
        considered: Number of candidates of the whole space.
        reasons: Number of candidates that are left out, by reason.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    keys: ClassVar[Collection[str]]
    considered: int = field(default=0, init=False)
    reasons: Counter[str] = field(default_factory=Counter, init=False)

    @property
    @abstractmethod
    def shortened(self) -> str:
        """What a run of stage 2 simulates, as text."""

    @property
    def whole(self) -> str:
        """What a run of stage 3 simulates, as text."""
        return "as `simsys run` simulates them"

    @abstractmethod
    def candidates(self, processes: Simulations | None = None) -> Sequence[Candidate]:
        """The candidates that fit; all others are counted by reason.

        Args:
            processes: Processes that may help.
        """

    def tightened(self, candidate: Candidate) -> Candidate:
        """A candidate with its exact bound."""
        return candidate

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether `Candidate.least_key` bounds the goal, so that a search may stop early."""

    @property
    @abstractmethod
    def comparable(self) -> bool:
        """Whether the measured loss of choices holds for the metric of the goal."""

    @property
    def kv_headroom(self) -> float:
        """Share of the KV cache that an answer leaves free at its fullest moment."""
        return 0.0

    def doubts(self, settings: Sequence[Mapping[str, Any]]) -> list[str]:
        """Doubts about answers with some settings."""
        return []

    @property
    def sized(self) -> bool:
        """Whether the smallest size of each candidate is looked for; all of them are then `SizedCandidate`."""
        return False

    @property
    @abstractmethod
    def written(self) -> dict[str, Any]:
        """Settings that the scenario writes, which therefore do not vary."""


def too_large(count: int, noun: str, most: int) -> str:
    """The message about a space with too many candidates."""
    return f"the space has {count:,} {noun}, at most {most:,} are searched; list fewer values in search.over"
