import random
from dataclasses import replace

import pytest

from simsys.build.job import build_job
from simsys.check import check_config
from simsys.searches.training.axes import layout_axes
from simsys.searches.training.base import Base
from simsys.searches.training.closed_forms import ClosedForms, Fitting
from simsys.searches.training.layouts import division_problem
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
        training("Llama3-8B", nodes=1, gpus=8, layers=31),
    ],
    ids=["gpt2", "gpt2-xl", "llama", "mixtral", "uneven"],
)
def test_memory_is_that_of_the_built_job(config):
    base, _, found = candidates(config, exact=False)
    capacity = base.cluster.smallest.memory_bytes

    for each in random.Random(1).sample(found, cases(60, 20)):
        job = build_job(settled(base, each))
        assert each.memory_share * capacity == pytest.approx(sum(job.memory_bytes.values()), rel=1e-12), each


def test_layouts_that_are_left_out_are_refused_by_the_check():
    base, axes, found = candidates(training("GPT2-XL", batch=16), exact=False)
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


@pytest.mark.parametrize(
    "config", [training("Llama3-8B", gpus=8, batch=32), training("Mixtral-8x7B", nodes=2, gpus=8, batch=16)]
)
def test_exact_bounds_are_at_least_those_of_a_smaller_space_and_no_bound_is_above_the_time(config):
    """They are higher where a closed form does not know whether communication slows recomputation."""
    base = Base.of(config)
    axes = layout_axes(base, OVERLAPPING)
    forms, loose, higher = ClosedForms(base, axes, computed=True), 0, []
    for division in axes.divisions(base.cluster.num_gpus, base.tokens):
        if division_problem(base, division, axes):
            continue
        exact = {each.variant: each for each in of_each_kind(base, axes, division)}
        for each in forms.candidates(division):
            found = each if each.exact else forms.tightened(each)
            alone = exact[each.variant]
            assert found.memory_share == alone.memory_share
            assert found.bound_s >= max(alone.bound_s, each.bound_s) * (1 - 1e-12)
            assert found.computed_s == pytest.approx(alone.computed_s, rel=1e-12)
            assert each.computed_s <= alone.computed_s * (1 + 1e-12)
            loose += not each.exact
            higher += [found] if found.bound_s > alone.bound_s * (1 + 1e-9) else []
    assert loose > 20
    assert higher
    for each in random.Random(3).sample(higher, min(len(higher), cases(20, 2))):
        assert each.bound_s <= simulate(settled(base, each)).metrics["steady_iteration_s"] * (1 + 1e-9)


OVERLAPPING = {
    "parallelism.tp_degree": [2],
    "parallelism.cp_degree": [2, 4],
    "parallelism.pp_stages": [1, 2],
    "parallelism.strategy": ["ZERO1", "ZERO2", "FSDP", "HSDP"],
    "parallelism.schedule": ["interleaved"],
    "parallelism.virtual_stages": [1, 2],
    "training.batch_size_per_gpu": [1, 2],
    "training.activation_recompute": ["none", "selective", "half", "full"],
}
"""Layouts of which some overlap collectives with the first computation of a backward pass."""


def of_each_kind(base, axes, division):
    """The layouts of a division, each kind of recomputation in a space of its own."""
    for recompute in axes.recompute:
        yield from ClosedForms(base, replace(axes, recompute=(recompute,)), computed=True).candidates(division)


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
    assert sum(count > 1 for _, count in found) > 250
