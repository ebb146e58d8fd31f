"""Medium finds out whether transfers meet, carries those on their links that do, and says what it leaves out."""

from __future__ import annotations

from typing import Any

import pytest

import simsys.simulation
from simsys.config.experiment import SimulationConfig
from simsys.executors.iterations.on_links import StretchedPrograms
from simsys.executors.iterations.played import PlayedPrograms
from simsys.executors.meets import Meets
from simsys.metrics.result import RunResult
from simsys.simulation import NONE_MET, simulate
from tests.helpers.level_study_toys import contended, jobs

ONE_CARD = {"gpu": "H100-SXM", "num_nodes": 4, "gpus_per_node": 8, "nic": {"bandwidth": "50 GB/s", "count": 1}}
"""Groups that lie across nodes share the card of each node."""


def training(
    strategy: dict[str, Any],
    hardware: dict[str, Any] = ONE_CARD,
    *,
    model: dict[str, Any] | None = None,
    micro_batches: int = 1,
    iterations: int = 1,
    **simulation: Any,
) -> RunResult:
    given: dict[str, Any] = {
        "hardware": hardware,
        "model": model or {"name": "GPT2-Medium"},
        "training": {
            "batch_size_per_gpu": 1,
            "num_iterations": iterations,
            "gradient_accumulation_steps": micro_batches,
        },
        "parallelism": strategy,
        "simulation": simulation,
    }
    return simulate(SimulationConfig.model_validate(given))


def serving(hardware: dict[str, Any], tensor: int, network: dict[str, Any], **simulation: Any) -> RunResult:
    return simulate(
        SimulationConfig.model_validate(
            {
                "hardware": hardware,
                "network": network,
                "model": {"name": "Llama3-8B"},
                "parallelism": {"tp_degree": tensor},
                "serving": {},
                "workload": {
                    "arrivals": {"kind": "constant", "rate": "0.05 req/s"},
                    "prompt_tokens": 512,
                    "output_tokens": 8,
                    "num_requests": 6,
                },
                "simulation": simulation,
            }
        )
    )


SHARED = [
    {"strategy": "TP_DDP", "tp_degree": 8},
    {"strategy": "TP_DDP", "tp_degree": 4},
    {"strategy": "TP_FSDP", "tp_degree": 2},
]


@pytest.mark.parametrize("strategy", SHARED, ids=str)
def test_groups_that_share_a_network_card_take_as_long_as_at_high(strategy: dict[str, Any]) -> None:
    found, high = training(strategy), training(strategy, lod="high")
    assert found.metrics["mean_iteration_s"] == pytest.approx(high.metrics["mean_iteration_s"], rel=0.01)


@pytest.mark.parametrize("strategy", SHARED, ids=str)
def test_blocks_carried_out_at_once_take_as_long_as_their_operations(
    strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if collectives beside them take a share of the GPU."""
    found = training(strategy, occupy_links=True)
    assert any("overlapped collectives slow concurrent computation by" in text for text in found.assumptions)
    monkeypatch.setattr(StretchedPrograms, "carry_out", PlayedPrograms.carry_out)
    expected = training(strategy, occupy_links=True)
    for name in ("mean_iteration_s", "gpu_utilization"):
        assert found.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-9)


PIPELINES = [
    {"strategy": "TP_PP_ZERO1", "tp_degree": 8, "pp_stages": 2, "schedule": "interleaved", "virtual_stages": 4},
    {"strategy": "TP_CP_PP_ZERO1", "tp_degree": 4, "cp_degree": 4, "pp_stages": 2},
]
"""Tensor parallelism stays inside nodes, while hidden states and gradients share their network cards."""


LIKE_GPT2_XL = {
    "model_type": "gpt",
    "num_layers": 48,
    "hidden_size": 1600,
    "num_attention_heads": 32,
    "vocab_size": 50257,
    "sequence_length": 1024,
}
"""With a number of heads that degrees of tensor parallelism divide."""


def pipeline(strategy: dict[str, Any], **changes: Any) -> RunResult:
    return training(strategy, model=LIKE_GPT2_XL, micro_batches=8, **changes)


@pytest.mark.parametrize("strategy", PIPELINES, ids=str)
def test_groups_that_meet_nobody_stay_off_the_links(strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    few = pipeline(strategy)
    monkeypatch.setattr(Meets, "hindering", lambda *_: None)
    all_carried = pipeline(strategy)
    assert not few.contention.endswith(NONE_MET)
    assert few.metrics["mean_iteration_s"] == pytest.approx(all_carried.metrics["mean_iteration_s"], rel=0.002)
    assert few.events < 0.8 * all_carried.events


@pytest.mark.parametrize("strategy", [*PIPELINES, *SHARED], ids=str)
def test_iterations_known_to_be_alike_are_simulated_once(
    strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pipeline(strategy, iterations=5)
    init = simsys.simulation.JobRun.__init__
    monkeypatch.setattr(
        simsys.simulation.JobRun, "__init__", lambda *args, **named: init(*args, **{**named, "alike": None})
    )
    monkeypatch.setattr("simsys.executors.iterations.training_loop.at_rest", lambda *_: False)
    twice = pipeline(strategy, iterations=5)
    assert list(found.rows["iteration_s"]) == pytest.approx(list(twice.rows["iteration_s"]), rel=1e-9)
    assert found.links["nbytes"] == pytest.approx(twice.links["nbytes"], rel=1e-9)
    if not found.contention.endswith(NONE_MET):
        assert found.events < 0.75 * twice.events


def test_all_that_can_meet_are_carried_if_what_meets_takes_much_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[set[tuple[int, ...]]] = []
    run = simsys.simulation._run

    def noted(job: Any, links: Any, probes: Any, users: Any = (), *more: Any) -> Any:
        carried.append(set(users))
        return run(job, links, probes, users, *more)

    monkeypatch.setattr(simsys.simulation, "_run", noted)
    pipeline(PIPELINES[0])
    monkeypatch.setattr(simsys.simulation, "SHIFTED", 0.0)
    pipeline(PIPELINES[0])
    idle, few, idle_again, few_again, able = carried
    assert idle == idle_again == set()
    assert few == few_again < able


def test_what_idle_links_leave_out_is_a_warning_that_names_groups_and_links() -> None:
    pipeline = {"strategy": "PP_DDP", "pp_stages": 2, "order": "pp-tp-dp"}
    idle, found = training(pipeline, occupy_links=False), training(pipeline)
    assert found.metrics["mean_iteration_s"] > 1.01 * idle.metrics["mean_iteration_s"]
    (text,) = [each for each in idle.warnings if each.startswith("occupy_links: false")]
    assert "most of all" in text
    assert "occupy_links: auto counts it" in text
    assert not any("occupy_links" in each for each in found.warnings)


def test_nothing_is_warned_of_where_no_transfers_meet() -> None:
    wide = {**ONE_CARD, "nic": {"bandwidth": "50 GB/s", "count": 8}}
    found, idle = training(SHARED[0], wide), training(SHARED[0], wide, occupy_links=False)
    assert found.contention.endswith(NONE_MET)
    assert found.metrics["mean_iteration_s"] == idle.metrics["mean_iteration_s"]
    assert not any("occupy_links" in each for each in idle.warnings)


def test_every_team_has_its_own_routes() -> None:
    """Of four teams of four one-GPU nodes, the second and third cross leaves of six."""
    hardware = {"gpu": "H100-SXM", "num_nodes": 16, "gpus_per_node": 1, "network_bandwidth": "5 GB/s"}
    network = {"topology_type": "fat_tree", "leaf_size": 6, "oversubscription": 4}
    found, high = (serving(hardware, 4, network, lod=lod) for lod in ("medium", "high"))
    for name in ("mean_ttft_ms", "mean_tpot_ms"):
        assert found.metrics[name] == pytest.approx(high.metrics[name], rel=0.01)


def pipelines(
    tensor: int, stages: int, bandwidth: str, rate: str, topology_type: str = "tree", **simulation: Any
) -> RunResult:
    """Replicas of pipelines on sixteen one-GPU nodes."""
    return simulate(
        SimulationConfig.model_validate(
            {
                "hardware": {"gpu": "H100-SXM", "num_nodes": 16, "gpus_per_node": 1, "nic": {"bandwidth": bandwidth}},
                "network": {"topology_type": topology_type},
                "model": {"name": "Llama3-8B"},
                "parallelism": {"tp_degree": tensor, "pp_stages": stages},
                "serving": {},
                "workload": {
                    "arrivals": {"kind": "poisson", "rate": rate},
                    "prompt_tokens": 1000,
                    "output_tokens": 8,
                    "num_requests": 24,
                },
                "simulation": simulation,
            }
        )
    )


@pytest.mark.parametrize(
    ("tensor", "stages", "bandwidth", "rate"),
    [(4, 2, "3 GB/s", "2 req/s"), (1, 2, "500 MB/s", "100 req/s"), (1, 4, "1 GB/s", "100 req/s")],
)
def test_pipelines_that_share_links_take_as_long_as_at_high(
    tensor: int, stages: int, bandwidth: str, rate: str
) -> None:
    """Teams of their stages exchange over the same links, or hidden states are handed on over them."""
    found, high, idle = (
        pipelines(tensor, stages, bandwidth, rate, **simulation)
        for simulation in ({}, {"lod": "high"}, {"occupy_links": False})
    )
    for name in ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"):
        assert found.metrics[name] == pytest.approx(high.metrics[name], rel=0.05)
    assert idle.metrics["mean_ttft_ms"] < 0.95 * high.metrics["mean_ttft_ms"]
    assert any(text.startswith("occupy_links: false leaves out that") for text in idle.warnings)


def test_hidden_states_that_take_next_to_no_time_leave_links_idle() -> None:
    found, high = (pipelines(1, 4, "50 GB/s", "20 req/s", lod=lod) for lod in ("medium", "high"))
    assert found.contention.endswith(NONE_MET)
    assert found.metrics["mean_ttft_ms"] == pytest.approx(high.metrics["mean_ttft_ms"], rel=0.01)


@pytest.mark.parametrize("rate", ["4 req/s", "100 req/s"])
def test_stages_hand_on_one_message_after_another_at_both_levels(rate: str) -> None:
    """A prompt of 8 MB takes 80 ms to the next stage; what decodes behind it does not overtake it."""
    found, high = (pipelines(1, 4, "100 MB/s", rate, "switch", lod=lod) for lod in ("medium", "high"))
    for name in ("mean_ttft_ms", "mean_tpot_ms"):
        assert found.metrics[name] == pytest.approx(high.metrics[name], rel=1e-9)


@pytest.mark.parametrize(("occupy", "warned"), [(False, True), (True, False)])
def test_teams_that_can_meet_are_warned_of_if_links_are_to_be_idle(occupy: bool, warned: bool) -> None:
    config = contended()
    simulation = config.simulation.model_copy(update={"occupy_links": occupy})
    found = simulate(config.model_copy(update={"simulation": simulation}))
    assert any(text.startswith("occupy_links: false leaves out that teams") for text in found.warnings) is warned


@pytest.mark.parametrize(("occupy", "warned"), [(False, True), (True, False)])
def test_jobs_on_links_that_are_to_be_idle_are_warned_of(occupy: bool, warned: bool) -> None:
    config = jobs()
    simulation = config.simulation.model_copy(update={"occupy_links": occupy})
    found = simulate(config.model_copy(update={"simulation": simulation}))
    assert any(text.startswith("occupy_links: false leaves out that jobs") for text in found.warnings) is warned
