"""Layouts of a search for several targets: written where expressible, read back, else refused with the setting."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.deployments import emit, read_back, target_of
from simsys.deployments.deployment import deployment_of
from simsys.deployments.emission import canonical_settings
from simsys.deployments.layouts import emitted_layouts, targets_for
from simsys.errors import UnknownNameError, UsageError


def training(engine: str = "megatron", **sections: Any) -> SimulationConfig:
    data: dict[str, Any] = {
        "name": "x",
        "hardware": {"profile": "dgx-h100"},
        "model": {"name": "Llama3-8B"},
        "training": {"global_batch_size": 64, "engine": engine},
        **sections,
    }
    return SimulationConfig.model_validate(data)


def canonical(config: SimulationConfig, target: str) -> dict[str, Any]:
    tool = target_of(target).chosen(config)
    return canonical_settings(tool, deployment_of(config, tool.releases[0], None))


FSDP = {"parallelism.strategy": "FSDP", "parallelism.dp_degree": 8, "training.batch_size_per_gpu": 1}
TENSOR = {
    "parallelism.strategy": "TP_FSDP",
    "parallelism.tp_degree": 2,
    "parallelism.dp_degree": 4,
    "parallelism.sequence_parallel": True,
    "training.batch_size_per_gpu": 2,
}
SPLIT = {"parallelism.strategy": "PP_HSDP", "parallelism.pp_stages": 2, "parallelism.schedule": "zero_bubble"}


def test_a_global_batch_is_written_as_the_accumulation_steps_that_follow_from_it() -> None:
    (file,) = emit(training(), "torchrun-megatron")
    assert "--micro-batch-size 1 \\\n  --global-batch-size 64" in file.text
    (again,) = emit(training("deepspeed", parallelism={"strategy": "FSDP"}), "deepspeed")
    assert '"gradient_accumulation_steps": 8' in again.text


@pytest.mark.parametrize(
    ("engine", "targets"),
    [
        ("megatron", ["slurm", "torchrun-megatron"]),
        ("torchtitan", ["slurm", "torchtitan"]),
        ("deepspeed", ["deepspeed"]),
        ("pytorch-fsdp", ["accelerate"]),
    ],
)
def test_each_engine_has_targets_whose_files_are_read_back(engine: str, targets: list[str]) -> None:
    config = training(engine)
    assert targets_for(config) == targets
    layouts = [FSDP] if engine == "deepspeed" else [TENSOR, FSDP]
    written, refused = emitted_layouts(config, layouts, targets, number=2)
    assert not refused
    assert len(written) == len(layouts) * len(targets)
    for each in written:
        again = read_back(each.target, each.files, each.config)
        settings = canonical(each.config, each.target)
        if each.target == "accelerate":  # which leaves the batch to the program
            del settings["training.gradient_accumulation_steps"]
        assert canonical(again, each.target) == settings
        assert [file.text for file in emit(again, each.target)] == [file.text for file in each.files]


def test_the_best_layout_that_a_target_can_express_is_written_and_the_better_ones_are_refused_by_setting() -> None:
    written, refused = emitted_layouts(training(), [SPLIT, FSDP, TENSOR], ["torchrun-megatron"])
    assert [(each.place, each.config.parallelism.strategy) for each in written] == [(2, "FSDP")]
    (better,) = refused
    assert better.place == 1
    assert {problem.path for problem in better.problems} == {"parallelism.schedule", "parallelism.strategy"}


def test_targets_of_another_engine_or_kind_are_refused_before_anything_is_searched() -> None:
    with pytest.raises(UsageError, match=r"no target starts training\.engine: pytorch; .*megatron \(slurm, torchrun"):
        targets_for(training("pytorch"))
    with pytest.raises(UsageError, match=r"--for deepspeed: .* write training\.engine: deepspeed"):
        targets_for(training(), ["deepspeed"])
    with pytest.raises(UsageError, match="vLLM is for serving, and x is training"):
        targets_for(training(), ["vllm"])
    with pytest.raises(UnknownNameError, match="torchtitan"):
        targets_for(training(), ["torchtitann"])


def test_serving_has_the_servers_of_its_engine_and_all_load_generators() -> None:
    serving = SimulationConfig.model_validate(
        {
            "hardware": {"gpu": "H100-SXM"},
            "model": {"name": "Llama-3.1-8B"},
            "serving": {"engine": "sglang"},
            "workload": {
                "arrivals": {"kind": "poisson", "rate": "1 req/s"},
                "prompt_tokens": 100,
                "output_tokens": 20,
                "num_requests": 20,
            },
        }
    )
    assert targets_for(serving) == ["aiperf", "guidellm", "sglang", "vllm-bench"]
    written, refused = emitted_layouts(serving, [{"serving.max_num_seqs": 32}], targets_for(serving))
    assert {each.target for each in written} == {"aiperf", "guidellm", "sglang", "vllm-bench"}
    assert not refused
    assert all(target_of(each.target).kind == "serving" for each in written)
