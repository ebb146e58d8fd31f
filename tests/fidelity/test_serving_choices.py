"""Choices among serving runs: costs by token and sets, against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.choices import choices_of
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.serving_choices import DEPLOYMENT, serving_choices

LAYOUTS = "parallelism at equal concurrency"
USERS = "concurrency within a TPOT limit"
GPUS = "type of GPU at equal concurrency"
FIGURES = {
    "ttft_ms": "mean_ttft_ms",
    "tpot_ms": "mean_tpot_ms",
    "e2e_s": "duration",
    "output_tokens_per_s": "output_throughput",
}
TOKENS = 101


def run(tp: int = 1, users: int = 8, gpu: str = "H100-SXM", kind: str = "closed_loop") -> ScenarioRun:
    arrivals = {"kind": kind, "concurrency": users} if kind == "closed_loop" else {"kind": kind}
    return ScenarioRun.of(
        {
            "hardware": {"gpu": gpu, "gpus_per_node": tp},
            "parallelism": {"tp_degree": tp, "pp_stages": 1},
            "serving": {"engine": "vllm", "max_num_seqs": users},
            "workload": {"arrivals": arrivals, "num_requests": users, "prompt_tokens": 10, "output_tokens": TOKENS},
        }
    )


def rows(scenario: ScenarioRun, version: str = "", **values: tuple[float, float]) -> list[Prediction]:
    """Values of a run by metric, each predicted and measured."""
    tags = {"engine": "vllm", "engine_version": version, "gpu": "g", "load_kind": "concurrency"}
    return [
        Prediction(
            Case("x", "serving", "source", metric, "", measured, tags, run=scenario, figure=FIGURES[metric]), predicted
        )
        for metric, (predicted, measured) in values.items()
    ]


def latency(tpot_ms: float, measured_ms: float) -> dict[str, tuple[float, float]]:
    return {"ttft_ms": (100.0, 100.0), "tpot_ms": (tpot_ms, measured_ms)}


def test_parallelism_is_chosen_by_gpu_seconds_per_token() -> None:
    found = [
        *rows(run(tp=1), e2e_s=(10.0, 10.0)),
        *rows(run(tp=2), e2e_s=(4.0, 6.0)),
        *rows(run(tp=4), e2e_s=(3.0, 2.0)),
    ]
    (choice,) = serving_choices(found)[LAYOUTS]
    assert choice.picked.measured.cost == pytest.approx(2 * 6.0 / (8 * TOKENS))
    assert choice.best.measured.cost == pytest.approx(4 * 2.0 / (8 * TOKENS))
    assert choice.regret == pytest.approx(0.5)
    assert choice.rows == 3


def test_throughput_follows_from_latencies_unless_it_was_measured() -> None:
    values = latency(10.0, 19.0)
    found = [row for users in (8, 16, 32) for row in rows(run(users=users), **values)]
    found += rows(run(users=64), output_tokens_per_s=(5000.0, 4000.0), **latency(10.0, 21.0))
    (choice,) = serving_choices(found)[USERS]
    assert choice.picked.measured.cost == pytest.approx(1 / 4000.0)
    assert choice.best.measured.cost == pytest.approx((0.1 + 100 * 0.019) / (32 * TOKENS))


def test_a_limit_counts_where_it_divides_the_measured_runs() -> None:
    found = [
        row for users, ms in ((8, 12.0), (16, 15.0), (32, 25.0)) for row in rows(run(users=users), **latency(ms, ms))
    ]
    (choice,) = serving_choices(found)[USERS]
    assert (choice.regret, choice.spearman) == (0.0, 1.0)
    assert choice.best.row.case.run == run(users=16)
    assert DEPLOYMENT in serving_choices(found)
    assert not serving_choices(found)[DEPLOYMENT], "all runs are within the limits of TTFT and TPOT"


def test_a_choice_that_is_slower_than_predicted_is_beyond_the_limit() -> None:
    values = ((8, 12.0, 12.0), (16, 15.0, 25.0), (32, 25.0, 30.0))
    found = [row for users, predicted, ms in values for row in rows(run(users=users), **latency(predicted, ms))]
    (choice,) = serving_choices(found)[USERS]
    assert choice.picked.measured.beyond == pytest.approx(0.25)
    assert choice.regret == pytest.approx(0.25)


def test_runs_of_another_version_or_load_are_another_set() -> None:
    versions = [row for tp in (1, 2, 4) for row in rows(run(tp=tp), str(tp % 2), e2e_s=(1.0 * tp, 1.5 * tp))]
    loads = [row for tp in (1, 2, 4) for row in rows(run(tp=tp, users=8 * tp), e2e_s=(1.0 * tp, 1.5 * tp))]
    assert not serving_choices(versions)[LAYOUTS]
    assert not serving_choices(loads)[LAYOUTS]


def test_types_of_gpus_are_compared_by_price() -> None:
    gpus = ("H100-SXM", "A100-SXM-80GB", "L40S")
    found = [row for gpu in gpus for row in rows(run(gpu=gpu), output_tokens_per_s=(1000.0, 1000.0))]
    (choice,) = serving_choices(found)[GPUS]
    assert choice.best.row.case.run == run(gpu="L40S"), "the cheapest of GPUs that are equally fast"


def test_values_without_a_throughput_are_no_candidates() -> None:
    found = [row for tp in (1, 2, 4) for row in rows(run(tp=tp), ttft_ms=(1.0 * tp, 2.0 * tp))]
    found += [row for tp in (1, 2, 4) for row in rows(run(tp=tp, kind="poisson"), **latency(9.0, 8.0 + tp))]
    assert not any(serving_choices(found).values())


def test_kinds_without_choices_are_left_out() -> None:
    found = [row for tp in (1, 2, 4) for row in rows(run(tp=tp), e2e_s=(1.0, 1.0 * tp))]
    assert list(choices_of(found)["serving"]) == [LAYOUTS]
    assert choices_of(found[:2]) == {}


def test_what_fills_the_kv_cache_is_not_chosen_within_a_limit_of_ttft() -> None:
    found = []
    for users, measured_ms, usage in ((8, 100.0, 0.3), (16, 110.0, 0.6), (32, 9000.0, 0.97)):
        values = {"ttft_ms": (100.0, measured_ms), "tpot_ms": (10.0, 10.0)}
        found += [replace(row, figures={"max_kv_cache_usage": usage}) for row in rows(run(users=users), **values)]
    choices = serving_choices(found)
    with_room, full = choices[DEPLOYMENT], choices[f"{DEPLOYMENT}, KV cache as full as it may be"]
    assert [choice.picked.row.case.run for choice in with_room] == [run(users=16)] * 2
    assert [choice.picked.row.case.run for choice in full] == [run(users=32)] * 2
    assert [choice.regret for choice in with_room] == [0.0, 0.0]
