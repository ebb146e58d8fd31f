"""Whether a job fits, and settings written and changed."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.rules.findings import Remedy
from simsys.check.remedies import applied, changed, memory_problem, remedy_text
from simsys.config.experiment import SimulationConfig

WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 512, "output_tokens": 128, "num_requests": 4}


def serving(gpu: str, model: str) -> SimulationConfig:
    return SimulationConfig(hardware={"gpu": gpu}, model={"name": model}, serving={}, workload=WORKLOAD)


def training(**settings: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100"},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "DDP"},
        training={"batch_size_per_gpu": 1, **settings},
    )


def test_the_problem_lists_every_component() -> None:
    message = memory_problem(build_job(serving("A100", "Llama3-70B")))
    # 70.55 billion parameters at 2 bytes; 92 % of the 79.15 GiB that programs see
    assert message.startswith("Llama3-70B does not fit into A100-SXM-80GB: 133 GiB are needed (weights 131 GiB, act")
    assert message.endswith("before any KV cache, 72.8 GiB are usable")


def test_a_request_beyond_the_kv_cache_is_named() -> None:
    job = build_job(serving("L4", "Llama-3.1-8B"))
    capacity = job.num_blocks * 16
    assert memory_problem(job, capacity + 1) == ""
    assert f"room for {capacity} tokens" in memory_problem(job, capacity + 2)


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        ({"training.optimizer": "sgd"}, "training.optimizer: sgd"),
        ({"parallelism.sequence_parallel": True}, "parallelism.sequence_parallel: true"),
        ({"training.options": {}, "parallelism.tp_degree": 2}, "training.options: {} and parallelism.tp_degree: 2"),
        ({"training.options": {"overlap": False}}, 'training.options: {"overlap": false}'),
    ],
)
def test_a_remedy_is_written_as_in_yaml(remedy: Remedy, text: str) -> None:
    assert remedy_text(remedy) == text


def test_a_remedy_changes_its_settings_and_no_others() -> None:
    config = training(num_iterations=3)
    remedy = {"training.optimizer": "sgd", "parallelism.strategy": "FSDP"}
    other = changed(config, remedy)
    assert other == training(num_iterations=3, optimizer="sgd").model_copy(update={"parallelism": other.parallelism})
    assert (other.parallelism.strategy, config.parallelism.strategy) == ("FSDP", "DDP")


def test_a_remedy_is_pulled_on_the_hardware_there_is_unless_it_changes_that() -> None:
    job = build_job(training())
    assert applied(job, {"training.optimizer": "sgd"}).cluster is job.cluster
    assert applied(job, {"hardware.num_nodes": 2}).cluster.num_gpus == 16
