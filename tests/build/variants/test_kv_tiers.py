"""KV tiers: times are those of theory, levels and stepping agree, and what is not modelled is refused at its line."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.build.variants.kv_tiers import replica_token_bytes
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.simulation import simulate

REMOTE = {"kind": "remote", "capacity": "10 GB", "read_bandwidth": "1 GB/s", "latency": "2 ms"}
CPU = {"kind": "cpu", "capacity": "10 GB", "read_bandwidth": "50 GB/s"}
TWINS = {
    "arrivals": {"kind": "constant", "rate": "1 req/s"},
    "prompt_tokens": 88,
    "output_tokens": 3,
    "prefixes": {"groups": 1, "tokens": 512},
    "num_requests": 2,
}
LOADS = ("async", "blocking", "layerwise")


def config(
    tiers: list[dict[str, Any]],
    workload: dict[str, Any] = TWINS,
    *,
    model: str = "GPT2-Small",
    lod: str = "medium",
    gpus: int = 2,
    parallelism: dict[str, Any] | None = None,
    simulation: dict[str, Any] | None = None,
    **serving: Any,
) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": gpus},
        model={"name": model},
        parallelism=parallelism or {},
        serving={"prefix_caching": True, "block_size": 16, "kv_tiers": tiers, **serving},
        workload=workload,
        simulation={"lod": lod, **(simulation or {})},
    )


def ttft_s(result: RunResult, request: int) -> float:
    assert result.rows["first_token_s"][request] is not None
    return float(result.rows["first_token_s"][request] - result.rows["arrival_s"][request])


def gpu_hit_s() -> float:
    """The time to first token of the second of two requests on one GPU, which has the prefix."""
    return ttft_s(simulate(config([CPU], gpus=1)), 1)


def load_s(tokens: int = 512) -> float:
    job = build_job(config([REMOTE]))
    assert isinstance(job, ServingJob)
    return 2e-3 + tokens * replica_token_bytes(job.pools[0]) / 1e9


@pytest.mark.parametrize("load", ["async", "blocking"])
@pytest.mark.parametrize("lod", ["medium", "high"])
def test_a_load_costs_latency_and_bytes_over_bandwidth_and_the_rest_of_the_prompt(load: str, lod: str) -> None:
    """The second request comes to the other replica, which has nothing on its GPU."""
    result = simulate(config([REMOTE], lod=lod, kv_offload={"load": load}))
    assert ttft_s(result, 1) == pytest.approx(load_s() + gpu_hit_s(), rel=1e-9)
    metrics = result.metrics
    assert metrics["kv_loads"] == 1
    assert metrics["mean_kv_load_ms"] == pytest.approx(1e3 * load_s())
    assert metrics["kv_hit_share_remote"] == 512 / 1200
    assert metrics["prefix_cache_hits"] == 0


@pytest.mark.parametrize("tenths", [2, 9, 30])
def test_layers_wait_for_their_parts(tenths: int) -> None:
    """A pipeline of L layers: the first part and all computation, or all of the load and the last computation."""
    work: dict[str, Any] = {"workload": {**TWINS, "prompt_tokens": 2000}, "model": "Llama-3.1-8B"}
    compute_s = ttft_s(simulate(config([CPU], gpus=1, api_overhead="0 s", **work)), 1)
    transfer_s = tenths / 10 * compute_s
    rate = f"{512 * 131072 / transfer_s} B/s"
    tier = {**REMOTE, "read_bandwidth": rate, "latency": "0 s"}
    found_s = ttft_s(simulate(config([tier], kv_offload={"load": "layerwise"}, api_overhead="0 s", **work)), 1)
    assert found_s == pytest.approx(max(transfer_s / 32 + compute_s, transfer_s + compute_s / 32), rel=1e-9)


def test_a_prefix_below_the_least_tokens_is_computed_again() -> None:
    result = simulate(config([REMOTE], kv_offload={"min_retrieve_tokens": 513}))
    assert result.metrics["kv_loads"] == 0
    assert ttft_s(result, 1) == pytest.approx(ttft_s(result, 0))


def test_loads_of_two_requests_take_turns() -> None:
    """Of three replicas that share a slow store, the second one begins to read, and the third one waits for it."""
    table = {**TWINS, "num_requests": 3}
    result = simulate(config([{**REMOTE, "read_bandwidth": "10 MB/s", "write_bandwidth": "1 TB/s"}], table, gpus=3))
    alone_s = 100 * (load_s() - 2e-3)
    assert alone_s > 1.0  # when the third one comes
    assert ttft_s(result, 1) == pytest.approx(2e-3 + alone_s + gpu_hit_s())
    assert ttft_s(result, 2) == pytest.approx(2e-3 + 2 * alone_s - 1.0 + gpu_hit_s())


def test_a_shared_store_makes_up_for_a_router_that_does_not_look_for_prefixes() -> None:
    """Turns of a conversation come to any replica, and find what the others have computed."""
    talk = {
        "arrivals": {"kind": "poisson", "rate": "5 req/s"},
        "prompt_tokens": 100,
        "output_tokens": 50,
        "sessions": {"turns": 5, "think_time": "1 s"},
        "num_requests": 60,
    }
    own, shared = (
        simulate(config([{**REMOTE, "shared": each}], talk, gpus=4)).metrics for each in ("replica", "cluster")
    )
    found = {"own": own, "shared": shared}
    hits = {name: each["prefix_cache_hits"] / each["prefix_cache_queries"] for name, each in found.items()}
    assert hits["shared"] + shared["kv_hit_share_remote"] > 1.4 * (hits["own"] + own["kv_hit_share_remote"])


@pytest.mark.parametrize("policy", ["wait_complete", "timeout", "best_effort"])
def test_prefetches_wait_as_long_as_the_policy_says(policy: str) -> None:
    """An idle engine could schedule the request at once: it waits for the prefetch, for 10 ms, or not at all."""
    timeout = {"prefetch_timeout_base": "10 ms", "prefetch_timeout_per_ki_token": "0 s"} if policy == "timeout" else {}
    tier = {**REMOTE, "latency": "0 s"}
    cpu = {**CPU, "read_bandwidth": "100000 GB/s"}
    result = simulate(config([cpu, tier], kv_offload={"prefetch_policy": policy, **timeout}))
    copy_s = load_s() - 2e-3
    assert copy_s > 10e-3
    if policy == "wait_complete":
        assert ttft_s(result, 1) == pytest.approx(copy_s + gpu_hit_s(), rel=1e-4)
        assert result.metrics["kv_hit_share_cpu"] == 512 / 1200
    elif policy == "timeout":
        came = int(10e-3 / copy_s * 512) // 16 * 16
        assert result.metrics["kv_hit_share_cpu"] == came / 1200
        assert result.metrics["kv_read_bytes_remote"] == pytest.approx(10e-3 * 1e9)
    else:
        assert result.metrics["kv_loads"] == 0
        assert ttft_s(result, 1) == pytest.approx(ttft_s(result, 0))


def random_scenario(seed: int) -> dict[str, Any]:
    """Small caches, and tiers of any kind that is allowed."""
    rng = random.Random(seed)
    shares = ["replica", "node", "cluster"]
    cpu = {
        "kind": "cpu",
        "capacity": rng.choice(["4 MB", "20 MB", "1 GB"]),
        "read_bandwidth": rng.choice(["0.05 GB/s", "1 GB/s", "50 GB/s"]),
        "latency": rng.choice(["0 s", "3 ms"]),
        "shared": rng.choice(shares),
        "write_policy": rng.choice(["write_through", "write_back"]),
    }
    if cpu["write_policy"] == "write_back":
        cpu["shared"] = "replica"
    lower = {
        "kind": rng.choice(["ssd", "remote"]),
        "capacity": rng.choice(["8 MB", "1 GB"]),
        "read_bandwidth": rng.choice(["0.02 GB/s", "10 GB/s"]),
        "write_bandwidth": rng.choice(["0.01 GB/s", "5 GB/s"]),
        "write_policy": rng.choice(["write_through", "write_back"]),
        "shared": rng.choice(shares[shares.index(cpu["shared"]) :]),
    }
    if cpu["write_policy"] == lower["write_policy"] == "write_back":
        lower["shared"] = "replica"
    block, both = rng.choice([4, 16]), rng.random() < 0.6
    offload: dict[str, Any] = {"load": rng.choice(LOADS), "chunk_tokens": block * rng.choice([1, 2, 4])}
    offload |= {"save_decode_cache": rng.random() < 0.5, "min_retrieve_tokens": rng.choice([0, 64])}
    if both and rng.random() < 0.5:
        offload["prefetch_policy"] = rng.choice(["best_effort", "wait_complete", "timeout"])
        offload["prefetch_threshold"] = rng.choice([0, 50])
    shape = rng.choice([{}, {}, {"parallelism": {"tp_degree": 2}}, {"split": {}}])
    workload = {
        "arrivals": {"kind": "poisson", "rate": rng.choice(["400 req/s", "40 req/s"])},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": rng.choice([60, 200])},
        "output_tokens": {"kind": "uniform", "low": 1, "high": rng.choice([3, 60])},
        "num_requests": 50,
    }
    if rng.random() < 0.4:
        workload["cancellation"] = {"ttft_timeout": rng.choice(["18 ms", "40 ms"]), "timeout": "100 ms"}
    reuse = {"sessions": {"turns": 4, "think_time": "20 ms"}}, {"prefixes": {"groups": 3, "tokens": 130}}
    return {
        "tiers": [cpu, lower] if both else [cpu],
        "workload": {**workload, **rng.choice(reuse)},
        "gpus": 4,
        "parallelism": shape.get("parallelism"),
        "simulation": {"seed": seed, **rng.choice([{}, {}, {"duration": "60 ms"}])},
        "kv_offload": offload,
        "block_size": block,
        "num_gpu_blocks_override": 800 // block,
        "scheduler": rng.choice(["chunked_prefill", "prefill_first", "priority", "shortest_job_first"]),
        "max_num_seqs": rng.choice([2, 16]),
        "max_num_batched_tokens": 256,
        "router": rng.choice(["round_robin", "least_outstanding", "prefix_affinity"]),
        "async_scheduling": rng.random() < 0.5,
        **({"disaggregated": {"prefill_replicas": 2, "decode_replicas": 2}} if "split" in shape else {}),
    }


def check_agreement(seed: int) -> None:
    given = random_scenario(seed)
    if check_config(config(**given)):
        return
    runs, steps, high = (
        simulate(config(**given, **{"lod": lod, "stepping": stepping}))
        for lod, stepping in (("medium", False), ("medium", True), ("high", False))
    )
    for name in ("admitted_s", "first_token_s", "finished_s", "preemptions"):
        assert list(runs.rows[name]) == list(steps.rows[name])
        times, exact = ([-1.0 if each is None else each for each in run.rows[name]] for run in (high, runs))
        assert times == pytest.approx(exact, rel=1e-9)
    moved = {name: value for name, value in runs.metrics.items() if name.startswith("kv_")}
    assert moved == {name: steps.metrics[name] for name in moved}
    log = runs.requests
    assert log is not None
    if runs.metrics["in_flight"] == 0:
        assert all(cache.free_blocks == cache.num_blocks for cache in log.caches.values())
    if runs.metrics["in_flight"] == 0 and "cancellation" not in given["workload"]:
        decode_s = [end - first for end, first in zip(log.finished_s, log.first_token_s, strict=True)]
        each = gaps_by_request(log)
        assert each is not None
        assert [sum(gaps) for gaps in each] == pytest.approx(decode_s)


few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@few
@given(seed=st.integers(0, 100_000))
def test_runs_are_bit_identical_to_steps_and_levels_agree(seed: int) -> None:
    check_agreement(seed)


@pytest.mark.slow
@settings(few, max_examples=200)
@given(seed=st.integers(0, 100_000))
def test_they_are_and_agree_in_many_more(seed: int) -> None:
    check_agreement(seed)


def problem(**given: Any) -> tuple[str, str]:
    (first,) = check_config(config(**given))
    return first.path, first.message


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "caching": ({"tiers": [CPU], "prefix_caching": False}, "serving.kv_tiers", "prefix caching is off"),
    "small": ({"tiers": [{**CPU, "capacity": "1 kB"}]}, "serving.kv_tiers[0].capacity", "a chunk of 16 tokens has"),
    "swap": ({"tiers": [CPU], "preemption": "swap"}, "serving.kv_tiers", "preemption is not available"),
    "stages": ({"tiers": [CPU], "parallelism": {"pp_stages": 2}}, "serving.kv_tiers", "pp_stages is not available"),
    "queue": ({"tiers": [CPU], "router": "central_queue"}, "serving.kv_tiers", "router central_queue"),
    "scaling": ({"tiers": [CPU], "autoscaling": {}}, "serving.kv_tiers", "autoscaling is not available"),
    "twice": ({"tiers": [CPU, CPU]}, "serving.kv_tiers[1].kind", "two tiers of kind cpu"),
    "order": ({"tiers": [REMOTE, CPU]}, "serving.kv_tiers[1]", "per replica is below one per cluster"),
    "back": (
        {"tiers": [{**REMOTE, "write_policy": "write_back"}]},
        "serving.kv_tiers[0].write_policy",
        "is not modelled; write write_through, or shared: replica",
    ),
    "drafts": (
        {
            "tiers": [{**CPU, "write_policy": "write_back"}],
            "speculative": {"draft_tokens": 2, "acceptance_rate": 0.6},
        },
        "serving.kv_tiers[0].write_policy",
        "write_back from GPUs with drafted tokens is not modelled",
    ),
    "chunk": (
        {"tiers": [CPU], "kv_offload": {"chunk_tokens": 24}},
        "serving.kv_offload.chunk_tokens",
        "not a whole number of blocks of 16 tokens",
    ),
    "prefetch": (
        {"tiers": [CPU], "kv_offload": {"prefetch_policy": "best_effort"}},
        "serving.kv_offload.prefetch_policy",
        "no tier below the first one",
    ),
    "polling": (
        {"tiers": [CPU, REMOTE], "kv_offload": {"prefetch_policy": "timeout"}, "scheduler_recv_interval": 2},
        "serving.kv_offload.prefetch_policy",
        "lets prompts wait",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_modelled_is_refused_at_its_setting(name: str) -> None:
    given, path, message = BAD[name]
    found = problem(**given)
    assert found[0] == path
    assert message in found[1]


def test_settings_of_tiers_need_tiers() -> None:
    given = SimulationConfig(
        hardware={"profile": "dgx-h100"}, model={"name": "GPT2-Small"}, serving={"kv_offload": {}}, workload=TWINS
    )
    assert "write kv_tiers too" in check_config(given)[0].message


def test_loads_that_steps_wait_for_are_not_available_with_ranks_in_lock_step() -> None:
    given = SimulationConfig(
        hardware={"profile": "dgx-h200"},
        model={"name": "DeepSeek-V3"},
        parallelism={"attention_dp": 8, "ep_degree": 8},
        serving={"engine": "sglang", "precision": "fp8", "kv_tiers": [REMOTE], "kv_offload": {"load": "blocking"}},
        workload=TWINS,
    )
    assert [each.path for each in check_config(given)] == ["serving.kv_offload.load"]
