"""Data-parallel ranks in lock-step: all levels of detail agree, the slowest rank decides, runs may be cut anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.executors.steps.serving_passes import ServingPasses
from simsys.executors.steps.summed_passes import SummedPasses
from simsys.metrics.result import RunResult
from simsys.simulation import simulate

LAYOUTS: dict[str, dict[str, Any]] = {
    "one GPU each": {"attention_dp": 4, "ep_degree": 4},
    "experts divided by tensor parallelism": {"attention_dp": 4},
    "both": {"attention_dp": 4, "ep_degree": 2},
    "two GPUs each": {"tp_degree": 2, "attention_dp": 2, "ep_degree": 4},
    "two nodes": {"tp_degree": 2, "attention_dp": 4, "ep_degree": 8},
    "two replicas": {"attention_dp": 2, "ep_degree": 2, "dp_degree": 2},
}
FIGURES = ("duration", "mean_ttft_ms", "mean_tpot_ms", "p99_e2el_ms", "total_output_tokens")


def config(layout: dict[str, Any], lod: str = "medium", *, gpus: int = 0, **sections: Any) -> SimulationConfig:
    gpus = gpus or layout.get("tp_degree", 1) * layout["attention_dp"] * layout.get("dp_degree", 1)
    workload = {
        "arrivals": {"kind": "poisson", "rate": "40 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 10, "high": 900},
        "output_tokens": {"kind": "uniform", "low": 1, "high": 40},
        "num_requests": 30,
        **sections.pop("workload", {}),
    }
    nodes = 1 if gpus <= 6 else 2
    simulation = {"lod": lod, **sections.pop("simulation", {})}
    found = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": gpus // nodes, "num_nodes": nodes},
        model={"name": "gpt-oss-20b"},
        parallelism=layout,
        serving={"precision": "bf16", **sections.pop("serving", {})},
        workload=workload,
        simulation=simulation,
        **sections,
    )
    assert check_config(found) == []
    return found


def figures(result: RunResult) -> list[float]:
    return [result.metrics[name] for name in FIGURES]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_levels_agree(layout: str) -> None:
    high, medium, occupied = (
        simulate(config(LAYOUTS[layout], lod, simulation={"occupy_links": links}))
        for lod, links in (("high", "auto"), ("medium", "auto"), ("medium", True))
    )
    assert figures(medium) == pytest.approx(figures(high), rel=1e-9)
    assert figures(occupied) == pytest.approx(figures(high), rel=1e-9)
    shares = [each.metrics["gpu_utilization"] for each in (high, medium)]
    assert shares[1] == pytest.approx(shares[0], rel=1e-9)


@pytest.mark.parametrize("serving", [{"async_scheduling": False}, {"experts": {"two_batch_overlap": True}}])
def test_they_agree_on_the_time_of_hosts_and_the_work_of_gpus(serving: dict[str, Any]) -> None:
    """The slowest host decides for all ranks; exchanges that overlap keep all GPUs of a rank busy."""
    high, medium = (simulate(config(LAYOUTS["two GPUs each"], lod, serving=serving)) for lod in ("high", "medium"))
    assert figures(medium) == pytest.approx(figures(high), rel=1e-9)
    assert medium.metrics["gpu_utilization"] == pytest.approx(high.metrics["gpu_utilization"], rel=1e-9)


@pytest.mark.parametrize("host", [False, True])
def test_single_steps_take_as_long(host: bool) -> None:
    layout = LAYOUTS["one GPU each"]
    runs = [
        simulate(config(layout, serving={"stepping": stepping, "async_scheduling": host}))
        for stepping in (False, True)
    ]
    assert figures(runs[0]) == pytest.approx(figures(runs[1]), rel=1e-12)


def test_equal_ranks_take_as_long_as_one_alone() -> None:
    """Without imbalance, all ranks have equal batches: a step is the sum of its three parts, in closed form."""
    both = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 256, "output_tokens": 20, "num_requests": 4}
    layout = LAYOUTS["one GPU each"]
    equal = simulate(config(layout, workload=both))
    assert equal.metrics["mean_tpot_ms"] == pytest.approx(equal.metrics["p99_tpot_ms"], rel=1e-9)
    fewer = simulate(config(layout, workload={**both, "num_requests": 1}))
    assert fewer.metrics["mean_ttft_ms"] < equal.metrics["mean_ttft_ms"]  # experts and exchange have fewer tokens
    tpot_ms = equal.metrics["mean_tpot_ms"]
    assert fewer.metrics["mean_tpot_ms"] == pytest.approx(tpot_ms, rel=1e-12)  # the others pass a dummy token each


def test_a_long_prompt_delays_the_other_ranks() -> None:
    """A rank that prefills holds up ranks that decode, as all need all experts."""
    at_once = {"arrivals": {"kind": "all_at_once"}, "output_tokens": 30, "num_requests": 4}
    layout = LAYOUTS["one GPU each"]
    unequal = {"kind": "uniform", "low": 16, "high": 8000}
    result = simulate(config(layout, workload={**at_once, "prompt_tokens": unequal}))
    assert result.metrics["p50_ttft_ms"] == pytest.approx(result.metrics["p99_ttft_ms"], rel=1e-9)
    alone = simulate(config({"dp_degree": 4, "attention_dp": 1}, workload=at_once | {"prompt_tokens": 16}))
    assert alone.metrics["p50_ttft_ms"] < result.metrics["p50_ttft_ms"]


def test_requests_are_dealt_to_the_ranks() -> None:
    """Each rank is an engine of its own for the router, with a KV cache of its own."""
    job = build_job(config(LAYOUTS["two GPUs each"]))
    assert isinstance(job, ServingJob)
    assert len(job.roles()) == 2
    assert job.num_gpus == 4
    whole = build_job(config({"attention_dp": 4}))
    assert isinstance(whole, ServingJob)
    assert whole.memory_bytes["weights"] > job.memory_bytes["weights"]  # dense layers are on every rank


def test_a_run_may_end_early() -> None:
    result = simulate(config(LAYOUTS["one GPU each"], workload={"num_requests": 200}, simulation={"duration": "1 s"}))
    again = simulate(
        config(LAYOUTS["one GPU each"], "high", workload={"num_requests": 200}, simulation={"duration": "1 s"})
    )
    assert 0 < result.metrics["completed"] < 200
    assert result.metrics["completed"] == again.metrics["completed"]
    assert result.metrics["total_output_tokens"] == again.metrics["total_output_tokens"]


def test_preempted_requests_come_back() -> None:
    crowded = {"num_gpu_blocks_override": 90, "max_num_seqs": 16}
    result = simulate(
        config(LAYOUTS["one GPU each"], serving=crowded, workload={"output_tokens": 300, "num_requests": 60})
    )
    assert result.metrics["completed"] == 60


def test_pools_have_layouts_of_their_own() -> None:
    """Prefill on two data-parallel ranks of one replica, decode on four of another: all requests end, all levels."""
    split = {
        "prefill_replicas": 1,
        "decode_replicas": 1,
        "prefill_attention_dp": 2,
        "prefill_ep_degree": 2,
        "decode_attention_dp": 4,
        "decode_ep_degree": 4,
    }
    runs = []
    for lod in ("medium", "high"):
        runs.append(simulate(config({"attention_dp": 1}, lod, gpus=6, serving={"disaggregated": split})))
    assert runs[0].metrics["completed"] == 30
    assert figures(runs[0]) == pytest.approx(figures(runs[1]), rel=1e-3)


@pytest.mark.parametrize("drafter", [None, {"draft_tokens": 2, "acceptance_rate": 0.6, "draft_layers": 1}])
@pytest.mark.parametrize("hardware", [{}, {"exceptions": [{"gpus": [5], "speed": 0.5}]}, {"jitter": {"compute": 0.2}}])
def test_passes_that_end_in_one_event_end_with_the_last_of_them(
    drafter: dict[str, Any] | None, hardware: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks of one GPU beside transfers: the same as with an event for each pass, to the last bit."""
    prefill, decode = {"prefill_replicas": 1, "prefill_tp_degree": 2}, {"decode_replicas": 1, "decode_attention_dp": 4}
    serving = {"disaggregated": {**prefill, **decode, "decode_ep_degree": 4}, "speculative": drafter}
    pools = config({"attention_dp": 1}, gpus=6, serving=serving)
    pools = pools.with_({f"hardware.{name}": each for name, each in hardware.items()})
    together = simulate(pools)
    monkeypatch.setattr(SummedPasses, "together", ServingPasses.together)
    apart = simulate(pools)
    assert together.contention.startswith("occupied")
    assert together.rows == apart.rows
    assert together.metrics == apart.metrics
    assert together.events < 0.6 * apart.events


DISPATCHES = ["all_gather", "all_to_all", "deepep_high_throughput", "deepep_low_latency"]


@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_levels_agree_with_each_way_to_send_tokens(dispatch: str) -> None:
    experts = {"dispatch": dispatch, "dispatch_precision": "fp8", "popularity_exponent": 0.5}
    runs = [simulate(config(LAYOUTS["two nodes"], lod, serving={"experts": experts})) for lod in ("high", "medium")]
    assert figures(runs[0]) == pytest.approx(figures(runs[1]), rel=1e-9)


EFFECTS: list[tuple[dict[str, Any], int]] = [
    ({"dispatch": "deepep_low_latency"}, 0),
    ({"dispatch_precision": "fp8"}, -1),
    ({"popularity_exponent": 1.0}, 1),
    ({"popularity_exponent": 0.0}, 0),
    ({"counts": [2.0] + [1.0] * 31}, 1),
    ({"two_batch_overlap": True}, 0),
]


@pytest.mark.parametrize(("experts", "sign"), EFFECTS)
def test_each_setting_has_its_effect(experts: dict[str, Any], sign: int) -> None:
    """Long prompts of all ranks at once: time to the first token with the setting against without."""
    workload = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 2000, "output_tokens": 4, "num_requests": 4}
    plain, changed = (
        simulate(config(LAYOUTS["one GPU each"], workload=workload, serving={"experts": each})).metrics["mean_ttft_ms"]
        for each in ({}, experts)
    )
    if sign:
        assert (changed > plain) is (sign > 0)
    elif experts == {"popularity_exponent": 0.0}:
        assert changed == plain
    else:
        assert changed != plain


def test_the_balancer_lowers_the_load_for_memory_and_moves() -> None:
    skewed = {"popularity_exponent": 1.0}
    layout, workload = LAYOUTS["one GPU each"], {"arrivals": {"kind": "all_at_once"}, "num_requests": 8}
    settings = [
        skewed,
        {**skewed, "eplb": True},
        {**skewed, "eplb": True, "redundant_experts": 8},
        {**skewed, "eplb": True, "redundant_experts": 8, "rebalance_steps": 100},
    ]
    configs = [config(layout, workload=workload, serving={"experts": each}) for each in settings]
    jobs = [build_job(each) for each in configs]
    weights = [job.memory_bytes["weights"] for job in jobs if isinstance(job, ServingJob)]
    loads = [job.experts.load for job in jobs if isinstance(job, ServingJob)]
    assert weights[0] == weights[1] < weights[2] == weights[3]
    assert loads[0] > loads[1] > loads[2] >= 1.0
    times = [simulate(each).metrics["duration"] for each in configs]
    assert times[0] > times[2]
    assert times[3] > times[2]


def test_shared_experts_hide_behind_the_exchange() -> None:
    def run(shared: str) -> float:
        found = config(LAYOUTS["one GPU each"], serving={"experts": {"shared_experts": shared}})
        found = found.model_copy(update={"model": found.model.model_copy(update={"name": "Qwen3.5-397B-A17B"})})
        found = found.model_copy(update={"hardware": found.hardware.model_copy(update={"profile": "dgx-b200"})})
        found = found.model_copy(update={"serving": found.serving.model_copy(update={"precision": "fp8"})})
        return float(simulate(found).metrics["median_itl_ms"])

    assert run("overlapped") < run("in_turn")
