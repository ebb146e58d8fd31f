"""Losses by resource."""

from __future__ import annotations

from functools import cache

import pytest

from simsys.analysis.findings import CAUSES, RESOURCES, Finding, findings
from simsys.analysis.losses import REMEDIES, losses
from simsys.build.job import build_job
from simsys.metrics.result import RunResult
from simsys.simulation import simulate
from tests.helpers.planted import SCENARIOS, planted


@cache
def result(name: str) -> RunResult:
    return simulate(planted(name))


def found(name: str) -> dict[str, Finding]:
    return {each.kind: each for each in findings(result(name), build_job(planted(name)))}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_loss_belongs_to_one_resource_and_severities_are_their_shares(name: str) -> None:
    by_kind = found(name)
    assert set(by_kind) == set(RESOURCES[result(name).kind])
    lost = [loss.name for each in by_kind.values() for loss in each.losses]
    assert sorted(lost) == sorted(loss.name for loss in losses(result(name)))
    for each in by_kind.values():
        assert each.severity == pytest.approx(sum(loss.share for loss in each.losses))
    assert sum(each.severity for each in by_kind.values()) <= 1 + 1e-9


def test_every_known_loss_has_a_resource() -> None:
    assert set(CAUSES) == set(REMEDIES)


def test_what_a_run_prints_is_part_of_the_finding() -> None:
    assert "are exposed communication" in found("slow-link")["network"].text
    assert "lost their KV cache" in found("small-cache")["kv_capacity"].text
    assert found("small-cache")["memory"].text == ""
    assert "spent waiting to be scheduled" in found("tiny-serving-batch")["queueing"].text


def test_waiting_for_a_full_cache_is_no_queueing() -> None:
    assert found("small-cache")["queueing"].losses == ()
    assert found("tiny-serving-batch")["kv_capacity"].losses == ()


def test_idle_steps_are_the_networks_with_tensor_parallelism_and_the_hosts_without() -> None:
    config = planted("tiny-serving-batch").with_({"hardware.gpus_per_node": 2, "parallelism.tp_degree": 2})
    together = findings(simulate(config), build_job(config))
    network = next(each for each in together if each.kind == "network")
    assert [loss.name for loss in network.losses] == ["GPUs idle within steps"]
    assert found("tiny-serving-batch")["network"].losses == ()
