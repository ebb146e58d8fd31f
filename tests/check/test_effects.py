"""What remedies save and cost: against runs, and in the order in which they are advised."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.rules.findings import Remedy
from simsys.build.training import TrainingJob
from simsys.check import effects
from simsys.check.effects import RemedyEffect, Stopwatch, iteration_seconds, remedy_effect, remedy_effects
from simsys.check.remedies import applied, changed, memory_problem
from simsys.config.experiment import SimulationConfig
from simsys.errors import OutOfMemoryError
from simsys.simulation import simulate


def config_of(
    model: str = "GPT2-Medium", *, memory: str = "80 GiB", parallelism: dict[str, Any] | None = None, **training: Any
) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": {"extends": "H100-SXM", "memory": memory}, "gpus_per_node": 8},
        model={"name": model},
        parallelism=parallelism or {"strategy": "DDP"},
        training={"batch_size_per_gpu": 8, "num_iterations": 4, **training},
    )


FULL: Remedy = {"training.activation_recompute": "full"}
LEVERS: list[Remedy] = [
    FULL,
    {"parallelism.strategy": "FSDP"},
    {"training.optimizer": "sgd"},
    {"training.batch_size_per_gpu": 4, "training.gradient_accumulation_steps": 2},
    {"parallelism.tp_degree": 2, "parallelism.strategy": "TP_DDP", "training.gradient_accumulation_steps": 2},
]


@pytest.mark.parametrize("remedy", LEVERS, ids=str)
def test_an_effect_is_the_difference_of_two_runs(remedy: Remedy) -> None:
    config = config_of()
    job = build_job(config)
    effect = remedy_effect(job, remedy, Stopwatch(job))
    before, after = simulate(config), simulate(changed(config, remedy))
    saved = before.metrics["peak_memory_bytes"] - after.metrics["peak_memory_bytes"]
    assert effect.saved_bytes == pytest.approx(saved)
    assert effect.saved_bytes == sum(job.memory_bytes.values()) - sum(after.memory_bytes.values())
    cost = before.metrics["samples_per_s"] / after.metrics["samples_per_s"] - 1
    assert effect.time_cost == pytest.approx(cost, abs=1e-9)


def test_a_smaller_batch_is_compared_per_sample() -> None:
    job = build_job(config_of())
    halved: Remedy = {"training.batch_size_per_gpu": 4}
    before, after = iteration_seconds(job), iteration_seconds(applied(job, halved))
    assert Stopwatch(job).time_cost(halved) == pytest.approx(2 * after / before - 1)


@pytest.mark.parametrize(
    ("parallelism", "micro_batches"),
    [
        *(({"strategy": strategy}, 21) for strategy in ("DDP", "ZERO1", "ZERO2", "FSDP")),
        ({"strategy": "TP_DDP", "tp_degree": 4}, 21),
        *(({"strategy": "PP", "pp_stages": 8, "schedule": name}, 48) for name in ("1f1b", "gpipe", "zero_bubble")),
        ({"strategy": "PP_ZERO2", "pp_stages": 2}, 24),
        ({"strategy": "PP_FSDP", "pp_stages": 4}, 40),
        ({"strategy": "PP", "pp_stages": 8, "schedule": "interleaved", "virtual_stages": 3}, 48),
    ],
)
def test_many_micro_batches_are_extrapolated_closely(parallelism: dict[str, Any], micro_batches: int) -> None:
    config = config_of(
        parallelism=parallelism, batch_size_per_gpu=1, gradient_accumulation_steps=micro_batches, memory="1 TB"
    )
    expected = simulate(config).metrics["mean_iteration_s"]
    falls_behind = parallelism["strategy"] == "PP_FSDP"  # links, which are nearly as busy as GPUs
    assert iteration_seconds(build_job(config)) == pytest.approx(expected, rel=2e-3 if falls_behind else 1e-6)


def test_a_job_that_does_not_fit_takes_as_long_as_with_more_memory() -> None:
    small, large = config_of(memory="8 GB"), config_of(memory="800 GB")
    with pytest.raises(OutOfMemoryError):
        simulate(small)
    expected = simulate(large).metrics["mean_iteration_s"]
    assert iteration_seconds(build_job(small)) == pytest.approx(expected, rel=1e-12)


def test_a_module_whose_steps_differ_is_simulated_over_several(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "every_other.py").write_text(
        "from simsys.framework import DataParallel\n"
        "class EveryOther(DataParallel):\n"
        "    step = 0\n"
        "    def finish(self):\n"
        "        self.step += 1\n"
        "        return self.rank.all_reduce(1e9, over='data', name='gradients') if self.step % 2 == 0 else None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = config_of(data_parallel="every_other:EveryOther", parallelism={"dp_degree": 8})
    result = simulate(config)
    assert result.metrics["last_iteration_s"] > result.metrics["first_iteration_s"]
    assert iteration_seconds(build_job(config)) == pytest.approx(result.metrics["mean_iteration_s"])


@pytest.fixture
def too_large() -> TrainingJob:
    return build_job(config_of(batch_size_per_gpu=64))


def test_what_suffices_comes_first_the_fastest_of_it_at_the_top(too_large: TrainingJob) -> None:
    found = remedy_effects(too_large, Stopwatch(too_large))
    assert memory_problem(too_large)
    fits = [effect.fits for effect in found]
    assert fits == sorted(fits, reverse=True)
    assert {True, False} == set(fits)
    costs = [effect.time_cost for effect in found if effect.fits]
    assert costs == sorted(costs)
    saved = [effect.saved_bytes for effect in found if not effect.fits]
    assert saved == sorted(saved, reverse=True)
    assert all(effect.saved_bytes > 0 for effect in found)
    assert all(effect.time_cost is None for effect in found if not effect.fits)


def test_if_asked_those_that_do_not_suffice_are_measured_too(too_large: TrainingJob) -> None:
    found = remedy_effects(too_large, Stopwatch(too_large), every=True)
    assert all(effect.time_cost is not None for effect in found)


def test_what_changes_the_training_is_the_last_of_what_suffices() -> None:
    job = build_job(config_of())
    found = remedy_effects(job, Stopwatch(job))
    assert [effect.changes_training for effect in found] == [False] * (len(found) - 1) + [True]
    assert found[-1].time_cost is not None
    assert found[-1].time_cost < 0  # one state less to read and write


def test_pairs_come_in_where_no_remedy_suffices_alone() -> None:
    job = build_job(config_of("Llama3-8B", parallelism={"strategy": "DDP"}, batch_size_per_gpu=8))
    found = remedy_effects(job, Stopwatch(job))
    assert found[0].fits
    assert found[0].remedy == {
        "parallelism.strategy": "FSDP",
        "training.batch_size_per_gpu": 1,
        "training.gradient_accumulation_steps": 8,
    }
    single: Remedy = {"parallelism.strategy": "FSDP"}
    assert [effect.fits for effect in found if effect.remedy == single] == [False]


def test_the_stopwatch_stops_at_its_limit_and_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[TrainingJob] = []

    def count(job: TrainingJob) -> float:
        simulated.append(job)
        return iteration_seconds(job)

    monkeypatch.setattr(effects, "iteration_seconds", count)
    watch = Stopwatch(build_job(config_of()), limit=2)
    cost = watch.time_cost(FULL)
    assert cost is not None
    assert watch.time_cost({"training.optimizer": "sgd"}) is None
    assert watch.time_cost(FULL) == cost
    assert watch.time_cost({}) == 0
    assert len(simulated) == 2


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (RemedyEffect(FULL, 18.2e9, True, 0.041), "saves 17.0 GiB, costs 4.1 % time"),
        (RemedyEffect(FULL, 18.2e9, True, -0.0312), "saves 17.0 GiB, gains 3.1 % time"),
        (RemedyEffect(FULL, 18.2e9, True, 1e-4), "saves 17.0 GiB, costs no time"),
        (RemedyEffect(FULL, 18.2e9, False), "saves 17.0 GiB"),
        (
            RemedyEffect({"training.optimizer": "sgd"}, 2e9, True, 0.0),
            "saves 1.86 GiB, costs no time, changes the training",
        ),
    ],
)
def test_an_effect_as_text(effect: RemedyEffect, text: str) -> None:
    assert effect.figures() == text
    assert effect.text().endswith(f": {next(iter(effect.remedy.values()))} {text}")


def test_an_effect_as_data() -> None:
    assert RemedyEffect(FULL, 2.0, True, 0.5).as_dict() == {
        "settings": {"training.activation_recompute": "full"},
        "saved_bytes": 2.0,
        "fits": True,
        "time_cost": 0.5,
        "changes_training": False,
    }
