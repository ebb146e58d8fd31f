"""`simsys memory`: what scenarios hold, without a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.build.job import build_job
from simsys.check.remedies import remedy_text
from simsys.cli import cli
from simsys.config.scenarios import read_scenarios
from simsys.report.memory import memory_answer, memory_answers
from simsys.simulation import simulate
from tests.helpers.places import ROOT

EXPERIMENTS = ROOT / "experiments"
TRAINING, SERVING = EXPERIMENTS / "training.yaml", EXPERIMENTS / "experiment_config.yaml"
TOO_LARGE = "training.batch_size_per_gpu=64"


@pytest.mark.parametrize(
    ("file", "name"),
    [(TRAINING, "llama3-8b-fsdp-64xH100"), (SERVING, "llama3-8b-1xH100-chat")],
    ids=["train", "serve"],
)
def test_the_answer_is_what_a_run_holds(file: Path, name: str) -> None:
    (config,) = read_scenarios(file, ["simulation.lod=medium"], [name])
    answer = memory_answer(build_job(config), remedies=False)
    result = simulate(config)
    assert sum(answer.stages[answer.fullest].values()) == pytest.approx(result.metrics["peak_memory_bytes"])
    assert answer.problem == answer.advice == ""


def test_every_pipeline_stage_has_its_own_and_the_first_is_the_fullest() -> None:
    (answer,) = memory_answers(TRAINING, [], ["gpt3-175b-tp8-pp8-512xA100"], remedies=False)
    totals = [sum(stage.values()) for stage in answer.stages]
    assert len(totals) == 8
    assert totals == sorted(totals, reverse=True)
    assert "stage 0 of 8" in answer.text()


def test_what_does_not_fit_comes_with_advice_that_helps() -> None:
    (answer,) = memory_answers(TRAINING, [TOO_LARGE], ["bert-large-ddp-8xA100"])
    assert answer.problem == ""
    (answer,) = memory_answers(TRAINING, ["training.batch_size_per_gpu=4096"], ["bert-large-ddp-8xA100"])
    assert answer.problem
    best = answer.remedies[0]
    assert answer.advice == f"{remedy_text(best.remedy)} would fit ({best.figures()})"
    assert best.fits
    assignments = [f"{path}={value}" for path, value in best.remedy.items()]
    (helped,) = memory_answers(TRAINING, assignments, ["bert-large-ddp-8xA100"])
    assert helped.problem == ""
    held = [sum(each.stages[each.fullest].values()) for each in (answer, helped)]
    assert held[0] - held[1] == pytest.approx(best.saved_bytes)


def test_remedies_are_asked_for_or_needed() -> None:
    name = ["megatron-22b-tp8"]
    assert memory_answers(TRAINING, [], name)[0].remedies == ()
    (asked,) = memory_answers(TRAINING, [], name, remedies=True)
    assert "training.activation_recompute: full" in [remedy_text(effect.remedy) for effect in asked.remedies]
    assert all(effect.time_cost is not None for effect in asked.remedies)
    (plain,) = memory_answers(TRAINING, [TOO_LARGE], name, remedies=False)
    assert plain.remedies == ()
    assert "would fit (saves " in plain.advice


def test_serving_has_no_remedies_of_training() -> None:
    (answer,) = memory_answers(SERVING, [], ["llama3-8b-1xH100-chat"], remedies=True)
    assert (answer.remedies, answer.strategies, answer.strategy_advice) == ((), (), "")


def test_serving_shows_what_the_engine_sets_and_where_that_comes_from() -> None:
    (answer,) = memory_answers(SERVING, ["serving.max_num_seqs=64"], ["llama3-8b-1xH100-chat"])
    default = answer.as_dict()["defaults"]["gpu_memory_utilization"]
    assert default == {"value": 0.92, "from": "default of vllm 0.22 (from 0.20 on)"}
    assert "max_num_seqs" not in answer.as_dict()["defaults"]
    assert "default of vllm 0.22: " in answer.text()
    assert "gpu_memory_utilization 0.92 (from 0.20 on)" in " ".join(answer.text().split())
    (trained,) = memory_answers(TRAINING, [], ["llama3-8b-fsdp-64xH100"], remedies=False)
    assert "defaults" not in trained.as_dict()


def test_data_parallel_training_comes_with_advice_on_the_strategy() -> None:
    (answer,) = memory_answers(TRAINING, [], ["llama3-8b-fsdp-64xH100"])
    assert answer.strategy_advice.startswith("advice: FSDP fits (")
    assert "DDP would need" in answer.strategy_advice
    assert " ".join(answer.text().split()).endswith(answer.strategy_advice)
    assert memory_answers(TRAINING, [], ["llama3-8b-fsdp-64xH100"], remedies=False)[0].strategies == ()


def test_the_command_exits_with_3_if_something_does_not_fit() -> None:
    fits = CliRunner().invoke(cli, ["memory", str(TRAINING), "--scenario", "megatron-22b-tp8"])
    assert fits.exit_code == 0, fits.output
    assert fits.stdout.startswith("megatron-22b-tp8: fits, ")
    arguments = ["memory", str(TRAINING), "--scenario", "megatron-22b-tp8", "--set", TOO_LARGE]
    too_large = CliRunner().invoke(cli, arguments)
    assert too_large.exit_code == 3
    assert max(map(len, too_large.stdout.splitlines())) <= 100
    (scenario,) = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)["scenarios"]
    assert scenario["fits"] is False
    assert scenario["advice"]
    assert scenario["strategies"] == []
    assert next(sorted(each) for each in scenario["remedies"]) == [
        "changes_training",
        "fits",
        "saved_bytes",
        "settings",
        "time_cost",
    ]


@pytest.mark.parametrize(("option", "shown"), [("--remedies", True), ("--no-remedies", False)])
def test_the_table_of_remedies_is_an_option(option: str, shown: bool) -> None:
    arguments = ["memory", str(TRAINING), "--scenario", "bert-large-ddp-8xA100", option]
    text = CliRunner().invoke(cli, arguments).stdout
    assert ("fits  saves" in text) is shown
    assert ("advice: " in text) is shown
    assert ("training.optimizer: sgd (changes the training)" in text) is shown
    assert max(map(len, text.splitlines())) <= 100


def test_what_lives_on_the_host_is_told_apart() -> None:
    name, options = ["llama3-8b-fsdp-64xH100"], ["training.options={offload: parameters}"]
    (plain,), (offloaded,) = (memory_answers(TRAINING, each, name, remedies=False) for each in ([], options))
    states = ("parameters", "gradients", "optimizer")
    assert plain.host_bytes == 0.0
    assert offloaded.host_bytes == pytest.approx(sum(plain.stages[0][state] for state in states), rel=1e-12)
    assert sum(offloaded.stages[0][state] for state in states) == 0.0
    assert "in host memory" in offloaded.text()
    assert "in host memory" not in plain.text()
