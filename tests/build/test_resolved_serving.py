"""What engines set where their users set nothing: by engine, release, GPU and context, and it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check.scenario import check_config, check_file
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import load_engine, profile_names
from simsys.errors import ConfigError, InfeasibleError
from simsys.simulation import simulate

GIB = 2**30
WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 16, "num_requests": 4}
SERVERS = ["lmdeploy", "sglang", "tensorrt-llm", "tensorrt-llm-cpp", "vllm", "vllm-v0"]


def scenario(gpu: Any = "H100", model: str = "Llama3-8B", workload: Any = None, **serving: Any) -> SimulationConfig:
    hardware = {"gpu": gpu, "gpus_per_node": 1}
    whole = {"hardware": hardware, "model": {"name": model}, "serving": serving, "workload": workload or WORKLOAD}
    return SimulationConfig.model_validate(whole)


def job(*given: Any, **serving: Any) -> ServingJob:
    made = build_job(scenario(*given, **serving))
    assert isinstance(made, ServingJob)
    return made


@pytest.mark.parametrize(
    ("gpu", "engine", "tokens", "sequences"),
    [
        ("H100", "vllm", 8192, 1024),
        ("B200", "vllm", 8192, 1024),
        ("MI300X", "vllm", 8192, 1024),
        ("A100", "vllm", 2048, 256),  # though of 80 GB
        ("L40S", "vllm", 2048, 256),
        ("H100", "sglang", 8192, 2048),
        ("B200", "sglang", 16384, 2048),
        ("L40S", "sglang", 4096, 2048),
        ("L4", "sglang", 2048, 2048),
        ("H100", "tensorrt-llm", 8192, 2048),
    ],
)
def test_a_step_is_as_large_as_the_engine_makes_it_on_a_gpu(
    gpu: str, engine: str, tokens: int, sequences: int
) -> None:
    settings = job(gpu, engine=engine).settings
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (tokens, sequences)


@pytest.mark.parametrize(
    ("gpu", "release", "sequences"),
    [
        ("H100", None, 1024),
        ("H200", None, 1024),
        ("GH200-96GB", None, 1024),
        ("A100", None, 384),
        ("A100-PCIE", None, 384),
        ("B200", None, 128),
        ("L40S", None, 128),
        ("H100", "0.9.2", 512),
        ("H200", "0.9.2", 128),
        ("A100", "0.6.0", 256),
        ("H100", "0.5.3", 128),
        ("A100", "0.2.0", 128),
    ],
)
def test_lmdeploy_sets_its_batch_by_the_name_of_the_gpu_and_the_release(
    gpu: str, release: str | None, sequences: int
) -> None:
    assert job(gpu, engine="lmdeploy", engine_release=release).settings.max_num_seqs == sequences


def test_a_default_for_some_gpus_says_for_which() -> None:
    used = job("A100", engine="lmdeploy").settings.used
    assert used["max_num_seqs"].source == "default of lmdeploy 0.10 (from 0.10 on, GPUs A100, A800)"


@pytest.mark.parametrize(("release", "sequences"), [("0.11", 256), ("0.13", 256), ("0.14", 2048), (None, 2048)])
def test_the_batch_of_compiled_engines_grew_with_release_0_14(release: str | None, sequences: int) -> None:
    assert job(engine="tensorrt-llm-cpp", engine_release=release).settings.max_num_seqs == sequences


@pytest.mark.parametrize(
    ("release", "reserves", "beside", "share"),
    [("0.9.2", False, False, 0.9), ("0.14", False, True, 0.9), (None, True, True, 0.92)],
)
def test_releases_differ(release: str | None, reserves: bool, beside: bool, share: float) -> None:
    settings = job(engine_release=release).settings
    assert settings.scheduler_reserve_full_isl == reserves
    assert settings.async_scheduling == beside
    assert settings.gpu_memory_utilization == share


def test_a_profile_is_of_some_releases_alone() -> None:
    (problem,) = check_config(scenario(engine_release="0.6.3"))
    assert problem.path == "serving.engine_release"
    assert "vllm is of releases from 0.8 on, not of 0.6.3" in problem.message
    assert check_config(scenario(engine="vllm-v0", engine_release="0.6.3")) == []
    (problem,) = check_config(scenario(engine="gpt-fast", engine_release="0.6.3"))
    assert "the profile of gpt-fast does not differ by release; remove engine_release" in problem.message


def test_a_release_that_yaml_takes_for_a_number_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(
        "hardware: {gpu: H100}\nmodel: {name: Llama3-8B}\nserving: {engine_release: 0.20}\n"
        "workload: {arrivals: {kind: all_at_once}, prompt_tokens: 8, output_tokens: 8, num_requests: 1}\n"
    )
    with pytest.raises(ConfigError, match=r"3:27: serving\.engine_release: "):
        check_file(file)


def test_the_first_engine_of_vllm_has_room_for_the_longest_prompt_unless_it_cuts_prompts() -> None:
    short, long = job("H100", engine="vllm-v0").settings, job("H100", "Llama-3.1-8B", engine="vllm-v0").settings
    assert (short.scheduler, short.max_num_batched_tokens) == ("vllm_v0", 8192)
    assert (long.scheduler, long.max_num_batched_tokens) == ("chunked_prefill", 2048)
    assert job("H100", engine="vllm-v0", max_model_len=4096).settings.max_num_batched_tokens == 4096
    assert not short.prefix_caching


def test_what_is_written_counts() -> None:
    written = {
        "scheduler": "orca",
        "max_num_seqs": 7,
        "max_num_batched_tokens": 999,
        "block_size": 8,
        "prefix_caching": False,
        "scheduler_reserve_full_isl": False,
        "async_scheduling": False,
        "gpu_memory_utilization": 0.5,
    }
    for engine in SERVERS:
        settings = job(engine=engine, **written).settings
        assert {name: getattr(settings, name) for name in written} == written
        assert settings.used == {}


def test_sequences_that_are_not_written_fit_into_the_tokens_of_a_step() -> None:
    assert job(max_num_batched_tokens=100).settings.max_num_seqs == 100
    drafted = {"draft_tokens": 3, "acceptance_rate": 0.7}
    settings = job(max_num_batched_tokens=400, speculative=drafted).settings
    assert settings.max_num_seqs == 100
    assert settings.used["max_num_seqs"].source == "default of vllm 0.22 (1024, lowered to the tokens of a step)"


def test_sequences_that_are_written_and_do_not_fit_are_refused_with_where_the_tokens_come_from() -> None:
    (problem,) = check_config(scenario("A100", max_num_seqs=4096))
    assert problem.path == "serving.max_num_seqs"
    assert "max_num_batched_tokens (2048) must be at least max_num_seqs (4096)" in problem.message
    assert "max_num_batched_tokens is default of vllm 0.22" in problem.message
    assert check_config(scenario("H100", max_num_seqs=4096)) == []


# --- the size of the cache ----------------------------------------------------------------------------------------


def test_blocks_can_be_written() -> None:
    made = job(num_gpu_blocks_override=123)
    assert made.num_blocks == 123
    assert made.memory_bytes["kv_cache"] == 123 * made.block_bytes(0)
    assert "KV cache: 123 blocks of 16 tokens per replica, set by num_gpu_blocks_override" in "\n".join(
        made.assumptions()
    )


def test_bytes_of_the_cache_can_be_written() -> None:
    made = job(kv_cache_memory_bytes="10 GiB")
    assert made.num_blocks == int(10 * GIB // made.block_bytes(0))


def test_the_cache_is_a_share_of_what_all_else_leaves_free() -> None:
    made = job(engine="tensorrt-llm")
    room = 0.9 * (made.cluster.smallest.memory_bytes - sum(made.fixed_bytes.values()))
    assert made.num_blocks == int(room // made.block_bytes(0))
    assert made.settings.block_size == 32
    half = job(engine="vllm", free_gpu_memory_fraction=0.5)
    assert half.num_blocks == int(
        (half.cluster.smallest.memory_bytes - sum(half.fixed_bytes.values())) / 2 // half.block_bytes(0)
    )


@pytest.mark.parametrize("given", [{"num_gpu_blocks_override": 10**6}, {"kv_cache_memory_bytes": "70 GiB"}])
def test_a_cache_beyond_memory_does_not_fit(given: dict[str, Any]) -> None:
    made = job(**given)
    with pytest.raises(InfeasibleError, match="does not fit"):
        _ = made.num_blocks
    (problem,) = check_config(scenario(**given))
    assert f", but {next(iter(given))} asks for " in problem.message


def test_as_many_blocks_as_fit_are_a_suggestion() -> None:
    (problem,) = check_config(scenario(num_gpu_blocks_override=10**6))
    first = problem.fixes[0].edits["serving.num_gpu_blocks_override"]
    assert check_config(scenario(num_gpu_blocks_override=first)) == []
    assert check_config(scenario(num_gpu_blocks_override=first + 1)) != []


def test_a_written_size_of_the_cache_is_not_bound_by_the_share() -> None:
    """As in vLLM, which ignores `gpu_memory_utilization` where `kv_cache_memory_bytes` is written."""
    made = job(kv_cache_memory_bytes="60 GiB")
    fixed = sum(made.fixed_bytes.values())
    memory_bytes = made.cluster.smallest.memory_bytes
    assert 0.9 * memory_bytes < fixed + 60 * GIB < memory_bytes
    assert made.num_blocks == int(60 * GIB // made.block_bytes(0))


def test_a_written_size_of_the_cache_gets_no_warning_of_the_share() -> None:
    """The default share of the engine sizes nothing there."""
    large: dict[str, Any] = {"engine": "sglang", "max_num_batched_tokens": 600_000}
    for given, warned in ({"num_gpu_blocks_override": 1000}, False), ({}, True):
        paths = [problem.path for problem in job(**large, **given).warnings()]
        assert ("serving.gpu_memory_utilization" in paths) == warned


def test_the_size_is_said_once() -> None:
    with pytest.raises(ValueError, match="not by gpu_memory_utilization and num_gpu_blocks_override; keep one"):
        scenario(num_gpu_blocks_override=100, gpu_memory_utilization=0.5)


# --- what is said -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", SERVERS)
def test_every_default_is_said_with_where_it_comes_from(engine: str) -> None:
    result = simulate(scenario(engine=engine))
    made = job(engine=engine)
    (line,) = [text for text in result.assumptions if text.startswith(f"default of {engine} ")]
    told = result.as_dict()["defaults"]
    assert {"max_num_seqs", "max_num_batched_tokens", "block_size", "prefix_caching", "scheduler"} <= told.keys()
    for name, each in told.items():
        assert each["value"] == getattr(made.settings, name)
        assert each["from"].startswith(f"default of {engine} ")
        assert f"{name} " in line
    assert result.as_dict()["assumptions"] == list(result.assumptions)


def test_conditions_are_said() -> None:
    text = "\n".join(job().assumptions())
    assert "max_num_batched_tokens 8192 (GPUs of 70 GiB or more but A100)" in text
    assert "max_num_batched_tokens 2048 (not GPUs of 70 GiB or more but A100)" in "\n".join(job("A100").assumptions())
    assert "assumed for gpt-fast, which states none: " in "\n".join(job(engine="gpt-fast").assumptions())


def test_every_server_states_its_defaults() -> None:
    assert {name for name in profile_names("engine") if load_engine(name).defaults is not None} == set(SERVERS)


# --- full prompts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_prompts_that_do_not_fit_wait_instead_of_preempting(lod: str) -> None:
    """Three prompts of 6,000 tokens into a cache for two."""
    workload = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 6000, "output_tokens": 200, "num_requests": 3}
    given = {"max_num_batched_tokens": 2048, "max_num_seqs": 256, "num_gpu_blocks_override": 1000}
    found = {}
    for reserves in (True, False):
        config = scenario(workload=workload, scheduler_reserve_full_isl=reserves, prefix_caching=False, **given)
        config = config.model_copy(update={"simulation": config.simulation.model_copy(update={"lod": lod})})
        found[reserves] = simulate(config).metrics
    assert found[True]["preemptions"] == 0
    assert found[False]["preemptions"] > 0
    assert found[True]["duration"] < found[False]["duration"]
