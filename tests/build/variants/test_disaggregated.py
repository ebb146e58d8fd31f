"""Disaggregated serving beside other ways to serve: all requests end, caches arrive whole, gaps add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simsys.build.job import assemble, build_job
from simsys.build.rules.findings import Findings, unlocated
from simsys.build.serving import ServingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.simulation import simulate

ONE_EACH = {"prefill_replicas": 1, "decode_replicas": 1}
CROWDED = {"gpu_memory_utilization": 0.024, "max_num_seqs": 32}
CASES: dict[str, dict[str, Any]] = {
    "alike": {},
    "larger decode": {"gpus": 5, "split": {"decode_tp_degree": 4}},
    "larger prefill": {"gpus": 4, "split": {"prefill_tp_degree": 2, "decode_replicas": 2}},
    "pipelines": {"gpus": 4, "parallelism": {"pp_stages": 2}},
    "unequal pipelines": {"gpus": 6, "parallelism": {"pp_stages": 2}, "split": {"prefill_tp_degree": 2}},
    "a node of their own": {"gpus": 4, "nodes": 2, "split": {"prefill_tp_degree": 2, "decode_tp_degree": 4}},
    "prefixes": {"serving": {"prefix_caching": True}, "workload": {"prefixes": {"tokens": 200}}},
    "drafts": {"serving": {"speculative": {"draft_tokens": 2, "acceptance_rate": 0.6}}},
    "crowded": {"serving": CROWDED},
    "swapping": {"serving": {**CROWDED, "preemption": "swap"}},
    "priorities": {"serving": {**CROWDED, "scheduler": "priority"}, "workload": {"priorities": {0: 1, 1: 1}}},
}


def config(
    lod: str = "medium",
    *,
    gpus: int = 2,
    nodes: int = 1,
    split: dict[str, Any] | None = None,
    parallelism: dict[str, Any] | None = None,
    serving: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
) -> SimulationConfig:
    found = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": gpus, "num_nodes": nodes},
        model={"name": "GPT2-Small"},
        parallelism=parallelism or {},
        serving={"disaggregated": {**ONE_EACH, **(split or {})}, **(serving or {})},
        workload={
            "arrivals": {"kind": "poisson", "rate": "500 req/s"},
            "prompt_tokens": {"kind": "uniform", "low": 1, "high": 500},
            "output_tokens": {"kind": "uniform", "low": 1, "high": 60},
            "num_requests": 60,
            **(workload or {}),
        },
        simulation={"lod": lod},
    )
    assert check_config(found) == []
    return found


def whole_cache_bytes(given: SimulationConfig, tokens: int) -> float:
    """Of so many tokens on the replica that decodes."""
    job = build_job(given)
    assert isinstance(job, ServingJob)
    decoding = job.pools[-1]
    return tokens * sum(decoding.layout.tensor * decoding.token_bytes(stage) for stage in decoding.stage_numbers)


@pytest.mark.parametrize("name", CASES)
def test_every_request_ends_and_its_cache_arrives_whole(name: str) -> None:
    given = config(**CASES[name])
    result = simulate(given)
    assert result.metrics["completed"] == 60
    assert bool(result.metrics["preemptions"]) == (name in ("crowded", "swapping", "priorities"))
    sent = [row for row, output in enumerate(result.rows["output_tokens"]) if output > 1]
    tokens = sum(result.rows["prompt_tokens"][row] for row in sent)
    assert result.metrics["kv_transferred_bytes"] == pytest.approx(whole_cache_bytes(given, tokens))
    log = result.requests
    assert log is not None
    assert all(cache.free_blocks == cache.num_blocks for cache in log.caches.values())
    assert (result.metrics["prefix_cache_hits"] > 0) == (name == "prefixes")


@pytest.mark.parametrize("name", CASES)
def test_gaps_add_up_to_the_time_from_the_first_to_the_last_token(name: str) -> None:
    """With the wait for the cache, which vLLM's clients would see too."""
    result = simulate(config(**CASES[name]))
    log = result.requests
    assert log is not None
    decode_s = [end - first for end, first in zip(log.finished_s, log.first_token_s, strict=True)]
    if name == "drafts":
        return
    assert log.gaps is not None
    count = sum(output - 1 for output in result.rows["output_tokens"])
    assert result.metrics["mean_itl_ms"] * count == pytest.approx(1e3 * sum(decode_s), rel=1e-9)
    each = gaps_by_request(log)
    assert each is not None
    assert [sum(gaps) for gaps in each] == pytest.approx(decode_s)
    assert result.metrics["p99_itl_ms"] == pytest.approx(1e3 * np.percentile(np.concatenate(each), 99))


def timeless(result: RunResult) -> dict[str, list[Any]]:
    return {name: list(result.rows[name]) for name in ("finished_s", "first_token_s", "preemptions")}


@pytest.mark.parametrize(
    ("name", "rel"),
    [
        ("larger prefill", 1e-9),
        ("a node of their own", 1e-9),
        ("prefixes", 1e-9),
        ("crowded", 1e-9),
        ("pipelines", 1e-3),  # which also send states
    ],
)
def test_the_levels_agree_where_caches_have_the_links_for_themselves(name: str, rel: float) -> None:
    few = {"arrivals": {"kind": "constant", "rate": "100 req/s"}, **CASES[name].get("workload", {})}
    high, medium = (simulate(config(lod, **{**CASES[name], "workload": few})) for lod in ("high", "medium"))
    for column, values in timeless(medium).items():
        assert list(high.rows[column]) == pytest.approx(values, rel=rel)


@pytest.mark.parametrize(("prefill", "decode"), [(1, 4), (4, 1), (2, 2)])
def test_a_cache_is_sent_over_as_many_links_as_the_larger_replica_has(prefill: int, decode: int) -> None:
    """Each GPU sends to the switch, or receives from it, its part of the cache."""
    workload = {"prompt_tokens": 1000, "output_tokens": 2, "num_requests": 1}
    split = {"prefill_tp_degree": prefill, "decode_tp_degree": decode}
    single, result = (
        simulate(config(gpus=gpus, split=degrees, workload=workload))
        for gpus, degrees in ((2, {}), (prefill + decode, split))
    )
    times = single.metrics["mean_kv_transfer_ms"] / result.metrics["mean_kv_transfer_ms"]
    assert times == pytest.approx(min(prefill, decode), rel=0.05)
    assert result.metrics["kv_transferred_bytes"] == single.metrics["kv_transferred_bytes"]


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_a_first_token_may_come_from_where_a_request_decodes(lod: str) -> None:
    """Its answer then begins when the cache has arrived; the last token is as late as before."""
    at_once, later = (simulate(config(lod, split={"first_token": each})).metrics for each in ("prefill", "decode"))
    assert later["mean_ttft_ms"] > at_once["mean_ttft_ms"]
    assert later["mean_tpot_ms"] < at_once["mean_tpot_ms"]
    assert later["mean_e2el_ms"] == at_once["mean_e2el_ms"]
    assert later["completed"] == at_once["completed"]


TURNS = {
    "arrivals": {"kind": "constant", "rate": "1 req/s"},
    "prompt_tokens": 320,
    "output_tokens": 81,
    "sessions": {"turns": 2, "think_time": "100 ms"},
    "num_requests": 2,
}


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_a_decode_replica_that_caches_prefixes_fetches_what_it_lacks(lod: str) -> None:
    """The second turn begins with the first prompt and its answer, of which all but the last token are there."""
    serving = {"prefix_caching": True, "block_size": 16}
    whole, less = (
        simulate(config(lod, split={"decode_prefix_caching": reuse}, serving=serving, workload=TURNS))
        for reuse in (False, True)
    )
    prompts = sum(whole.rows["prompt_tokens"])
    assert prompts == 320 + 320 + 81 + 320
    each = whole.metrics["kv_transferred_bytes"] / prompts
    assert less.metrics["kv_transferred_bytes"] == pytest.approx(each * (prompts - 400))
    assert less.metrics["kv_reused_share"] == 400 / prompts
    assert "kv_reused_share" not in whole.metrics


def test_runs_with_reuse_are_bit_identical_to_steps() -> None:
    talk = {
        "arrivals": {"kind": "poisson", "rate": "100 req/s"},
        "sessions": {"turns": 4, "think_time": "20 ms"},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": 100},
    }
    split = {"decode_prefix_caching": True, "decode_router": "prefix_affinity", "decode_replicas": 2}
    crowded = {"prefix_caching": True, "num_gpu_blocks_override": 90, "block_size": 16}
    runs, steps = (
        simulate(config(gpus=3, split=split, serving={**crowded, "stepping": each}, workload=talk))
        for each in (False, True)
    )
    assert timeless(runs) == timeless(steps)
    assert runs.metrics["kv_transferred_bytes"] == steps.metrics["kv_transferred_bytes"]
    assert runs.metrics["kv_reused_share"] == steps.metrics["kv_reused_share"] > 0.1


@pytest.mark.parametrize(
    ("split", "serving", "path", "word"),
    [
        ({"decode_router": "prefix_affinity"}, {}, "decode_router", "decode replicas have none"),
        ({"decode_prefix_caching": True}, {"prefix_caching": False}, "decode_prefix_caching", "prefix caching is off"),
    ],
)
def test_reuse_needs_prefix_caching(split: dict[str, Any], serving: dict[str, Any], path: str, word: str) -> None:
    given = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 2},
        model={"name": "GPT2-Small"},
        serving={"disaggregated": {**ONE_EACH, **split}, **serving},
        workload={**TURNS},
    )
    (problem,) = check_config(given)
    assert problem.path == f"serving.disaggregated.{path}"
    assert word in problem.message


def test_decode_replicas_begin_where_none_spans_two_nodes() -> None:
    given = config(**CASES["a node of their own"])
    job = build_job(given)
    assert isinstance(job, ServingJob)
    assert [group.ranks for pool in job.pools for group in pool.teams(0)] == [(0, 1), (4, 5, 6, 7)]
    found = Findings(unlocated({}))
    assert assemble(given, found)
    assert [warning.message for warning in found.warnings if "no replica" in warning.message] == [
        "2 of 8 GPUs have no replica; costs leave them out"
    ]


@pytest.mark.parametrize(("nodes", "needed"), [(1, 8), (3, 8)])
def test_gpus_of_too_few_or_too_many_nodes_are_refused(nodes: int, needed: int) -> None:
    with pytest.raises(AssertionError, match=f"need {needed} GPUs.*, there are {4 * nodes}"):
        config(**{**CASES["a node of their own"], "nodes": nodes})
