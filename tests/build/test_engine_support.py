"""Engines run on the platforms that their profiles state; others are refused with the engines that do run there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.engine_support import GPUS_OF, alternatives, doubts, unsupported
from simsys.build.rules.engine import engines
from simsys.check import check_config, check_file
from simsys.config.hardware import load_engine, load_gpu, profile_names
from simsys.errors import ConfigError

WORK: dict[str, Any] = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 4, "output_tokens": 2, "num_requests": 1}


def serving(hardware: dict[str, Any], engine: str, **more: Any) -> SimulationConfig:
    settings = {"engine": engine, **more}
    return SimulationConfig(hardware=hardware, model={"name": "GPT2-Small"}, serving=settings, workload=WORK)


@pytest.mark.parametrize("name", profile_names("engine"))
def test_every_shipped_engine_says_where_it_runs_and_from_where_that_is_known(name: str) -> None:
    engine = load_engine(name)
    assert engine.platforms is not None
    assert {platform.lower() for platform in engine.platforms} <= set(GPUS_OF)
    assert engine.sources["platforms"]
    assert (engine.min_compute_capability is None) == ("min_compute_capability" not in engine.sources)


@pytest.mark.parametrize("name", profile_names("gpu"))
def test_every_shipped_gpu_has_a_platform_and_nvidias_have_a_compute_capability(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.software_platform in ("CUDA", "ROCm", "XPU", "Gaudi", "TPU", "Neuron")
    assert (gpu.software_platform == "CUDA") == (gpu.vendor == "NVIDIA") == (gpu.compute_capability is not None)


@pytest.mark.parametrize(
    ("engine", "gpu", "reason"),
    [
        ("vllm", "H100", ""),
        ("vllm", "MI300X", ""),
        ("vllm", "Gaudi2", ""),
        ("vllm", "V100", ""),
        ("sglang", "MI300X", ""),
        ("sglang", "Gaudi2", "sglang runs on NVIDIA GPUs, AMD GPUs and Intel GPUs, not on Gaudi2 of Intel (Gaudi)"),
        ("tensorrt-llm", "H100", ""),
        ("tensorrt-llm", "MI300X", "tensorrt-llm runs on NVIDIA GPUs, not on MI300X of AMD (ROCm)"),
        ("tensorrt-llm", "V100", "tensorrt-llm needs a compute capability of at least 8.0; V100-SXM-32GB has 7.0"),
        ("tensorrt-llm-cpp", "V100", ""),
        ("deepspeed", "MI250", ""),
        ("deepspeed", "Gaudi2", ""),
        ("megatron", "MI300X", ""),
        ("nemo", "MI300X", "nemo runs on NVIDIA GPUs, not on MI300X of AMD (ROCm)"),
        ("torchtitan", "MI300X", ""),
        ("pytorch-fsdp", "MI300X", ""),  # as PyTorch, which it extends
    ],
)
def test_engines_run_where_their_documentation_says(engine: str, gpu: str, reason: str) -> None:
    assert unsupported(load_engine(engine), load_gpu(gpu)) == reason


def test_an_engine_that_does_not_run_on_the_gpu_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(
        "hardware: {gpu: MI300X}\nmodel: {name: GPT2-Small}\nserving:\n  engine: tensorrt-llm\n"
        "workload: {arrivals: {kind: all_at_once}, prompt_tokens: 4, output_tokens: 2, num_requests: 1}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        check_file(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.path) == (4, 11, "serving.engine")
    assert problem.message.endswith(
        "; write engine: deepspeed-inference or gpt-fast or pytorch-eager or sglang or vllm or vllm-v0"
    )


def test_training_engines_are_replaced_by_training_engines() -> None:
    config = SimulationConfig(
        hardware={"gpu": "MI300X"}, model={"name": "GPT2-Small"}, training={"batch_size_per_gpu": 1, "engine": "nemo"}
    )
    (problem,) = check_config(config)
    assert problem.path == "training.engine"
    assert "megatron" in problem.message
    assert "vllm" not in problem.message


def test_every_gpu_of_a_cluster_counts() -> None:
    mixed = {"profile": "dgx-h100", "exceptions": [{"nodes": [0], "gpu": "MI300X"}]}
    assert [problem.path for problem in check_config(serving(mixed, "lmdeploy"))] == ["serving.engine"]
    gpus = [load_gpu("H100"), load_gpu("Gaudi2")]
    assert alternatives(load_engine("sglang"), gpus, engines()) == [
        "deepspeed-inference",
        "pytorch-eager",
        "vllm",
        "vllm-v0",
    ]


def test_a_gpu_that_extends_another_has_its_platform() -> None:
    assert unsupported(load_engine("lmdeploy"), load_gpu({"extends": "MI300X", "name": "x"})).startswith(
        "lmdeploy runs"
    )
    assert unsupported(load_engine("lmdeploy"), load_gpu({"extends": "V100", "name": "x"})) == ""


def test_engines_of_the_user_that_say_nothing_run_everywhere_and_those_that_extend_where_these_do(
    tmp_path: Path,
) -> None:
    (tmp_path / "engines").mkdir()
    for name, text in {
        "anywhere": "extends: tensorrt-llm\nplatforms: null\nmin_compute_capability: null\n",
        "alike": "extends: tensorrt-llm\nper_step: 1 ms\n",
        "broken": "extends: nothing\n",
    }.items():
        (tmp_path / "engines" / f"{name}.yaml").write_text(text, encoding="utf-8")
    assert check_config(serving({"gpu": "MI300X"}, "anywhere").located_in(tmp_path)) == []
    (problem,) = check_config(serving({"gpu": "MI300X"}, "alike").located_in(tmp_path))
    assert "write engine: anywhere or deepspeed-inference" in problem.message
    names = [engine.name for engine in engines([tmp_path])]
    assert "alike" in names
    assert "broken" not in names


def test_a_gpu_of_unknown_platform_is_a_warning() -> None:
    hardware = {"gpu": {"extends": "H100", "name": "A1", "vendor": "Acme"}}
    assert check_config(serving(hardware, "vllm")) == []
    (text,) = DistributedAISimulator(serving(hardware, "vllm")).run().warnings
    assert text.startswith("serving.engine: whether vllm runs on A1 of Acme is not known; it runs on CUDA, ROCm")
    named = {"gpu": {**hardware["gpu"], "platform": "cuda"}}
    assert DistributedAISimulator(serving(named, "vllm")).run().warnings == []


def test_a_run_from_python_refuses_what_a_check_refuses() -> None:
    message = r"serving.engine: lmdeploy runs on NVIDIA GPUs, not on MI300X of AMD \(ROCm\)"
    with pytest.raises(ConfigError, match=message):
        DistributedAISimulator(serving({"gpu": "MI300X"}, "lmdeploy")).run()


def test_a_gpu_with_a_single_doubtful_source_says_so_in_serving() -> None:
    doubtful = {"extends": "MI300X", "name": "x", "doubt": "its figures are\n  guesses"}
    found = DistributedAISimulator(serving({"gpu": doubtful}, "vllm")).run().warnings
    assert "hardware: x: its figures are guesses" in found
    assert not any(
        "MI300X" in each for each in DistributedAISimulator(serving({"gpu": "MI300X"}, "vllm")).run().warnings
    )
    assert any("LLM-Inference-Bench" in each.message for each in doubts([load_gpu("MI250")]))
