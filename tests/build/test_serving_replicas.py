"""Disaggregation and autoscaling from the experiment file to the result, and settings that do not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleConfigError, UsageError
from simsys.metrics.result import RunResult
from simsys.parallel.serving_memory import kv_bytes_per_token
from simsys.report.export import write_results
from simsys.simulation import simulate
from tests.config.test_serving_options import problems

WORKLOAD: dict[str, Any] = {
    "arrivals": {"kind": "poisson", "rate": "20 req/s"},
    "prompt_tokens": 1024,
    "output_tokens": 64,
    "num_requests": 60,
}


def scenario(lod: str = "medium", tensor: int = 1, **sections: Any) -> SimulationConfig:
    given: dict[str, Any] = {
        "hardware": {"gpu": "A100", "gpus_per_node": 4},
        "model": {"name": "Llama3-8B"},
        "parallelism": {"tp_degree": tensor},
        "workload": WORKLOAD,
        "simulation": {"lod": lod},
        **sections,
    }
    return SimulationConfig(**given)


def disaggregated(lod: str = "medium", tensor: int = 1, rate: str = "20 req/s", **simulation: Any) -> RunResult:
    each = 4 // tensor // 2
    serving = {"disaggregated": {"prefill_replicas": each, "decode_replicas": each}}
    workload = {**WORKLOAD, "arrivals": {"kind": "poisson", "rate": rate}}
    sections = {"serving": serving, "workload": workload, "simulation": {"lod": lod, **simulation}}
    return simulate(scenario(lod, tensor, **sections))


@pytest.mark.parametrize("tensor", [1, 2])
def test_every_cache_is_sent_once_and_counted(tensor: int) -> None:
    found = disaggregated(tensor=tensor, occupy_links=False)
    job = build_job(scenario(tensor=tensor, serving={}))
    token_bytes = tensor * kv_bytes_per_token(job.plan, job.precision)
    assert token_bytes == 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, their size, bf16
    assert found.metrics["completed"] == 60
    assert found.metrics["kv_transferred_bytes"] == 60 * 1024 * token_bytes
    # NVLink 3: 300 GB/s in each direction, of which each rank has its share of the cache to send
    assert found.metrics["mean_kv_transfer_ms"] == pytest.approx(1024 * token_bytes / tensor / 300e9 * 1e3, rel=0.02)
    assert any("disaggregated" in line for line in found.assumptions)


def test_the_levels_agree_where_only_caches_are_on_the_links() -> None:
    """Prompts that end with the same step send their caches at once, which share the links of their replica."""
    rate = "30 req/s"
    high, medium, idle = (
        disaggregated("high", rate=rate),
        disaggregated(rate=rate),
        disaggregated(rate=rate, occupy_links=False),
    )
    for name in ("finished_s", "first_token_s", "admitted_s"):
        assert high.rows[name] == pytest.approx(medium.rows[name], rel=1e-9)
    name = "mean_kv_transfer_ms"
    assert high.metrics[name] == pytest.approx(medium.metrics[name], rel=1e-9)
    assert high.metrics[name] > 1.05 * idle.metrics[name]


def test_where_collectives_meet_caches_high_and_occupied_links_are_near() -> None:
    high, occupied, idle = (
        disaggregated(lod, 2, occupy_links=occupy).metrics
        for lod, occupy in (("high", "auto"), ("medium", True), ("medium", False))
    )
    for name in ("mean_tpot_ms", "mean_e2el_ms", "duration"):
        assert occupied[name] == pytest.approx(high[name], rel=0.01)
    assert high["mean_kv_transfer_ms"] > 1.01 * idle["mean_kv_transfer_ms"]


def test_prompts_no_longer_interrupt_tokens() -> None:
    """The point of disaggregation (Zhong et al. 2024, section 2.3)."""
    together, apart = simulate(scenario(serving={})).metrics, disaggregated().metrics
    assert apart["p99_itl_ms"] < together["p99_itl_ms"]
    assert apart["p99_tpot_ms"] < together["p99_tpot_ms"]


def scaled(**given: Any) -> RunResult:
    settings = {"scale_up_queue": 1, "scale_down_idle": "2 s", "startup": "1 s", "interval": "500 ms", **given}
    return simulate(scenario(serving={"autoscaling": settings, "max_num_seqs": 8}))


def test_gpu_seconds_are_the_area_under_the_replicas_that_are_paid_for() -> None:
    found = scaled()
    changes, end_s = found.replica_changes, found.metrics["duration"]
    assert changes["paid"][0] == 1
    assert max(changes["active"]) > 1
    ends_s = [*changes["time_s"][1:], end_s]
    spans = zip(changes["time_s"], ends_s, changes["paid"], strict=True)
    assert found.metrics["gpu_seconds"] == pytest.approx(sum((end - start) * paid for start, end, paid in spans))
    assert end_s < found.metrics["gpu_seconds"] < 4 * end_s


def test_the_changes_are_written_beside_the_requests(tmp_path: Path) -> None:
    config = scenario(serving={})
    write_results(config, scaled(), tmp_path)
    (file,) = tmp_path.rglob("*_replicas.csv")
    header, *lines = file.read_text(encoding="utf-8").splitlines()
    assert header == "time_s,active,paid"
    assert lines[0] == "0.0,1,1"
    write_results(config, disaggregated(), tmp_path / "fixed")
    assert not list((tmp_path / "fixed").rglob("*_replicas.csv"))


def test_several_jobs_share_the_links_of_caches() -> None:
    """The job that has the second half of the cluster numbers its GPUs from 0 too."""
    split = {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}}
    jobs = [{"name": name, "gpus": 2} for name in ("one", "other")]
    found = {lod: simulate(scenario(lod, serving=split, jobs=jobs)).jobs for lod in ("high", "medium")}
    for high, medium in zip(found["high"], found["medium"], strict=True):
        assert medium.metrics["completed"] == 60
        assert medium.rows["finished_s"] == pytest.approx(high.rows["finished_s"], rel=1e-9)


@pytest.mark.parametrize("lod", ["high", "medium"])
def test_caches_take_longer_over_links_that_are_weak(lod: str) -> None:
    weak = {"degradations": [{"links": {"nodes": [0]}, "from": "1 s", "bandwidth": 0.1}]}
    serving = {"disaggregated": {"prefill_replicas": 2, "decode_replicas": 2}}
    slow, fast = (
        simulate(scenario(lod, serving=serving, network=network)).metrics["mean_kv_transfer_ms"]
        for network in (weak, {})
    )
    assert 5 * fast < slow < 10 * fast


def test_a_replica_of_several_gpus_is_paid_for_whole() -> None:
    config = scenario(tensor=2, serving={"autoscaling": {"min_replicas": 2}})
    found = simulate(config).metrics
    assert found["gpu_seconds"] == pytest.approx(4 * found["duration"])


def test_a_pipeline_is_on_or_off_as_a_whole() -> None:
    parallelism = {"tp_degree": 1, "pp_stages": 2}
    fixed, plain = (
        simulate(scenario(parallelism=parallelism, serving=serving))
        for serving in ({"autoscaling": {"min_replicas": 2}}, {})
    )
    assert fixed.rows == plain.rows
    one = simulate(scenario(parallelism=parallelism, serving={"autoscaling": {"max_replicas": 1}}))
    assert one.metrics["completed"] == 60
    assert [used > 0.0 for used in one.gpus["utilization"]] == [True, True, False, False]


GOOD = [
    "disaggregated: {prefill_replicas: 3, decode_replicas: 1}",
    "disaggregated: {prefill_replicas: 1, decode_replicas: 3, decode_router: round_robin}, scheduler: orca",
    "disaggregated: {prefill_replicas: 2, decode_replicas: 1, decode_tp_degree: 4}",
    "disaggregated: {prefill_replicas: 1, decode_replicas: 4, prefill_tp_degree: 4, decode_tp_degree: 1}",
    "disaggregated: {prefill_replicas: 2, decode_replicas: 2}, speculative: {draft_tokens: 2, acceptance_rate: 0.5}",
    "disaggregated: {prefill_replicas: 2, decode_replicas: 2}, prefix_caching: true, router: prefix_affinity",
    "disaggregated: {prefill_replicas: 2, decode_replicas: 2}, preemption: swap",
    "autoscaling: {}",
    "autoscaling: {min_replicas: 4}",
    "autoscaling: {min_replicas: 2, max_replicas: 3, scale_up_queue: 0.5, startup: 0 s, scale_down_idle: 0 s}",
]
BAD = [
    (
        "disaggregated: {prefill_replicas: 5, decode_replicas: 2}",
        "prefill_replicas 5 + decode_replicas 2 = 7, but the GPUs hold 4; write "
        "prefill_replicas: 3 and decode_replicas: 1",
    ),
    ("disaggregated: {prefill_replicas: 1, decode_replicas: 0}", "decode_replicas"),
    ("disaggregated: {prefill_replicas: 2}", "decode_replicas"),
    (
        "disaggregated: {prefill_replicas: 2, decode_replicas: 2, decode_scheduler: orca}",
        "scheduler orca fetches no KV caches; write decode_scheduler: disaggregated_decode",
    ),
    (
        "disaggregated: {prefill_replicas: 2, decode_replicas: 2, decode_router: least_kvv}",
        "unknown Router module 'least_kvv'",
    ),
    (
        "disaggregated: {prefill_replicas: 2, decode_replicas: 2}, autoscaling: {}",
        "disaggregated serving with autoscaling is not available, as it would have to weigh the two kinds of replicas",
    ),
    (
        "disaggregated: {prefill_replicas: 2, decode_replicas: 1, decode_tp_degree: 8}",
        "2 replicas x 2 GPUs + 1 x 8 need 16 GPUs, there are 8",
    ),
    (
        "disaggregated: {prefill_replicas: 2, decode_replicas: 2, prefill_tp_degree: 3}",
        "a cache on 3 GPUs cannot be sent to 2 in equal parts; use a multiple for one of them",
    ),
    (
        "disaggregated: {prefill_replicas: 2, decode_replicas: 2, decode_tp_degree: 0}",
        "serving.disaggregated.decode_tp_degree",
    ),
    (
        "autoscaling: {min_replicas: 3, max_replicas: 2}",
        "min_replicas (3) must not exceed max_replicas (2); write min_replicas: 2 or less",
    ),
    (
        "autoscaling: {max_replicas: 5}",
        "5 replicas need more GPUs than there are, which hold 4; write max_replicas: 4",
    ),
    ("autoscaling: {min_replicas: 0}", "min_replicas"),
    ("autoscaling: {startup: -1 s}", "startup"),
    ("autoscaling: {interval: 0 s}", "interval"),
    ("autoscaling: {interval: 1 us}", "interval must be at least 1 ms, not 1e-06 s"),
    ("autoscaling: {scale_up_queue: 0}", "scale_up_queue"),
    (
        "autoscaling: {}, router: central_queue",
        "router central_queue cannot be scaled; write router: ",
    ),
]
FOUR = {"profile": "dgx-h100", "model": "Llama3-8B", "parallelism": "tp_degree: 2"}


@pytest.mark.parametrize("serving", GOOD)
def test_what_fits_together_passes(tmp_path: Path, serving: str) -> None:
    assert problems(tmp_path, **FOUR, serving=serving) == []


@pytest.mark.parametrize(("serving", "message"), BAD)
def test_what_does_not_fit_is_named_once(tmp_path: Path, serving: str, message: str) -> None:
    (found,) = problems(tmp_path, **FOUR, serving=serving)
    assert message in found


def test_a_degree_that_does_not_divide_the_model_is_told_at_its_place(tmp_path: Path) -> None:
    given = FOUR | {"model": "GPT2-Small", "parallelism": "tp_degree: 1"}
    split = "disaggregated: {prefill_replicas: 3, decode_replicas: 1, decode_tp_degree: 5}"
    (found,) = problems(tmp_path, **given, serving=split)
    assert "serving.disaggregated.decode_tp_degree: GPT2-Small has 12 attention heads, which tp_degree 5" in found


def test_experts_of_each_kind_fit_its_degree(tmp_path: Path) -> None:
    given = FOUR | {"model": "Mixtral-8x7B", "parallelism": "tp_degree: 4, ep_degree: 4"}
    split = "disaggregated: {prefill_replicas: 1, decode_replicas: 2, decode_tp_degree: 2}"
    (found,) = problems(tmp_path, **given, serving=split)
    assert "decode_tp_degree: without attention_dp, ep_degree is 1 or tp_degree (2), not 4" in found
    assert problems(tmp_path, **given, serving=split.replace("}", ", decode_ep_degree: 2}")) == []


def test_the_kind_of_replica_that_does_not_fit_is_found(tmp_path: Path) -> None:
    given = FOUR | {"model": "Llama3-70B", "parallelism": "tp_degree: 4"}
    split = "disaggregated: {prefill_replicas: 1, decode_replicas: 4, decode_tp_degree: 1}"
    with pytest.raises(InfeasibleConfigError, match=r"Llama3-70B does not fit into H100-SXM: 135 GiB are needed"):
        problems(tmp_path, **given, serving=split)


def test_one_replica_cannot_be_disaggregated(tmp_path: Path) -> None:
    given = FOUR | {"parallelism": "tp_degree: 8"}
    (found,) = problems(tmp_path, **given, serving="disaggregated: {prefill_replicas: 1, decode_replicas: 1}")
    assert "but the GPUs hold 1, and disaggregation needs at least 2 replicas" in found


def test_advice_on_larger_replicas_says_how_many_are_left(tmp_path: Path) -> None:
    split = "disaggregated: {prefill_replicas: 4, decode_replicas: 4}"
    with pytest.raises(InfeasibleConfigError, match=r"does not fit into H100-SXM") as error:
        problems(tmp_path, model="Llama3-70B", parallelism="tp_degree: 1", serving=split)
    best, *others = [fix.edits for fix in error.value.problems[0].fixes]
    assert best == {
        f"serving.disaggregated.{pool}_{key}": 2 for pool in ("prefill", "decode") for key in ("tp_degree", "replicas")
    }
    assert {"serving.precision": "fp8"} in others


def test_what_was_not_checked_is_refused_when_it_is_built() -> None:
    with pytest.raises(UsageError, match="prefill_replicas 1 \\+ decode_replicas 1 = 2, but the GPUs hold 4"):
        build_job(scenario(serving={"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}}))
