import random

import pytest

from simsys.build.job import build_job
from simsys.check import check_config
from simsys.searches.training.closed_forms import Fitting
from simsys.searches.training.space import Variant
from simsys.simulation import simulate
from tests.helpers.search_spaces import candidates, random_question, settled, training
from tests.helpers.thorough import cases


@pytest.mark.parametrize(
    "config",
    [
        training(),
        training("GPT2-XL", engine="megatron"),
        training("Llama3-8B", nodes=1, gpus=8),
        training("Mixtral-8x7B", nodes=2, gpus=8, batch=4),
    ],
    ids=["gpt2", "gpt2-xl", "llama", "mixtral"],
)
def test_memory_is_that_of_the_built_job(config):
    base, _, found = candidates(config)
    capacity = base.cluster.smallest.memory_bytes

    for each in random.Random(1).sample(found, cases(60, 20)):
        job = build_job(settled(base, each))
        assert each.memory_share * capacity == pytest.approx(sum(job.memory_bytes.values()), rel=1e-12), each


def test_layouts_that_are_left_out_are_refused_by_the_check():
    base, axes, found = candidates(training("GPT2-XL", batch=16))
    fits = {(each.division, each.variant) for each in found}
    every = [
        Fitting(division, Variant(schedule, virtual, samples, recompute, kind), 0.0, 0.0)
        for division in axes.divisions(base.cluster.num_gpus, base.tokens)
        for schedule, virtual in axes.orders(division.pipeline)
        for samples in axes.samples
        for recompute in axes.recompute
        for kind in axes.kinds_of(division)
    ]
    assert len(every) > len(fits) > 0
    for each in random.Random(2).sample(every, cases(150, 8)):
        problems = check_config(settled(base, each))
        assert bool(problems) != ((each.division, each.variant) in fits), (each, problems)


def losses(seed):
    """Number of layouts whose bound is above their time, and whether the bound would prune the best one."""
    config, over = random_question(seed)
    base, _, found = candidates(config, over)
    times = [simulate(settled(base, each)).metrics["steady_iteration_s"] for each in found]
    above = [
        (each, seconds) for each, seconds in zip(found, times, strict=True) if each.bound_s > seconds * (1 + 1e-9)
    ]
    return above, len(found)


@pytest.mark.parametrize("seed", range(cases(20)))
def test_no_bound_is_above_the_simulated_time(seed):
    above, _ = losses(seed)
    assert not above


@pytest.mark.slow
def test_no_bound_is_above_the_simulated_time_in_many_spaces():
    found = [losses(seed) for seed in range(1000, 1500)]
    assert not [above for above, _ in found if above]
    assert sum(count > 1 for _, count in found) > 300
