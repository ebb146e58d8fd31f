"""Suggestions beside errors: each that is printed passes the check when it is applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simsys.check import check_config
from simsys.check.remedies import changed
from simsys.check.suggestions import options_text
from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import DATA_STRATEGIES
from simsys.errors import Problem
from tests.helpers.thorough import THOROUGH


def model(layers: int, heads: int = 32, hidden: int = 1024) -> dict[str, Any]:
    return {"model_type": "transformer", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}


def training(layers: int, gpus: int = 8, *, memory: str = "80 GiB", **rest: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={
            "gpu": {"extends": "H100-SXM", "memory": memory},
            "gpus_per_node": 8,
            "num_nodes": gpus // 8,
        },
        model=model(layers, hidden=rest.pop("hidden", 1024)),
        parallelism=rest.pop("parallelism", {}),
        training={"batch_size_per_gpu": 1, **rest},
    )


def said(found: list[Problem]) -> set[tuple[str, str]]:
    return {(each.path, each.message.partition(";")[0]) for each in found}


def passes(config: SimulationConfig, problem: Problem, others: list[Problem]) -> None:
    """With each fix nothing is wrong, or if it says that others are left, none but these."""
    for fix in problem.fixes:
        left = check_config(changed(config, fix.edits))
        assert said(left) <= (set() if fix.alone else said(others)), fix.edits
        assert fix.alone or others


def test_stages_that_divide_the_layers_but_do_not_fit_are_not_suggested() -> None:
    config = training(85, parallelism={"strategy": "PP_DDP", "pp_stages": 4}, hidden=8192)  # 70 billion parameters
    (problem,) = check_config(config)
    assert "85 layers cannot be divided among 4 stages" in problem.message
    assert "would fit" not in problem.message or problem.fixes
    passes(config, problem, [])


def test_a_degree_comes_with_the_strategy_and_replicas_that_go_with_it() -> None:
    config = training(24, parallelism={"strategy": "PP_DDP", "pp_stages": 5, "dp_degree": 1})
    (problem, *others) = check_config(config)
    assert problem.fixes
    passes(config, problem, others)


def test_what_is_sound_but_does_not_fit_is_combined_with_what_makes_it_fit() -> None:
    config = training(
        24, parallelism={"strategy": "PP_DDP", "pp_stages": 7}, memory="12 GiB", hidden=2048, batch_size_per_gpu=8
    )
    (problem, *others) = check_config(config)
    assert problem.fixes
    assert all(len(fix.edits) > 1 for fix in problem.fixes)
    passes(config, problem, others)


def test_what_is_valid_is_not_said_to_fit_where_memory_is_not_known(tmp_path: Path) -> None:
    """80 stages are valid for 80 layers; a 70B model replicated on every GPU is too, and fits nowhere."""
    text = "hardware: {gpu: H100-SXM, num_nodes: 16, gpus_per_node: 1}\nmodel: {name: Llama3-70B}\n"
    text += "parallelism: {strategy: PP, pp_stages: 3}\ntraining: {batch_size_per_gpu: 1}\n"
    file = tmp_path / "experiment.yaml"
    for wrong in ("simulation: {seeds: 1}", "network: {topology_type: fat_tree, dims: [4, 4]}"):
        file.write_text(text + wrong)
        answer = CliRunner().invoke(cli, ["check", str(file)])
        assert "80 layers cannot be divided among 3 stages; pp_stages: " in answer.stderr
        assert "would fit" not in answer.stderr
        assert "would be valid (memory is checked once nothing else is wrong)" in answer.stderr


def test_fixes_are_edits_that_a_program_can_apply(tmp_path: Path) -> None:
    text = "hardware: {profile: dgx-h100}\nmodel: {name: Llama3-8B}\nparallelism: {strategy: TP, tp_degree: 3}\n"
    text += "training: {batch_size_per_gpu: 1}\n"
    file = tmp_path / "job.yaml"
    file.write_text(text)
    answer = json.loads(CliRunner().invoke(cli, ["check", str(file), "--json"]).stdout)
    fixes = [fix for problem in answer["problems"] for fix in problem["fixes"] if fix["alone"]]
    assert fixes
    for fix in fixes:
        data = yaml.safe_load(text)
        for edit in fix["edits"]:
            section, key = edit["path"].split(".")
            data[section][key] = edit["value"]
        file.write_text(yaml.safe_dump(data))
        assert CliRunner().invoke(cli, ["check", str(file)]).exit_code == 0


STRATEGIES = (None, "DDP", "FSDP", "TP", "TP_DDP", "PP", "PP_DDP", "TP_PP_FSDP", "CP_DDP", "EP_DDP", "None")
DEGREE = st.sampled_from([1, 1, 2, 3, 4, 6, 8])


@st.composite
def scenarios(draw: st.DrawFn) -> SimulationConfig:
    parallelism = {
        "strategy": draw(st.sampled_from(STRATEGIES)),
        "tp_degree": draw(DEGREE),
        "pp_stages": draw(DEGREE),
        "cp_degree": draw(st.sampled_from([1, 1, 1, 2, 3])),
        "dp_degree": draw(st.sampled_from([None, None, 1, 2, 4])),
        "sequence_parallel": draw(st.booleans()),
    }
    return training(
        draw(st.sampled_from([12, 24, 36, 85])),
        draw(st.sampled_from([8, 16])),
        memory=draw(st.sampled_from(["8 GiB", "24 GiB", "80 GiB"])),
        hidden=draw(st.sampled_from([1024, 4096])),
        parallelism=parallelism,
        batch_size_per_gpu=draw(st.sampled_from([1, 8])),
        gradient_accumulation_steps=draw(st.sampled_from([1, 4, 8])),
    )


@given(config=scenarios())
@settings(max_examples=400 if THOROUGH else 8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_suggestion_for_training_passes_the_check(config: SimulationConfig) -> None:
    found = check_config(config)
    for place, problem in enumerate(found):
        said = ("would fit", "would be valid", "; write ")
        assert any(words in problem.message for words in said) == bool(problem.fixes)
        assert "would fit" not in problem.message or all(fix.alone for fix in problem.fixes)
        passes(config, problem, found[:place] + found[place + 1 :])


@st.composite
def served(draw: st.DrawFn) -> SimulationConfig:
    serving: dict[str, Any] = {"gpu_memory_utilization": draw(st.sampled_from([0.3, 0.9]))}
    kind = draw(st.sampled_from(["plain", "disaggregated", "autoscaling"]))
    if kind == "disaggregated":
        serving[kind] = {"prefill_replicas": draw(st.integers(1, 4)), "decode_replicas": draw(st.integers(1, 4))}
    if kind == "autoscaling":
        serving[kind] = {"max_replicas": draw(st.integers(1, 9))}
    parallelism = {"tp_degree": draw(DEGREE), "pp_stages": draw(st.sampled_from([1, 1, 2]))}
    workload = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 256, "output_tokens": 16, "num_requests": 4}
    return SimulationConfig(
        hardware={"gpu": draw(st.sampled_from(["H100", "A100", "L4"])), "gpus_per_node": 8},
        model={"name": draw(st.sampled_from(["Llama3-8B", "Llama3-70B"]))},
        parallelism=parallelism,
        serving=serving,
        workload=workload,
    )


@given(config=served())
@settings(max_examples=100 if THOROUGH else 5, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_suggestion_for_serving_passes_the_check(config: SimulationConfig) -> None:
    found = check_config(config)
    for place, problem in enumerate(found):
        passes(config, problem, found[:place] + found[place + 1 :])


@pytest.mark.parametrize("data", DATA_STRATEGIES)
def test_alternatives_are_listed_by_setting(data: str) -> None:
    remedies = [{"parallelism.strategy": data}, {"parallelism.tp_degree": 4}, {"parallelism.tp_degree": 2}]
    assert options_text(remedies) == f"strategy: {data} or tp_degree: 2 or 4"
