"""Images in prompts: times are those of theory, levels and stepping agree, and what is not modelled is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.costs.pass_cost import PassCost
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.model.batch import Batch, attention_pairs
from simsys.simulation import simulate
from tests.helpers.published_configs import GEMMA_3_27B, KIMI_K2_5, LLAVA_1_5_7B, QWEN2_5_VL_7B

ONE = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 100, "output_tokens": 1, "num_requests": 1}
IMAGE = {"size": "560x560"}  # 400 tokens of the encoder, 402 of the prompt

TOWER = QWEN2_5_VL_7B["vision_config"] | {"depth": 4, "fullatt_block_indexes": [3]}
SMALL = QWEN2_5_VL_7B | {"num_hidden_layers": 2, "vision_config": TOWER}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    models = {"qwen": QWEN2_5_VL_7B, "gemma": GEMMA_3_27B, "llava": LLAVA_1_5_7B, "kimi": KIMI_K2_5, "small": SMALL}
    for name, model in models.items():
        (made / f"{name}.json").write_text(json.dumps(model), encoding="utf-8")
    return made


def config(
    folder: Path,
    images: dict[str, Any] | None = IMAGE,
    *,
    model: str = "qwen.json",
    workload: dict[str, Any] = ONE,
    lod: str = "medium",
    gpus: int = 1,
    parallelism: dict[str, Any] | None = None,
    simulation: dict[str, Any] | None = None,
    **serving: Any,
) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": "H100-SXM", "gpus_per_node": gpus},
        model={"huggingface": model} if model.endswith("json") else {"name": model},
        parallelism=parallelism or {},
        serving=serving,
        workload={**workload, **({} if images is None else {"images": images})},
        simulation={"lod": lod, **(simulation or {})},
    ).located_in(folder)


def ttft_s(result: RunResult, request: int = 0) -> float:
    return float(result.rows["first_token_s"][request] - result.rows["arrival_s"][request])


def expected_s(given: SimulationConfig, images: int, tokens: int) -> tuple[float, float]:
    """Times of a pass of the encoder and of a whole prompt on one GPU, from the costs of kernels."""
    job = build_job(given)
    assert isinstance(job, ServingJob)
    assert job.encoder is not None
    model = job.execution_model()
    costs = [
        PassCost(plan, job.cluster.spec, model.precision, model.per_layer_s, lambda kind, nbytes: 0.0, model.launches)
        for plan in (job.encoder.plan, job.plan)
    ]
    prompt = Batch(tokens, 1, attention_pairs(tokens))
    encoder_s, prompt_s = (
        sum(cost.seconds(batch)) for cost, batch in zip(costs, (job.encoder.batch(images), prompt), strict=True)
    )
    host_s = (job.engine.per_step + job.engine.per_sequence) / job.cluster.spec.host_speed
    return encoder_s, job.api_s + host_s + prompt_s


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize("model", ["qwen.json", "gemma.json", "llava.json"])
@pytest.mark.parametrize("images", [1, 3])
def test_the_first_token_takes_the_encoder_and_a_prompt_of_text_and_images(
    folder: Path, lod: str, model: str, images: int
) -> None:
    shown = {"size": "560x560", "per_request": images}
    made = config(folder, shown, model=model, lod=lod, async_scheduling=False)
    job, result = build_job(made), simulate(made)
    assert isinstance(job, ServingJob)
    assert job.encoder is not None
    tokens = 100 + images * job.encoder.image.prompt_tokens
    assert result.rows["prompt_tokens"] == [tokens]
    encoder_s, rest_s = expected_s(made, images, tokens)
    assert ttft_s(result) == pytest.approx(encoder_s + rest_s, rel=1e-12)
    metrics = result.metrics
    assert metrics["image_tokens"] == tokens - 100
    assert metrics["images_encoded"] == images
    assert metrics["encoder_cache_hit_rate"] == 0.0
    assert metrics["mean_encoder_pass_ms"] == pytest.approx(1e3 * encoder_s)
    assert metrics["encoder_time_share"] == pytest.approx(encoder_s / metrics["duration"])


def test_an_image_that_was_sent_before_is_not_encoded_again(folder: Path) -> None:
    twice = {**ONE, "arrivals": {"kind": "constant", "rate": "1 req/s"}, "num_requests": 2}
    again = {"size": "560x560", "reuse": 0.999999}
    made = config(folder, again, workload=twice, async_scheduling=False)
    result = simulate(made)
    encoder_s, rest_s = expected_s(made, 1, 502)
    assert ttft_s(result) == pytest.approx(encoder_s + rest_s, rel=1e-12)
    assert ttft_s(result, 1) == pytest.approx(rest_s, rel=1e-9)
    assert result.metrics["encoder_cache_hit_rate"] == 0.5
    assert result.metrics["images_encoded"] == 1


def test_a_chunk_ends_before_an_image_that_exceeds_the_budget_of_the_step(folder: Path) -> None:
    """Of three images, one is encoded in each step: four steps, the first with the text and an image."""
    limits = {"max_num_encoder_input_tokens": 799, "encoder_cache_size": 400}
    made = config(folder, {**IMAGE, "per_request": 3}, multimodal=limits)
    metrics = simulate(made).metrics
    assert metrics["steps"] == 3
    assert metrics["images_encoded"] == 3
    one = simulate(config(folder, {**IMAGE, "per_request": 3})).metrics
    assert one["steps"] == 1
    assert metrics["mean_encoder_pass_ms"] < one["mean_encoder_pass_ms"] < 3 * metrics["mean_encoder_pass_ms"]


def test_ranks_divide_the_weights_of_an_encoder_or_its_images(folder: Path) -> None:
    tensor: dict[str, Any] = {"gpus": 4, "parallelism": {"strategy": "TP", "tp_degree": 4}}
    four = {**IMAGE, "per_request": 4}
    alone = simulate(config(folder, four)).metrics["mean_encoder_pass_ms"]
    jobs, times = {}, {}
    for mode in ("weights", "data"):
        made = config(folder, four, multimodal={"mm_encoder_tp_mode": mode}, **tensor)
        jobs[mode], times[mode] = build_job(made), simulate(made).metrics["mean_encoder_pass_ms"]
    assert times["data"] < times["weights"] < alone
    weights = {mode: job.memory_bytes["weights"] for mode, job in jobs.items() if isinstance(job, ServingJob)}
    assert weights["data"] - weights["weights"] == pytest.approx(0.75 * 2 * 676_550_144, rel=0.02)
    single = simulate(config(folder, IMAGE, multimodal={"mm_encoder_tp_mode": "data"}, **tensor)).metrics
    assert single["mean_encoder_pass_ms"] == pytest.approx(times["data"], rel=0.01)


def test_the_encoder_cache_takes_room_from_the_kv_cache(folder: Path) -> None:
    made = config(folder, multimodal={"encoder_cache_size": 20_000})
    job = build_job(made)
    assert isinstance(job, ServingJob)
    assert job.memory_bytes["encoder_cache"] == 20_000 * 3584 * 2


def test_a_share_of_requests_has_images_and_some_repeat_them(folder: Path) -> None:
    many = {**ONE, "num_requests": 2000}
    job = build_job(config(folder, {"tokens": 100, "share": 0.25, "reuse": 0.6, "per_request": 2}, workload=many))
    assert isinstance(job, ServingJob)
    images = job.requests.images
    assert sum(map(bool, images)) == pytest.approx(500, rel=0.1)
    sent = [image for each in images for image in each]
    assert len(set(sent)) == pytest.approx(0.4 * len(sent), rel=0.1)
    with_them = zip(job.requests.prompt_tokens, images, strict=True)
    assert all(tokens == 100 + 102 * len(each) for tokens, each in with_them)


def random_scenario(seed: int) -> dict[str, Any]:
    """Small caches and budgets, and engines of all kinds that take images."""
    rng = random.Random(seed)
    workload: dict[str, Any] = {
        "arrivals": {"kind": "poisson", "rate": rng.choice(["400 req/s", "20 req/s"])},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": rng.choice([60, 400])},
        "output_tokens": {"kind": "uniform", "low": 1, "high": rng.choice([3, 60])},
        "num_requests": 40,
        **rng.choice([{}, {}, {"prefixes": {"groups": 3, "tokens": 130}}]),
        **rng.choice([{}, {}, {"cancellation": {"timeout": "150 ms"}}]),
        **rng.choice([{}, {"priorities": {0: 1, 1: 1}}]),
    }
    images = {
        "tokens": rng.choice([64, 200, 400]),
        "per_request": rng.choice([1, {"kind": "uniform", "low": 1, "high": 4}]),
        "share": rng.choice([1.0, 0.5]),
        "reuse": rng.choice([0.0, 0.5, 0.9]),
    }
    most = images["tokens"] * rng.choice([1, 2, 5])
    shape = rng.choice([{}, {}, {"tensor": 2}, {"pools": {}}])
    blocks = rng.choice([150, 400, 4000])
    pools = {"prefill_replicas": 1, "decode_replicas": 1, "transfer": rng.choice(["after_prefill", "layerwise"])}
    return {
        "model": "small.json",
        "images": images,
        "workload": workload,
        "gpus": 2,
        "parallelism": {"strategy": "TP", "tp_degree": 2} if "tensor" in shape else None,
        "simulation": {"seed": seed, **rng.choice([{}, {}, {"duration": "200 ms"}])},
        "num_gpu_blocks_override": blocks,
        "scheduler": rng.choice(["chunked_prefill", "chunked_prefill", "priority"]),
        "max_num_seqs": rng.choice([2, 16]),
        "max_num_batched_tokens": rng.choice([64, 300, 2048]),
        "prefix_caching": rng.random() < 0.5,
        "router": rng.choice(["round_robin", "least_outstanding", "central_queue"]),
        "async_scheduling": rng.random() < 0.5,
        "multimodal": {
            "max_num_encoder_input_tokens": most,
            "encoder_cache_size": images["tokens"] * rng.choice([1, 2, 10]),
            "mm_encoder_tp_mode": rng.choice(["weights", "data"]),
        },
        **rng.choice([{}, {}, {"speculative": {"draft_tokens": 1, "acceptance_rate": 0.5}}]),
        **({"disaggregated": pools} if "pools" in shape else {}),
    }


def check_agreement(folder: Path, seed: int) -> bool:
    """Whether a random scenario is allowed; then its runs, its single steps and high agree."""
    given = random_scenario(seed)
    if check_config(config(folder, **given)):
        return False
    runs, steps, high = (
        simulate(config(folder, **given, **{"lod": lod, "stepping": stepping}))
        for lod, stepping in (("medium", False), ("medium", True), ("high", False))
    )
    for name in ("admitted_s", "first_token_s", "finished_s", "preemptions"):
        assert list(runs.rows[name]) == list(steps.rows[name])
        times, exact = ([-1.0 if each is None else each for each in run.rows[name]] for run in (high, runs))
        assert times == pytest.approx(exact, rel=1e-9)
    of_images = ("image_tokens", "images_encoded", "encoder_cache_hit_rate", "encoder_time_share")
    assert [runs.metrics[name] for name in of_images] == [steps.metrics[name] for name in of_images]
    log = runs.requests
    assert log is not None
    if runs.metrics["in_flight"] == 0:
        assert all(cache.free_blocks == cache.num_blocks for cache in log.caches.values())
    if runs.metrics["in_flight"] == runs.metrics["failed"] == 0:
        decode_s = [end - first for end, first in zip(log.finished_s, log.first_token_s, strict=True)]
        each = gaps_by_request(log)
        assert each is None or [sum(gaps) for gaps in each] == pytest.approx(decode_s)
    return True


few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@few
@given(seed=st.integers(0, 100_000))
def test_runs_are_bit_identical_to_steps_and_levels_agree(folder: Path, seed: int) -> None:
    check_agreement(folder, seed)


@pytest.mark.slow
@settings(few, max_examples=200)
@given(seed=st.integers(0, 100_000))
def test_they_are_and_agree_in_many_more(folder: Path, seed: int) -> None:
    check_agreement(folder, seed)


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "no tower": ({"model": "Llama3-8B"}, "workload.images", "Llama3-8B has no vision encoder; images need a model"),
    "unknown processor": ({"model": "kimi.json", "gpus": 8}, "workload.images", "kimi has no vision encoder"),
    "engine": ({"engine": "sglang"}, "workload.images", "images by sglang is not modelled, that of vllm is"),
    "scheduler": ({"scheduler": "orca"}, "workload.images", "images need scheduler: chunked_prefill or priority"),
    "budget": (
        {"multimodal": {"max_num_encoder_input_tokens": 399}},
        "serving.multimodal.max_num_encoder_input_tokens",
        "must hold at least one image of 400 tokens, not 399",
    ),
    "cache": (
        {"multimodal": {"encoder_cache_size": 1}},
        "serving.multimodal.encoder_cache_size",
        "must hold at least one image of 400 tokens, not 1",
    ),
    "heads": (
        {"gpus": 32, "parallelism": {"strategy": "TP", "tp_degree": 28}},
        "serving.multimodal.mm_encoder_tp_mode",
        "28 ranks cannot divide the 16 heads of the encoder",
    ),
    "tokens": (
        {"model": "gemma.json", "images": {"tokens": 300}},
        "workload.images.tokens",
        "every image becomes 256 tokens in this model, not 300",
    ),
    "sides": ({"images": {"size": "10x4000"}}, "workload.images.size", "may differ by a factor of 200"),
    "context": (
        {"max_model_len": 300},
        "workload.images.size",
        "an image has 402 tokens of the prompt, the context is 300; write a smaller image",
    ),
    "stages": ({"gpus": 2, "parallelism": {"pp_stages": 2}}, "parallelism.pp_stages", "with images is not modelled"),
    "swap": ({"preemption": "swap"}, "serving.preemption", "preemption with images is not modelled"),
    "tiers": (
        {"kv_tiers": [{"kind": "cpu", "capacity": "10 GB", "read_bandwidth": "50 GB/s"}]},
        "serving.kv_tiers",
        "images is not available",
    ),
    "no images": ({"images": None, "multimodal": {}}, "serving.multimodal", "no effect without workload.images"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_modelled_is_refused_at_its_setting(folder: Path, name: str) -> None:
    given, path, message = BAD[name]
    found = [(each.path, each.message) for each in check_config(config(folder, **given))]
    assert [each for each in found if each[0] == path and message in each[1]], found


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ({}, "give either the size of the images"),
        ({"size": "100x100", "tokens": 10}, "give either the size of the images"),
        ({"size": "100"}, "size must be width x height in pixels"),
        ({"size": "100x20000"}, "sides of an image have at most 16384 pixels"),
        ({"size": "100x100", "reuse": 1.0}, "less than 1"),
    ],
)
def test_wrong_images_are_refused(folder: Path, images: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(folder, images)


def test_conversations_have_no_images(folder: Path) -> None:
    with pytest.raises(ValueError, match="images in conversations are not modelled"):
        config(folder, workload={**ONE, "sessions": {"turns": 2}})


def test_traces_of_conversations_have_no_images(folder: Path) -> None:
    trace = folder / "trace.jsonl"
    rows = [{"session_id": "a", "timestamp": each, "input_length": 100, "output_length": 5} for each in (0, 1000)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = config(folder, workload={"trace": "trace.jsonl"})
    found = [(each.path, each.message) for each in check_config(made)]
    assert found
    assert found[0][0] == "workload.images"
