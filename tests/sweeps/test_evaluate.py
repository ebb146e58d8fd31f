from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.errors import DeadlockError, OutOfMemoryError, SimsysError
from simsys.sweeps import evaluate
from simsys.sweeps.evaluate import CRASHED, FAILED, OK, REFUSED, UNFIT, Row, row_of
from tests.helpers.sweeps import BASE, SERVING


def row(base: Mapping[str, Any], **values: Any) -> Row:
    return row_of("key", base, {path.replace("__", "."): value for path, value in values.items()}, Path())


@pytest.mark.parametrize("base", [BASE, SERVING])
def test_a_row_has_the_metrics_of_a_run(base: Mapping[str, Any]) -> None:
    found = row(base, simulation__seed=3)
    assert found.state == OK
    run = DistributedAISimulator(SimulationConfig(**base).with_({"simulation.seed": 3})).run()
    metrics = json.loads(found.figures)["metrics"]
    assert metrics == {name: run.metrics[name] for name in metrics}
    assert set(run.metrics) - set(metrics) <= {"saturation", "rejected_by_reason", "cancelled_by_reason", "slo_missed"}


def test_a_row_has_the_price_of_its_gpus() -> None:
    found = json.loads(row(BASE).figures)
    metrics = found["metrics"]
    assert found["num_gpus"] == 8
    assert metrics["usd_per_million_tokens"] == pytest.approx(
        1e6 * metrics["usd_per_hour"] / 3600 / metrics["tokens_per_s"]
    )
    serving = json.loads(row(SERVING).figures)["metrics"]
    assert serving["usd_per_hour"] == pytest.approx(metrics["usd_per_hour"] / 8)


def test_a_row_has_the_expected_errors_without_their_heading() -> None:
    several = {**SERVING, "hardware": {"profile": "dgx-h100", "gpus_per_node": 2}}
    assert json.loads(row(several).figures)["expected_error"].startswith("no measurements of several replicas")
    assert json.loads(row(SERVING).figures)["expected_error"].startswith("of TTFT")


def test_a_rule_that_is_broken_is_the_reason() -> None:
    found = row(BASE, parallelism__tp_degree=7)
    assert found.state == REFUSED
    assert found.reason.startswith("parallelism.tp_degree: ")
    assert row(BASE, training__batch_size_per_gpu__x=1).state == REFUSED


def test_a_shortage_is_the_reason() -> None:
    assert row(BASE, training__batch_size_per_gpu=10**6).state == UNFIT


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (MemoryError(), CRASHED, "out of memory"),
        (ZeroDivisionError("by\nzero"), FAILED, "ZeroDivisionError: by zero"),
        (OutOfMemoryError("too much"), UNFIT, "too much"),
        (DeadlockError("all wait"), FAILED, "all wait"),
        (SimsysError("else"), FAILED, "else"),
    ],
)
def test_an_error_of_the_simulation_is_a_row(
    error: Exception, state: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(evaluate, "simulate", fail)
    found = row(BASE)
    assert found.state == state
    assert found.reason.startswith(reason)
    assert "\n" not in found.reason
