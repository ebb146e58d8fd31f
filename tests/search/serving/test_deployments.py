from functools import partial

import pytest

from simsys.search.serving.targets import missed
from simsys.search.simulated import Simulations
from simsys.search.sizes import Sizes
from simsys.search.stages import Search
from tests.helpers.serving_spaces import every_size, random_question, run, space
from tests.helpers.thorough import cases


def cheapest(seed):
    """The number of GPUs that stages 1 and 2 find, and the least one of all deployments that meet the targets."""
    config, over = random_question(seed)
    question = space(config, over)
    search = Search("", question, question.goal, [], lod="medium", top=1, jobs=1, simulations=1, say=lambda _: None)
    sizes = Sizes(search.closed_forms(), lambda answer: answer.value, 1)
    with Simulations(1) as simulations:
        found = sizes.simulate(simulations, partial(search.answer, lod="medium"), 10_000)
    every = every_size(space(config, over, judged=False).candidates())
    good = [each.gpus for each in every if (metrics := run(each)) and not missed(config, metrics)]
    return min((answer.value for _, answer in found), default=None), min(good, default=None), len(every)


@pytest.mark.parametrize("seed", range(cases(40)))
def test_cheapest_deployment_is_that_of_an_exhaustive_simulation(seed):
    found, least, _ = cheapest(seed)
    assert found == least


@pytest.mark.slow
def test_cheapest_deployment_is_that_of_an_exhaustive_simulation_in_many_spaces():
    found = [cheapest(seed) for seed in range(2000, 2320)]
    assert not [seed for seed, (number, least, _) in enumerate(found, 2000) if number != least]
    assert sum(least is not None for _, least, _ in found) > 100
    assert sum(count > 1 for *_, count in found) > 200
