"""The fewest replicas that meet an SLO."""

from __future__ import annotations

import math

import pytest

from simsys.capacity import fewest_replicas
from simsys.capacity.judgement import judged
from simsys.capacity.replicas import fewest, with_replicas
from simsys.errors import UsageError
from simsys.simulation import simulate
from tests.helpers.capacity_toys import chat, one_seat


@pytest.mark.parametrize("answer", range(1, 40))
@pytest.mark.parametrize("guess", [1, 2, 7, 100])
def test_the_least_number_is_found_with_few_questions(answer: int, guess: int) -> None:
    asked: list[int] = []

    def meets(number: int) -> bool:
        asked.append(number)
        return number >= answer

    assert fewest(meets, 100, lambda: guess) == answer
    assert len(set(asked)) == len(asked)
    assert len(asked) <= 2 * math.log2(101) + 2
    assert all(1 <= number <= 100 for number in asked)


def test_no_number_up_to_the_limit_may_do() -> None:
    assert fewest(lambda number: number > 5, 5) is None
    assert fewest(lambda number: number >= 5, 5) == 5


@pytest.mark.parametrize("load", [0.5, 3.5])
def test_one_replica_less_does_not_meet_the_slo(load: float) -> None:
    """Replicas with one seat each and `load` seconds of service per second need more than `load` of them."""
    service_s = simulate(one_seat(0.001)).metrics["mean_inference_ms"] / 1e3
    config = one_seat(1.0, slo={"mean_ttft": "2 s"})
    found = fewest_replicas(config, load / service_s)
    assert found.replicas is not None
    assert load < found.replicas <= load + 3
    assert found.num_gpus == found.replicas
    assert found.metrics["slo_met"] == 1
    judgements = dict(found.tried)
    assert judgements[found.replicas].meets
    if found.replicas > 1:
        assert not judgements[found.replicas - 1].meets
    assert found.text.startswith(f"fewest replicas: {found.replicas} ({found.replicas} GPUs), steady; ")


def test_a_limit_is_said() -> None:
    found = fewest_replicas(one_seat(10.0), most=2)
    assert found.replicas is None
    assert found.text.startswith("more than 2 replicas are needed: ")


@pytest.mark.parametrize(
    ("tensor", "count", "nodes", "gpus_per_node"),
    [(4, 1, 1, 4), (4, 2, 1, 8), (4, 5, 5, 4), (2, 5, 5, 2), (2, 6, 2, 6), (1, 24, 3, 8), (8, 3, 3, 8)],
)
def test_replicas_use_all_gpus_of_equal_nodes(tensor: int, count: int, nodes: int, gpus_per_node: int) -> None:
    config = chat(hardware={"profile": "dgx-h100"}).with_({"parallelism.tp_degree": tensor})
    config = with_replicas(config, count)
    assert (config.hardware.num_nodes, config.hardware.gpus_per_node) == (nodes, gpus_per_node)
    assert config.parallelism.dp_degree == count
    assert judged(config, most_requests=300).state.requests == 300  # it can be simulated


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"serving.disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}}, "without disaggregated pools"),
        ({"serving.autoscaling": {"min_replicas": 1}}, "without autoscaling"),
    ],
)
def test_pools_have_no_number_of_replicas(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fewest_replicas(chat(hardware={"gpu": "H100-SXM", "gpus_per_node": 2}).with_(change))
