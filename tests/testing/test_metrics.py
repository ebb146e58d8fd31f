"""The rules of metrics and analyses find what is wrong with broken ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from simsys import RunResult
from simsys.metrics.own import METRICS, Observation, RunAnalysis, RunMetric
from simsys.testing import check_metric


class Good(RunMetric):
    name = "good"
    kinds = ("training", "serving", "jobs")

    def value(self, result: RunResult) -> float | None:
        return result.metrics.get("samples_per_s")


class Sees(RunAnalysis):
    name = "sees"

    def find(self, result: RunResult) -> Iterable[Observation]:
        yield Observation(0.5, "half", ())


def test_sound_ones_are_ok_and_stay_unregistered() -> None:
    assert check_metric(Good) == check_metric(Sees) == "ok"
    assert "good" not in METRICS.names()


class Capital(Good):
    name = "Capital"


class Taken(Good):
    name = "mfu"


class OfKind(Good):
    kinds = ("training", "inference")


class Text(Good):
    def value(self, result: RunResult) -> Any:
        return "much"


class Fails(Good):
    def value(self, result: RunResult) -> float:
        return float(result.metrics["nothing"])


class Moody(Good):
    calls = 0.0

    def value(self, result: RunResult) -> float:
        Moody.calls += 1.0
        return Moody.calls


class Changes(Good):
    def value(self, result: RunResult) -> float:
        result.metrics["more"] = 1.0  # type: ignore[index]
        return 1.0


class TooSevere(Sees):
    def find(self, result: RunResult) -> Iterable[Observation]:
        yield Observation(7.0, "very", ())


class Unfinished(RunAnalysis):
    name = "unfinished"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Capital, "Capital: its class needs a name in lower case"),
        (Taken, "simsys has a metric 'mfu' already"),
        (OfKind, "not 'inference'"),
        (Text, "Text on the result 'toy-training' of training: good: a finite number or None is needed, not 'much'"),
        (Fails, r"good fails: KeyError: .nothing. in value \(test_metrics\.py:"),
        (Moody, "not deterministic: two answers differ"),
        (Changes, "it changes the result"),
        (TooSevere, "a severity is between 0 and 1, not 7"),
        (Unfinished, "Unfinished is not complete: it has no find"),
        (int, "int is no metric or analysis: derive it from RunMetric of simsys.metrics.own"),
    ],
)
def test_what_is_wrong_is_said(broken: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_metric(broken)


def test_a_registered_one_is_not_taken_by_itself() -> None:
    METRICS.register(Good.name)(Good)
    try:
        assert check_metric(Good) == "ok"
    finally:
        METRICS.forget(Good.name)
