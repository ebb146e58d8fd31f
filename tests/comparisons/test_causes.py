"""The time by cause."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.comparisons.causes import causes_of, common_causes
from simsys.config.loader import deep_merge
from tests.helpers.compare_toys import BENCH, SERVING, TRAINING

PIPELINE: dict[str, Any] = {
    "parallelism": {"strategy": "TP_PP_DDP", "tp_degree": 2, "pp_stages": 2, "dp_degree": 2},
    "hardware": {"num_nodes": 2},
    "training": {"gradient_accumulation_steps": 2},
}


def metrics(scenario: dict[str, Any]) -> Any:
    return DistributedAISimulator(SimulationConfig.model_validate(scenario)).run().metrics


def test_the_parts_of_an_iteration_add_up() -> None:
    found = metrics(deep_merge(TRAINING["defaults"], PIPELINE))
    causes = causes_of("training", found)
    assert sum(causes.values()) == pytest.approx(found["mean_iteration_s"], rel=1e-9)
    assert causes["bubble"] > 0.0
    assert causes["exposed tensor communication"] > 0.0


def test_the_parts_of_a_request_add_up() -> None:
    found = metrics(SERVING)
    causes = causes_of("serving", found)
    assert 1e3 * sum(causes.values()) == pytest.approx(found["mean_e2el_ms"], rel=1e-9)
    assert set(causes) == {"queueing", "request handling", "prefill", "decode"}


def test_a_measurement_is_divided_at_the_first_token_and_so_is_the_prediction() -> None:
    found = metrics(SERVING)
    predicted, measured = common_causes("serving", found, BENCH)
    assert measured == {"to the first token": 0.02, "after the first token": 0.12}
    assert predicted["to the first token"] == found["mean_ttft_ms"] / 1e3


@pytest.mark.parametrize(("kind", "given"), [("serving", {"mean_ttft_ms": 1.0}), ("jobs", {"makespan_s": 1.0})])
def test_nothing_is_said_without_figures(kind: str, given: dict[str, float]) -> None:
    assert causes_of(kind, given) == {}
