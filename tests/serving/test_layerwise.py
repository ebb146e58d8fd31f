"""Layer-wise transfers: what stays visible is that of the closed form, and no token is sent twice or left out."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.simulation import simulate

LAYERS = 32
ONE = {"arrivals": {"kind": "constant", "rate": "1 req/s"}, "prompt_tokens": 4000, "output_tokens": 4}
LOCAL: dict[str, Any] = {"profile": "dgx-h100", "gpus_per_node": 2}


def config(
    transfer: str,
    workload: dict[str, Any],
    hardware: dict[str, Any] = LOCAL,
    *,
    model: str = "Llama-3.1-8B",
    lod: str = "medium",
    split: dict[str, Any] | None = None,
    **serving: Any,
) -> SimulationConfig:
    pools = {"prefill_replicas": 1, "decode_replicas": 1, "transfer": transfer, **(split or {})}
    return SimulationConfig(
        hardware=hardware,
        model={"name": model},
        serving={"disaggregated": pools, "api_overhead": "0 s", **serving},
        workload={"num_requests": 1, **workload},
        simulation={"lod": lod},
    )


def apart(rate: str) -> dict[str, Any]:
    """Both replicas on nodes of their own."""
    return {"profile": "dgx-h100", "gpus_per_node": 1, "num_nodes": 2, "network_bandwidth": rate}


def visible_s(result: RunResult) -> float:
    return float(result.metrics["mean_kv_transfer_ms"]) / 1e3


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize("rate", ["20 Gb/s", "60 Gb/s", "400 Gb/s"])
def test_what_stays_visible_is_the_last_layer_or_what_computing_does_not_hide(rate: str, lod: str) -> None:
    """Of L layers with computation C and transfer T: the larger of T / L and T - C (L - 1) / L."""
    whole = simulate(config("after_prefill", ONE, apart(rate)))
    compute_s, transfer_s = whole.metrics["mean_ttft_ms"] / 1e3, visible_s(whole)
    found = simulate(config("layerwise", ONE, apart(rate), lod=lod))
    expected_s = max(transfer_s / LAYERS, transfer_s - compute_s * (LAYERS - 1) / LAYERS)
    assert visible_s(found) == pytest.approx(expected_s, abs=2e-6)  # the latency of a transfer
    assert found.metrics["kv_transferred_bytes"] == pytest.approx(whole.metrics["kv_transferred_bytes"])
    assert found.metrics["mean_ttft_ms"] == pytest.approx(whole.metrics["mean_ttft_ms"])


def test_earlier_chunks_are_sent_while_later_ones_are_computed() -> None:
    """Of three chunks, the last layer of the last one stays visible."""
    long = {**ONE, "prompt_tokens": 20_000}
    limits = {"max_num_batched_tokens": 8192}
    whole, found = (simulate(config(each, long, **limits)) for each in ("after_prefill", "layerwise"))
    last = (20_000 - 2 * 8192) / 20_000
    assert visible_s(found) == pytest.approx(visible_s(whole) * last / LAYERS, rel=0.02)


def busy(transfer: str, lod: str = "medium", **given: Any) -> SimulationConfig:
    """Many requests, and decode replicas that often have no room."""
    workload = {
        "arrivals": {"kind": "poisson", "rate": "300 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": 600},
        "output_tokens": {"kind": "uniform", "low": 1, "high": 60},
        "prefixes": {"groups": 3, "tokens": 64},
        "num_requests": 60,
    }
    crowded = {"num_gpu_blocks_override": 120, "max_num_seqs": 16, "max_num_batched_tokens": 256, "block_size": 16}
    split = {"decode_replicas": 2, **given.pop("split", {})}
    hardware = {**LOCAL, "gpus_per_node": 3}
    return config(transfer, workload, hardware, model="GPT2-Small", lod=lod, split=split, **{**crowded, **given})


@pytest.mark.parametrize("caching", [False, True])
def test_every_cache_arrives_whole_and_once(caching: bool) -> None:
    result = simulate(busy("layerwise", prefix_caching=caching))
    assert result.metrics["completed"] == 60
    sent = [row for row, output in enumerate(result.rows["output_tokens"]) if output > 1]
    job = build_job(busy("layerwise"))
    assert isinstance(job, ServingJob)
    tokens = sum(result.rows["prompt_tokens"][row] for row in sent)
    assert result.metrics["kv_transferred_bytes"] == pytest.approx(tokens * job.pools[-1].token_bytes(0))
    log = result.requests
    assert log is not None
    assert all(cache.free_blocks == cache.num_blocks for cache in log.caches.values())
    decode_s = [end - first for end, first in zip(log.finished_s, log.first_token_s, strict=True)]
    each = gaps_by_request(log)
    assert each is not None
    assert [sum(gaps) for gaps in each] == pytest.approx(decode_s)


@pytest.mark.parametrize("more", [{}, {"prefix_caching": True}, {"split": {"decode_prefix_caching": True}}])
def test_runs_are_bit_identical_to_single_steps(more: dict[str, Any]) -> None:
    runs, steps = (simulate(busy("layerwise", stepping=stepping, **more)) for stepping in (False, True))
    for name in ("admitted_s", "first_token_s", "finished_s", "preemptions"):
        assert list(runs.rows[name]) == list(steps.rows[name])
    assert runs.metrics["kv_transferred_bytes"] == steps.metrics["kv_transferred_bytes"]


def test_levels_agree_where_transfers_have_the_links_for_themselves() -> None:
    few = {
        "arrivals": {"kind": "constant", "rate": "20 req/s"},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": 900},
        "output_tokens": {"kind": "uniform", "low": 1, "high": 9},
        "num_requests": 20,
    }
    medium, high = (simulate(config("layerwise", few, model="GPT2-Small", lod=lod)) for lod in ("medium", "high"))
    for name in ("first_token_s", "finished_s"):
        assert list(high.rows[name]) == pytest.approx(list(medium.rows[name]), rel=1e-9)


REFUSED: dict[str, dict[str, Any]] = {
    "decode_router": {"split": {"decode_router": "central_queue"}},
    "cancellation": {"workload": {**ONE, "cancellation": {"timeout": "1 s"}}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_refused(name: str) -> None:
    given = {"workload": ONE, **REFUSED[name]}
    (problem,) = check_config(config("layerwise", **given))
    assert problem.path == "serving.disaggregated.transfer"
    assert name in problem.message


def test_stages_and_ranks_in_lock_step_are_refused() -> None:
    pools = {"prefill_replicas": 1, "decode_replicas": 1, "transfer": "layerwise"}
    for parallelism, word in (({"pp_stages": 2}, "pp_stages"), ({"attention_dp": 2, "ep_degree": 2}, "attention_dp")):
        given = SimulationConfig(
            hardware={"profile": "dgx-h100", "gpus_per_node": 4},
            model={"name": "Mixtral-8x7B"},
            parallelism=parallelism,
            serving={"disaggregated": pools},
            workload=ONE | {"num_requests": 1},
        )
        assert any(word in each.message for each in check_config(given)), word
