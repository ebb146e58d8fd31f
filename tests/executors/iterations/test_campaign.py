"""Weeks of training on hardware that fails: bookkeeping, and goodput as theory expects it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.executors.iterations.campaign import Campaign, Ledger, Progress
from simsys.executors.iterations.goodput import expected_goodput, goodput_metrics
from simsys.platform.environment import Environment
from simsys.report.summary import summary_text
from simsys.rng import stream
from simsys.simulation import simulate

DAY_S = 86400.0
PROGRESS = Progress(iteration_s=10.0, interval=60, stop_s=20.0)


def campaign(progress: Progress, mtbf_s: float, down_s: float, duration_s: float, seed: int = 1) -> Ledger:
    env = Environment()
    made = Campaign(env, progress, {"gpu": 1.0 / mtbf_s}, down_s, stream(seed, "failures"))
    env.process(made.run(duration_s))
    env.run()
    assert env.now == pytest.approx(duration_s)
    return made.ledger


@pytest.mark.parametrize(("mtbf_s", "down_s"), [(3 * 3600.0, 300.0), (20 * 3600.0, 600.0), (3600.0, 120.0)])
def test_goodput_is_what_theory_expects(mtbf_s: float, down_s: float) -> None:
    """Daly 2006, over so long a time that chance is below the tolerance."""
    duration_s = 40_000 * mtbf_s
    ledger = campaign(PROGRESS, mtbf_s, down_s, duration_s)
    goodput = goodput_metrics(ledger, PROGRESS, duration_s, 1 / mtbf_s)["goodput"]
    assert goodput == pytest.approx(expected_goodput(PROGRESS, 1 / mtbf_s, down_s), rel=0.005)


def test_young_is_near_the_best_interval() -> None:
    mtbf_s, figures = 3 * 3600.0, {}
    for interval in (10, 20, 40, 66, 100, 200, 400):
        progress = Progress(10.0, interval, 20.0)
        figures[interval] = expected_goodput(progress, 1 / mtbf_s, 300.0)
    best = goodput_metrics(Ledger(), PROGRESS, 1.0, 1 / mtbf_s)["optimal_checkpoint_interval"]
    assert best == 66
    assert figures[66] == max(figures.values())


@given(
    st.floats(0.1, 100.0),
    st.integers(0, 50),
    st.floats(0.0, 50.0),
    st.floats(0.0, 500.0),
    st.floats(0.0, 1e5),
)
def test_what_is_saved_is_done_and_never_less_later(
    iteration_s: float, interval: int, stop_s: float, background_s: float, elapsed_s: float
) -> None:
    progress = Progress(iteration_s, interval, stop_s, background_s)
    done, saved = progress.after(elapsed_s)
    later = progress.after(elapsed_s * 1.5)
    assert 0 <= saved <= done <= elapsed_s / iteration_s * (1 + 1e-9)
    assert later[0] >= done
    assert later[1] >= saved


def test_time_is_accounted_for() -> None:
    ledger = campaign(PROGRESS, 3 * 3600.0, 300.0, 30 * DAY_S)
    booked_s = ledger.iterations * 10.0 + ledger.checkpoint_s + ledger.lost_s + ledger.down_s
    assert booked_s == pytest.approx(30 * DAY_S, abs=PROGRESS.period_s)
    assert 200 < ledger.failures["gpu"] < 280


def test_without_checkpoints_a_failure_loses_everything() -> None:
    ledger = campaign(Progress(10.0), 3600.0, 60.0, DAY_S)
    assert ledger.iterations <= 4 * 360
    assert ledger.lost_s > 0.8 * DAY_S


def scenario(**training: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": 2048},
        model={"name": "Llama-3.1-405B"},
        parallelism={"strategy": "TP_PP_FSDP", "tp_degree": 8, "pp_stages": 18, "sequence_parallel": True},
        training={
            "batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 16,
            "num_iterations": 50,
            "checkpoint": {"interval": 50, "storage_bandwidth": "2 TB/s"},
            "failures": {"duration": "30 d", "gpu_mtbf": "60000 h", "detection": "1 min", "restart": "10 min"},
            **training,
        },
    )


@pytest.mark.slow
def test_a_month_on_sixteen_thousand_gpus_takes_few_events() -> None:
    config = scenario()
    config = config.model_copy(
        update={
            "hardware": config.hardware.model_copy(update={"num_nodes": 2052}),  # 8 x 18 x 114
        }
    )
    assert check_config(config) == []
    result = simulate(config)
    assert result.events < 100_000
    metrics = result.metrics
    assert metrics["num_gpus"] == 16416
    assert metrics["failures"] == pytest.approx(16416 * 720 / 60000, rel=0.25)
    progress = Progress(metrics["steady_iteration_s"], 50, metrics["checkpoint_s"] * metrics["iterations"])
    down_s = 660 + metrics["checkpoint_bytes"] / 2e12
    expected = expected_goodput(progress, 16416 / 60000 / 3600, down_s)
    assert metrics["goodput"] == pytest.approx(expected, rel=0.02)
    assert "goodput" in summary_text(result)


def test_the_same_seed_gives_the_same_failures() -> None:
    first, again = (campaign(PROGRESS, 3600.0, 60.0, DAY_S, seed=7) for _ in range(2))
    assert first == again
    assert campaign(PROGRESS, 3600.0, 60.0, DAY_S, seed=8) != first


def test_something_must_fail() -> None:
    with pytest.raises(ValueError, match="say what fails"):
        scenario(failures={"duration": "30 d"})
