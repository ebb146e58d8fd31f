import pytest

from simsys.build.job import build_job
from simsys.check import check_config, sound
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError
from simsys.simulation import simulate


def scenario(parallelism=None, **training):
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100"},
            "model": {"name": "GPT2-Small"},
            "parallelism": parallelism or {"tp_degree": 2},
            "training": {"num_iterations": 2, **training},
        }
    )


@pytest.mark.parametrize(("tensor", "samples", "steps"), [(1, 1, 8), (2, 1, 16), (2, 4, 4), (4, 2, 16)])
def test_accumulation_follows_from_the_layout(tensor, samples, steps):
    config = scenario({"tp_degree": tensor}, global_batch_size=64, batch_size_per_gpu=samples)

    job = build_job(config)

    assert job.settings.gradient_accumulation_steps == steps
    assert job.global_batch_size == 64


def test_micro_batches_have_one_sample_unless_written():
    config = scenario(global_batch_size=64)
    assert config.training.batch_size_per_gpu == 1
    assert "batch_size_per_gpu" not in config.training.model_fields_set


def test_result_equals_that_of_written_steps():
    whole = scenario(global_batch_size=64, batch_size_per_gpu=2)
    steps = scenario(gradient_accumulation_steps=8, batch_size_per_gpu=2)
    assert simulate(whole).metrics == simulate(steps).metrics


def test_indivisible_batch_is_refused_with_sizes_that_divide():
    with pytest.raises(
        ConfigError, match=r"3 x 4 data-parallel ranks = 12 does not divide .* 64; .*: 1 or 2 or 4 would"
    ):
        sound(scenario(global_batch_size=64, batch_size_per_gpu=3))


def test_batch_smaller_than_the_ranks_is_refused():
    with pytest.raises(ConfigError, match="does not divide global_batch_size 2"):
        sound(scenario(global_batch_size=2))


def test_steps_that_disagree_are_refused_and_steps_that_agree_are_not():
    [problem] = check_config(scenario(global_batch_size=64, gradient_accumulation_steps=4))
    assert problem.path == "training.gradient_accumulation_steps"
    assert "needs gradient_accumulation_steps 16" in problem.message
    assert not check_config(scenario(global_batch_size=64, gradient_accumulation_steps=16))


def test_no_batch_at_all_is_a_missing_key():
    with pytest.raises(ValueError, match="batch_size_per_gpu"):
        scenario()


def test_batch_schedule_is_refused():
    with pytest.raises(ValueError, match="batches of one size"):
        scenario(global_batch_size=64, batch_schedule=[{"from_iteration": 1, "batch_size_per_gpu": 2}])


def test_batch_of_more_steps_than_may_be_written_is_refused():
    assert check_config(scenario(global_batch_size=400_000)) == []
    (problem,) = check_config(scenario(global_batch_size=400_004))
    assert problem.path == "training.global_batch_size"
    assert problem.message.startswith("must be at most 400000 with batch_size_per_gpu 1 on 4 data-parallel ranks")
