from functools import partial

import pytest

from simsys.config.search import SearchConfig
from simsys.searches.goal import Goal
from simsys.searches.serving.deployments import Deployments
from simsys.searches.serving.targets import FULL, MISSED, headroom_of, missed
from simsys.searches.simulated import Simulations
from simsys.searches.sizes import Sizes
from simsys.searches.stages import Search
from tests.helpers.serving_spaces import serving

GOOD = {"slo_attainment": 1.0, "p99_itl_ms": 1.0, "max_kv_cache_usage": 0.95}


def test_a_full_kv_cache_is_no_answer_where_waits_count():
    config = serving(slo={"ttft": "1 s"})
    assert missed(config, GOOD, headroom_of(config, 0.1)) == FULL
    assert not missed(config, GOOD, headroom_of(config, 0.05))
    assert not missed(config, GOOD, headroom_of(config, 0.0))
    assert missed(config, {**GOOD, "slo_attainment": 0.5}, 0.1) == MISSED


@pytest.mark.parametrize("slo", [{"tpot": "20 ms"}, {"p99_itl": "50 ms"}])
def test_it_is_one_where_they_do_not(slo):
    config = serving(slo=slo)
    assert headroom_of(config, 0.1) == 0.0
    assert not missed(config, GOOD, headroom_of(config, 0.1))


def fewest(headroom):
    """The fewest replicas in a short run, and the room that they leave."""
    config = serving(
        slo={"ttft": "20 s"},
        rate=14,
        count=150,
        output=300,
        serving={"engine": "vllm", "gpu_memory_utilization": 0.25},
    )
    asked = SearchConfig(over={"parallelism.dp_degree": "auto"}, kv_headroom=headroom)
    space = Deployments(config, asked, Goal("num_gpus", False, (), "serving"))
    search = Search("", space, space.goal, [], lod="medium", top=1, jobs=1, simulations=1, say=lambda _: None)
    sizes = Sizes(search.closed_forms(Simulations(1)), lambda answer: answer.value, 1)
    with Simulations(1) as simulations:
        found = sizes.simulate(simulations, partial(search.answer, lod="medium"), 10_000)
    ((_, best),) = found[-1:]
    return best.value, best.metrics["max_kv_cache_usage"]


def test_more_replicas_leave_the_room():
    without, full = fewest(0.0)
    replicas, used = fewest(0.5)
    assert full > 0.5 >= used
    assert replicas > without
