"""Products of experts in whole multiples of rows, and of sequences that use the same experts, at both levels."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.simulation import simulate


def served(lod: str, rows: int, *, users: int = 4, identical: int = 1, **parallelism: int) -> RunResult:
    given: dict[str, Any] = {
        "simulation": {"lod": lod},
        "hardware": {"profile": "dgx-h200", "gpus_per_node": 4},
        "model": {"name": "Qwen3-235B-A22B"},
        "parallelism": parallelism,
        "serving": {
            **{"engine": "vllm", "precision": "fp8_block"},
            "experts": {"padded_rows": rows, "identical_sequences": identical},
        },
        "workload": {
            "arrivals": {"kind": "closed_loop", "concurrency": users},
            **{"prompt_tokens": 512, "output_tokens": 24, "num_requests": 2 * users},
        },
    }
    return simulate(SimulationConfig(**given))


@pytest.mark.parametrize("parallelism", [{"tp_degree": 4}, {"attention_dp": 4}])
def test_both_levels_compute_the_same_padding(parallelism: dict[str, int]) -> None:
    high, medium = (served(lod, 128, **parallelism) for lod in ("high", "medium"))
    for name in ("first_token_s", "finished_s"):
        assert medium.rows[name] == pytest.approx(high.rows[name], rel=1e-9)


def test_few_users_wait_as_long_for_a_token_as_many() -> None:
    plain, padded = (
        [float(served("medium", rows, users=users, tp_degree=4).metrics["median_itl_ms"]) for users in (2, 32)]
        for rows in (1, 128)
    )
    assert padded[1] / padded[0] < 0.8 * plain[1] / plain[0]
    assert padded[0] > 1.5 * plain[0]


def test_identical_sequences_are_as_fast_at_both_levels_and_faster_than_different_ones() -> None:
    different = served("medium", 1, users=16, tp_degree=4)
    high, medium = (served(lod, 1, users=16, identical=16, tp_degree=4) for lod in ("high", "medium"))
    assert medium.rows["finished_s"] == pytest.approx(high.rows["finished_s"], rel=1e-9)
    assert float(medium.metrics["mean_tpot_ms"]) < 0.8 * float(different.metrics["mean_tpot_ms"])
