"""What is sent from GPU to GPU, and over which links: payload, without what protocols add."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, UsageError
from simsys.metrics.result import RunResult
from simsys.platform.traffic import Traffic, payload_bytes
from simsys.simulation import simulate
from tests.helpers.random_scenarios import cluster_scenario, scenario, training_scenario
from tests.helpers.thorough import cases

TRAINING = (2, 3, 4, 9, 14, 22, 37)
"""Random training whose transfers meet or do not, on several networks."""
CLUSTERS = (pytest.param(12, marks=pytest.mark.slow), 26, 29, 36)


def run(given: dict[str, Any], lod: str, **network: Any) -> RunResult:
    settings = {"simulation": {**given["simulation"], "lod": lod}, "network": {**given["network"], **network}}
    if lod == "medium":
        settings["simulation"]["occupy_links"] = True
    return simulate(SimulationConfig.model_validate({**given, **settings}))


def column(result: RunResult, name: str) -> dict[tuple[int, int], float]:
    """A column of the table of links, by the vertices that a link joins."""
    links = result.links
    return dict(zip(zip(links["src"], links["dst"], strict=True), links[name], strict=True))


def test_bytes_are_divided_as_ways_are() -> None:
    traffic = Traffic()
    traffic.between(0, 1).nbytes = 100.0
    traffic.account(lambda: [(0, 1, 0.5), (1, 0, 1.0)]).nbytes = 8.0
    ways = {(0, 1): (((4, 0.25), (5, 0.75)), ((6, 1.0),)), (1, 0): (((7, 1.0),),)}
    found = payload_bytes(traffic.columns(), lambda src, dst: ways[src, dst])
    assert found == {4: 26.0, 5: 78.0, 6: 104.0, 7: 8.0}


@pytest.mark.parametrize("given", [training_scenario(seed) for seed in TRAINING], ids=str)
def test_training_sends_the_same_payload_over_each_link_at_both_levels(given: dict[str, Any]) -> None:
    high, medium = run(given, "high"), run(given, "medium")
    payload = column(high, "nbytes")
    assert sum(payload.values()) > 0.0
    assert column(medium, "nbytes") == pytest.approx(payload, rel=1e-12)
    assert all(sent >= 0.999999 * payload[link] for link, sent in column(high, "protocol_nbytes").items())


@pytest.mark.parametrize("seed", CLUSTERS)
def test_jobs_send_the_same_payload_over_each_link_at_both_levels(seed: int) -> None:
    given = cluster_scenario(seed)
    assert column(run(given, "medium"), "nbytes") == pytest.approx(column(run(given, "high"), "nbytes"), rel=1e-12)


def test_links_carry_the_payload_where_protocols_add_nothing() -> None:
    """In random scenarios of all kinds: what steps put on links is counted apart from what ranks send."""
    held = 0
    for seed in range(cases(40, 2)):
        try:
            result = run(scenario(seed), "high", tuning="none")
        except (UsageError, InfeasibleError, ValidationError):
            continue
        if result.links["nbytes"]:
            held += 1
            assert column(result, "nbytes") == pytest.approx(column(result, "protocol_nbytes"), rel=1e-9), seed
    assert held >= 6


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_a_ring_of_nodes_sends_what_theory_says_whatever_the_protocol(lod: str) -> None:
    """An all-reduce of S bytes among n ranks sends 2·(n-1)/n·S over each link of a ring; LL sends flags besides."""
    given: dict[str, Any] = {
        "hardware": {"gpu": "A100-SXM-80GB", "num_nodes": 4, "gpus_per_node": 1, "nic": {"bandwidth": "25 GB/s"}},
        "network": {"topology_type": "switch"},
        "model": {"name": "GPT2-Small"},
        "training": {"batch_size_per_gpu": 1, "num_iterations": 3, "communication_pattern": "ring_allreduce"},
        "parallelism": {"strategy": "DDP"},
        "simulation": {"seed": 1},
    }
    slow, plain = run(given, lod), run(given, lod, tuning="none")
    assert column(slow, "nbytes") == pytest.approx(column(plain, "nbytes"), rel=1e-12)
    assert sum(column(slow, "protocol_nbytes").values()) > sum(column(slow, "nbytes").values())
    assert set(slow.gpus["sent_bytes"]) == set(plain.gpus["sent_bytes"])
    (sent,) = set(plain.gpus["sent_bytes"])
    parameters, iterations, fp32_bytes = 124_439_808, 3, 4
    assert sent == pytest.approx(iterations * 2 * 3 / 4 * fp32_bytes * parameters, rel=1e-12)
