"""Python and the command line refuse the same scenarios, with the same words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from simsys import ConfigError, DistributedAISimulator, InfeasibleError, SimulationConfig
from simsys.check import check_file
from simsys.errors import InfeasibleConfigError
from tests.helpers.random_scenarios import scenario
from tests.helpers.thorough import cases

TRAINING = {"batch_size_per_gpu": 1, "num_iterations": 1}
WORKLOAD = {
    "arrivals": {"kind": "all_at_once"},
    "prompt_tokens": 64,
    "output_tokens": 4,
    "num_requests": 2,
}


def serving(seed: int) -> dict[str, Any]:
    """A serving scenario; many do not pass the check."""
    r = random.Random(seed)
    parallelism: dict[str, Any] = {}
    for key, degrees in (("tp_degree", (1, 1, 2, 3, 4, 8)), ("pp_stages", (1, 1, 2, 3)), ("ep_degree", (1, 1, 2, 8))):
        if r.random() < 0.3:
            parallelism[key] = r.choice(degrees)
    if r.random() < 0.15:
        parallelism["strategy"] = r.choice(["None", "TP", "EP", "PP", "TP_EP", "TP_PP", "DDP"])
    options: dict[str, Any] = {
        "engine": r.choice(["vllm", "vllm", "sglang", "tensorrt-llm", "pytorch-eager"]),
        "max_num_batched_tokens": r.choice([32, 512, 2048, 2048]),
        "max_num_seqs": r.choice([8, 32]),
        "router": r.choice(["round_robin", "least_kv"]),
    }
    if r.random() < 0.4:
        options["scheduler"] = r.choice(["vllm_v0", "orca", "priority", "static_batching", "none_such"])
    if r.random() < 0.2:
        options["kv_precision"] = r.choice(["fp8", "int8", "fp16"])
    if r.random() < 0.3:
        options["cuda_graphs"] = r.choice([True, False, "decode_only"])
    if r.random() < 0.1:
        options["speculative"] = {"draft_tokens": 2, "acceptance_rate": 0.7, "draft_model": "GPT2-Small"}
    return {
        "name": f"serving-{seed}",
        "hardware": {
            "profile": r.choice(["dgx-h100", "dgx-h200", "dgx-a100", "mi300x-platform"]),
            "gpus_per_node": r.choice([1, 2, 4, 8]),
        },
        "model": {"name": r.choice(["Llama3-8B", "Llama3-8B", "GPT2-XL", "Mixtral-8x7B", "BERT-Large", "Llama3-70B"])},
        "parallelism": parallelism,
        "serving": options,
        "workload": WORKLOAD,
    }


def by_file(data: dict[str, Any], folder: Path) -> list[str]:
    """What the command line says of a file."""
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    try:
        check_file(file)
    except (ConfigError, InfeasibleConfigError) as error:
        return sorted(f"{problem.path}: {problem.message}" for problem in error.problems)
    return []


def by_python(data: dict[str, Any]) -> list[str]:
    """What `DistributedAISimulator` says of the same settings."""
    try:
        config = SimulationConfig(**data)
    except ValidationError:
        return ["schema"]
    try:
        DistributedAISimulator(config).run()
    except (ConfigError, InfeasibleConfigError) as error:
        return sorted(f"{problem.path}: {problem.message}" for problem in error.problems)
    return []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"parallelism": {"strategy": "EP", "ep_degree": 8}, "model": {"name": "Mixtral-8x7B"}},
            "ep_degree",
        ),
        (
            {
                "parallelism": {"strategy": "TP", "tp_degree": 8},
                "model": {"name": "GPT2-XL"},  # with 25 heads
            },
            "25 attention heads",
        ),
    ],
)
def test_what_would_be_something_else_is_refused(changes: dict[str, Any], message: str) -> None:
    config = SimulationConfig(hardware={"profile": "dgx-h100"}, serving={}, workload=WORKLOAD, **changes)
    with pytest.raises(ConfigError, match=message):
        DistributedAISimulator(config).run()


def test_what_does_not_fit_is_infeasible_with_advice() -> None:
    config = SimulationConfig(hardware={"gpu": "A100"}, model={"name": "Llama3-70B"}, serving={}, workload=WORKLOAD)
    with pytest.raises(InfeasibleError, match="does not fit"):
        DistributedAISimulator(config).run()


@pytest.mark.parametrize("draw", [serving, scenario])
def test_both_say_the_same(draw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.simulator.simulate", lambda config, probes, processes, built=None: None)
    verdicts = set()
    for seed in range(cases(60, 12)):
        data = draw(seed)
        found = by_file(data, tmp_path)
        assert by_python(data) in ([found, ["schema"]] if found else [found]), seed
        verdicts.add(bool(found))
    assert verdicts == {True, False}


def test_what_passes_the_check_is_simulated(tmp_path: Path) -> None:
    passed = 0
    for seed in range(cases(40)):
        data = serving(seed)
        if not by_file(data, tmp_path):
            assert DistributedAISimulator(SimulationConfig(**data)).run().metrics["completed"] == 2, seed
            passed += 1
    assert passed
