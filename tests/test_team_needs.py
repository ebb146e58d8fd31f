"""What serving teams need of links: that of the algorithms that their collectives can choose."""

from __future__ import annotations

from typing import Any

import pytest

import simsys.shared_links
import simsys.simulation
from simsys.build.job import build
from simsys.build.serving import ServingJob
from simsys.config.experiment import SimulationConfig
from simsys.executors import Links
from simsys.metrics.result import RunResult
from simsys.platform.network import Network
from simsys.simulation import NONE_MET, simulate
from simsys.team_needs import team_needs


def scenario(network: str = "tree") -> dict[str, Any]:
    """Two teams of eight over four nodes with a card for each GPU; a tree has one cable between two of the nodes."""
    return {
        "hardware": {
            "gpu": "A100-SXM-80GB",
            "num_nodes": 4,
            "gpus_per_node": 4,
            "nic": {"bandwidth": "3 GB/s", "count": 4},
        },
        "network": {"topology_type": network},
        "model": {"name": "Llama3-8B"},
        "parallelism": {"tp_degree": 8},
        "serving": {},
        "workload": {
            "arrivals": {"kind": "constant", "rate": "100 req/s"},
            "prompt_tokens": 1024,
            "output_tokens": 8,
            "num_requests": 8,
        },
    }


def run(given: dict[str, Any], **simulation: Any) -> RunResult:
    return simulate(SimulationConfig.model_validate({**given, "simulation": simulation}))


def serving_job(given: dict[str, Any]) -> tuple[ServingJob, Network[Any, Any]]:
    job = build(SimulationConfig.model_validate(given)).jobs[0]
    assert isinstance(job, ServingJob)
    return job, job.cluster.platform().network


def needs_by_name(given: dict[str, Any]) -> list[dict[str, float]]:
    job, network = serving_job(given)
    return [{network.link_name(link): need for link, need in each.items()} for each in team_needs(job, network)]


def test_a_team_over_two_nodes_needs_all_their_cards() -> None:
    """A ring along the ranks would need one card of each node, and a quarter of the cable between them."""
    first, _ = needs_by_name(scenario())
    assert first["the link from router of node 0 to router of node 1"] == pytest.approx(1.0)
    cards = [first[f"the link from gpu {gpu} of node 0 to router of node 0"] for gpu in range(4)]
    assert cards == pytest.approx([1.0] * 4)


def test_teams_that_meet_with_the_algorithm_of_their_collectives_slow_each_other() -> None:
    found, high = (run(scenario(), lod=lod) for lod in ("medium", "high"))
    assert not found.contention.endswith(NONE_MET)
    for name in ("mean_ttft_ms", "mean_tpot_ms"):
        assert found.metrics[name] == pytest.approx(high.metrics[name], rel=0.08)
    (text,) = [each for each in found.warnings if "share links" in each]
    assert "waits in queues near saturation by more" in text
    idle = run(scenario(), occupy_links=False)
    assert idle.metrics["mean_ttft_ms"] < 0.95 * high.metrics["mean_ttft_ms"]
    assert any(text.startswith("occupy_links: false leaves out that teams") for text in idle.warnings)


def test_teams_with_links_of_their_own_meet_nobody() -> None:
    found = run(scenario("switch"))
    assert found.contention.endswith(NONE_MET)
    assert found.metrics == run(scenario("switch"), occupy_links=False).metrics


@pytest.mark.parametrize(("teams", "links"), [(2, Links.IDLE), (3, Links.LOADS)])
def test_several_teams_can_need_more_than_there_is_where_two_do_not(
    teams: int, links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simsys.shared_links, "team_needs", lambda *_: iter([{0: 0.4}] * teams))
    assert simsys.shared_links.links_of_serving(*serving_job(scenario())) is links


def test_messages_between_stages_can_meet_teams() -> None:
    """With two stages in each of two nodes, hidden states leave by the card that teams over nodes use too."""
    given = scenario("switch")
    given["parallelism"] = {"tp_degree": 4, "pp_stages": 2}
    assert not simsys.shared_links.messages_can_meet(*serving_job(given))
    given["hardware"]["gpus_per_node"], given["hardware"]["num_nodes"] = 1, 16
    given["hardware"]["nic"]["count"] = 1
    assert simsys.shared_links.messages_can_meet(*serving_job(given))


def test_a_run_on_idle_links_is_the_answer_if_messages_that_can_meet_take_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = scenario("switch")
    given["hardware"] |= {"gpus_per_node": 1, "num_nodes": 16, "nic": {"bandwidth": "50 GB/s"}}
    given["parallelism"] = {"tp_degree": 2, "pp_stages": 2}
    job, network = serving_job(given)
    assert simsys.shared_links.messages_can_meet(job, network)
    links: list[Links] = []
    run_job = simsys.simulation._run

    def noted(job: Any, how: Links, *more: Any) -> Any:
        links.append(how)
        return run_job(job, how, *more)

    monkeypatch.setattr(simsys.simulation, "_run", noted)
    assert run(given).contention.endswith(NONE_MET)
    assert links == [Links.IDLE]
