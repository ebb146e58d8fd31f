"""The error to expect, from predictions of unseen rows to the assumptions of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.regimes import regimes_of
from simsys.build.variants.variant import VARIANTS
from simsys.cli import cli
from simsys.config.document import read_document
from simsys.config.expected_errors import (
    LIGHTLY_LOADED,
    LOADED,
    QUEUEING,
    Subject,
    expected_errors,
    load_of,
)
from simsys.config.hardware import Named, load_engine, load_gpu
from simsys.data import data_folders
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.expected import errors_by_regime, errors_to_expect
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.report.yaml_text import yaml_text

TRAINING = {
    "hardware": {"gpu": "A100", "gpus_per_node": 2},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}
SERVING: dict[str, Any] = {
    "hardware": {"gpu": "H100"},
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "2 req/s"},
        "prompt_tokens": 64,
        "output_tokens": 8,
        "num_requests": 8,
    },
}


def rows(
    metric: str,
    count: int,
    error: float,
    scenario: dict[str, Any] | None = None,
    queue: float = 0.0,
    load_kind: str = "concurrency",
) -> list[Prediction]:
    """As many rows of a scenario, up to that error, whose requests wait for a part of their TTFT."""
    family = "training" if metric == "iteration_s" else "serving"
    run = ScenarioRun.of(scenario) if scenario is not None else None
    case = Case("x", family, "g", metric, "s", 1.0, {"load_kind": load_kind}, run=run)
    figures = {"mean_ttft_ms": 100.0, "mean_queue_ms": 100.0 * queue}
    return [Prediction(case, 1.0 + error * (index + 1) / count, figures=figures) for index in range(count)]


def read(count: int, gpu: str) -> list[frozenset[Named]]:
    return [frozenset({("gpu", gpu), ("engine", "megatron")})] * count


# --- what is written -------------------------------------------------------------------------------------------------


def test_errors_are_told_by_gpu_and_metric() -> None:
    found = errors_to_expect(rows("iteration_s", 10, 0.2), read(10, "A100-SXM-80GB"))
    assert found["training"]["A100-SXM-80GB"]["iteration_s"] == {
        "rows": 10,
        "median": 0.11,
        "nine_of_ten": 0.2,
        "band": [-0.165, -0.021],  # measured over predicted, the largest being 1.2
    }
    assert found["training"]["all"] == found["training"]["A100-SXM-80GB"]


def test_a_few_rows_say_nothing() -> None:
    assert errors_to_expect(rows("iteration_s", 7, 0.2), read(7, "A100-SXM-80GB")) == {}


def test_errors_are_told_by_engine_and_regime() -> None:
    sharded = {**TRAINING, "parallelism": {"strategy": "FSDP"}}
    predictions = [*rows("iteration_s", 10, 0.2, TRAINING), *rows("iteration_s", 3, 0.2, sharded)]
    found = errors_by_regime([*predictions, *rows("x", 1, 0.0)], read(14, "A100-SXM-80GB"))
    assert found == {
        "training": {
            "engines": {
                "pytorch": {"iteration_s": {"rows": 13, "median": 0.12, "nine_of_ten": 0.2, "band": [-0.167, -0.027]}}
            },
            "regimes": {"FSDP": {"iteration_s": {"rows": 3}}},
        }
    }


def test_first_tokens_are_told_by_load_and_gpu_but_for_static_batches() -> None:
    predictions = [
        *rows("ttft_ms", 8, 0.1, SERVING, queue=0.05),
        *rows("ttft_ms", 8, 0.4, SERVING, queue=0.9),
        *rows("ttft_ms", 8, 0.1, SERVING, queue=0.5, load_kind="static_batch"),
        *rows("tpot_ms", 8, 0.1, SERVING, queue=0.5),
    ]
    loads = errors_by_regime(predictions, read(32, "H100-SXM"))["serving"]["loads"]
    assert set(loads) == {LIGHTLY_LOADED, QUEUEING}
    assert loads[QUEUEING]["H100-SXM"] == loads[QUEUEING]["all"]
    assert loads[QUEUEING]["all"]["ttft_ms"] == {
        "rows": 8,
        "median": 0.225,
        "nine_of_ten": 0.4,
        "band": [-0.286, -0.048],
    }


@pytest.mark.parametrize(
    ("queue_ms", "ttft_ms", "load"),
    [
        (5.0, 100.0, LIGHTLY_LOADED),
        (10.0, 100.0, LOADED),
        (80.0, 100.0, QUEUEING),
        (None, None, None),
        (0.0, 0.0, None),
    ],
)
def test_the_load_is_the_part_of_ttft_that_requests_wait(
    queue_ms: float | None, ttft_ms: float | None, load: str | None
) -> None:
    assert load_of({"mean_queue_ms": queue_ms, "mean_ttft_ms": ttft_ms}) == load


# --- what a run says -------------------------------------------------------------------------------------------------


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eight = {**SERVING, "serving": {"precision": "fp8"}}
    four = {**SERVING, "serving": {"precision": "int4"}}
    predictions = [
        *rows("iteration_s", 1401, 0.2, TRAINING),
        *rows("tpot_ms", 20, 0.1, SERVING),
        *rows("ttft_ms", 20, 0.3, SERVING),
        *rows("ttft_ms", 20, 0.5, SERVING, queue=0.5),
        *rows("tpot_ms", 20, 0.1, eight),
        *rows("tpot_ms", 20, 0.6, four),
        *rows("ttft_ms", 20, 0.1, four),
    ]
    profiles = [*read(1401, "A100-SXM-80GB"), *read(120, "H100-SXM")]
    folder = tmp_path / "hardware_profiles" / "fits"
    folder.mkdir(parents=True)
    (folder / "expected_errors.yaml").write_text(yaml_text(errors_to_expect(predictions, profiles)))
    (folder / "expected_errors_by_regime.yaml").write_text(yaml_text(errors_by_regime(predictions, profiles)))
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))


LIGHT = {"mean_queue_ms": 1.0, "mean_ttft_ms": 100.0}


@pytest.mark.usefixtures("known")
def test_a_run_names_the_error_of_runs_like_it() -> None:
    assert expected_errors(Subject("training", "A100-SXM-80GB", "pytorch"), {}) == [
        "Expected error (n = 1,401 measured iterations, A100-SXM-80GB): median 10 %, p90 18 %, 80 % band -15 to -2 %"
    ]
    found = expected_errors(Subject("serving", "H100-SXM", "vllm"), LIGHT)
    assert [line.partition(", 80 % band ") for line in found] == [
        (
            "Expected error of TTFT, lightly loaded (n = 40 measured closed loops, H100-SXM): median 8 %, p90 26 %",
            ", 80 % band ",
            "-20 to -2 %",
        ),
        (
            "Expected error of TTFT with engine vllm (n = 60 measured closed loops, all GPUs): median 10 %, p90 38 %",
            ", 80 % band ",
            "-27 to -2 %",
        ),
        (
            "Expected error of TPOT (n = 60 measured closed loops, H100-SXM): median 7 %, p90 45 %",
            ", 80 % band ",
            "-31 to -2 %",
        ),
    ]


@pytest.mark.usefixtures("known")
def test_the_error_of_first_tokens_is_that_under_the_load_of_the_run() -> None:
    subject, loaded = Subject("serving", "H100-SXM", "vllm"), {"mean_queue_ms": 50.0, "mean_ttft_ms": 100.0}
    assert expected_errors(subject, loaded)[0].startswith("Expected error of TTFT, loaded (n = 20 ")
    queueing = {"mean_queue_ms": 90.0, "mean_ttft_ms": 100.0}
    assert expected_errors(subject, queueing)[0] == (
        "Expected error of TTFT, queueing: no measurements of GPU H100-SXM"
    )
    overloaded = {**queueing, "overloaded": 1}
    assert expected_errors(subject, overloaded)[0] == (
        "Expected error of TTFT: no measurements of overloaded runs, whose TTFT grows with the run"
    )
    assert [line.split(" (")[0] for line in expected_errors(subject, {})] == ["Expected error of TPOT"]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("gpu", "engine", "regimes", "missing"),
    [
        ("V100-SXM-32GB", "pytorch", (), "GPU V100-SXM-32GB"),
        ("A100-SXM-80GB", "nemo", (), "engine nemo"),
        ("A100-SXM-80GB", "pytorch", ("FSDP",), "FSDP"),
        ("L4", "nemo", ("FSDP", "mixture of experts"), "GPU L4, engine nemo, FSDP, mixture of experts"),
    ],
)
def test_what_was_not_measured_has_no_error(gpu: str, engine: str, regimes: tuple[str, ...], missing: str) -> None:
    found = expected_errors(Subject("training", gpu, engine, regimes), {})
    assert found == [f"Expected error: no measurements of {missing}"]


@pytest.mark.usefixtures("known")
def test_a_regime_in_which_a_metric_was_not_measured_has_no_error_of_it() -> None:
    found = expected_errors(Subject("serving", "H100-SXM", "vllm", ("weights in fp8",)), LIGHT)
    assert found[0] == "Expected error of TTFT, lightly loaded: no measurements of weights in fp8"
    assert found[1].startswith("Expected error of TPOT (n = 60 ")


@pytest.mark.usefixtures("known")
def test_a_regime_that_is_predicted_worse_than_its_gpu_is_named() -> None:
    found = expected_errors(Subject("serving", "H100-SXM", "vllm", ("weights in int4",)), LIGHT)
    assert found[-1] == (
        "Expected error of TPOT with weights in int4 (n = 20 measured closed loops, all GPUs): median 32 %, p90 57 %, "
        "80 % band -36 to -6 %"
    )
    assert not [line for line in found if "TTFT with weights" in line], "these are predicted better"


def test_without_measurements_nothing_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.config.expected_errors.data_folders", lambda _: [tmp_path])
    [line] = expected_errors(Subject("training", "A100-SXM-80GB", "pytorch"), {})
    assert line == "Expected error: no measurements of GPU A100-SXM-80GB, engine pytorch"


@pytest.mark.usefixtures("known")
def test_it_is_among_the_assumptions_of_a_result() -> None:
    result = DistributedAISimulator(SimulationConfig(**TRAINING)).run()
    assert result.assumptions[-1].startswith("Expected error (n = 1,401 measured iterations, A100-SXM-80GB)")
    at_once = {**SERVING, "workload": {**SERVING["workload"], "arrivals": {"kind": "all_at_once"}}}
    said = DistributedAISimulator(SimulationConfig(**at_once)).run().assumptions
    assert "Expected error of throughput: no measurements of engine vllm" in said


# --- the shipped files -----------------------------------------------------------------------------------------------

SHIPPED = data_folders("hardware_profiles")[-1] / "fits"


def test_the_shipped_file_says_of_which_rows_it_is() -> None:
    text = (SHIPPED / "expected_errors_by_regime.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Errors on rows held out of the fit, by `simsys calibrate ")


def test_shipped_errors_are_of_regimes_and_engines_that_there_are() -> None:
    found = read_document(SHIPPED / "expected_errors_by_regime.yaml").data
    assert {load_engine(name).name for family in found.values() for name in family["engines"]}
    sources = Path(regimes_of.__code__.co_filename).read_text(encoding="utf-8")
    for family in found.values():
        for regime in family["regimes"]:
            known = regime in sources or regime in {each.regime for each in VARIANTS}
            assert known or regime.split()[-1] in ("parallelism", "fp32", "fp8", "fp4", "tf32"), regime
    for by_gpu in found["serving"]["loads"].values():
        assert all(name == "all" or load_gpu(name).name == name for name in by_gpu)
    assert set(found["serving"]["loads"]) == {LIGHTLY_LOADED, LOADED, QUEUEING}


def test_a_command_writes_them(tmp_path: Path) -> None:
    out = tmp_path / "by_regime.yaml"
    folder = data_folders("experiments")[-1] / "measured"
    table = folder / "serving.csv"
    command = ["validate", str(table), "--held-out", "1", "--expected-errors", str(out), "--json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["files"] == [str(out)]
    assert out.read_text().startswith("# Errors on rows held out of the fit of the profiles,\n")
    every = CliRunner().invoke(cli, ["validate", str(table), "--expected-errors", str(out)])
    assert every.exit_code == 0
    assert read_document(out).data["serving"]["engines"].keys() >= {"vllm", "tensorrt-llm-cpp"}
    assert out.read_text().startswith("# Errors on all rows, whether the profiles were fitted to them or not,\n")
