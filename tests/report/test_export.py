"""The files of a run: complete, valid, and the same again when the resolved scenario is run from where it lies."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from simsys import DistributedAISimulator, SimulationConfig
from simsys.check import check_file
from simsys.cli import cli
from simsys.config.document import parse_document
from simsys.report.bench_serve import bench_result
from simsys.report.export import config_yaml, json_text, write_results
from simsys.report.yaml_text import yaml_text
from tests.helpers.exposition import read_exposition

TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
TRAINING: dict[str, Any] = {
    "name": "gpt2",
    "hardware": {"gpu_model": "A100", "num_gpus_per_node": 2, "compute_tflops": 300, "memory_gb": 80},
    "network": {"base_latency_us": 5},
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 2, "num_iterations": 3, "num_nodes": 2},
}
SERVING: dict[str, Any] = {
    "name": "llama",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {"gpu_memory_utilization": 0.85},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "7.3 req/s"},
        "prompt_tokens": {"kind": "lognormal", "mean": 512},
        "output_tokens": 30,
        "num_requests": 20,
    },
    "slo": {"ttft": "333 us"},
    "simulation": {"seed": 7},
}
TRACED: dict[str, Any] = {
    **SERVING,
    "name": "traced",
    "workload": {part: {"kind": "trace"} for part in ("arrivals", "prompt_tokens", "output_tokens")}
    | {"trace": {"path": "data/trace.csv"}},
}
SCENARIOS = {scenario["name"]: scenario for scenario in (TRAINING, SERVING, TRACED)}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """An experiment file with all scenarios, and the trace that one of them reads."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "trace.csv").write_text(TRACE, encoding="utf-8")
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump({"scenarios": list(SCENARIOS.values())}), encoding="utf-8")
    return path


def carried_out(path: Path, name: str | None, out: Path) -> dict[str, bytes]:
    """The files of a run, by name."""
    config = SimulationConfig.from_yaml(path, name)
    files = write_results(config, DistributedAISimulator(config).run(), out)
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_files_and_their_names(experiment: Path, tmp_path: Path, name: str) -> None:
    rows = "iterations" if name == "gpt2" else "requests"
    files = carried_out(experiment, name, tmp_path / "out")
    endings = ["config.yaml", "results.json", "bottlenecks.json", f"{rows}.csv"]
    endings += ["ranks.csv"] if name == "gpt2" else ["timeline.csv", "serving.json", "metrics.prom"]
    assert list(files) == [f"{name}_{ending}" for ending in endings]
    assert sorted(files) == sorted(path.name for path in (tmp_path / "out" / name).iterdir())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_resolved_scenario_gives_the_same_files(experiment: Path, tmp_path: Path, name: str) -> None:
    first = carried_out(experiment, name, tmp_path / "somewhere" / "deep")
    resolved = tmp_path / "somewhere" / "deep" / name / f"{name}_config.yaml"
    again = carried_out(resolved, None, resolved.parents[1])
    assert again == first


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_resolved_scenario_is_the_same_one(experiment: Path, tmp_path: Path, name: str) -> None:
    config = SimulationConfig.from_yaml(experiment, name)
    resolved = tmp_path / "config.yaml"  # in the same folder, so that paths stay
    resolved.write_text(config_yaml(config, tmp_path), encoding="utf-8")
    assert SimulationConfig.from_yaml(resolved) == config


def test_defaults_and_units_are_written_out(experiment: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(config_yaml(SimulationConfig.from_yaml(experiment, "llama"), tmp_path))
    assert "max_num_seqs" not in config["serving"], "the engine sets it, by its release and the GPU"
    assert config["serving"]["gpu_memory_utilization"] == "85 %"
    assert config["workload"]["arrivals"] == {"kind": "poisson", "rate": "7.3 req/s"}
    assert config["slo"] == {"ttft": "333 us"}
    assert config["simulation"] == {
        "lod": "medium",
        "seed": 7,
        "collect_events": False,
        "occupy_links": "auto",
        "save_detailed": False,
        "metrics": [],
        "analyses": [],
    }


@pytest.mark.parametrize(
    ("path", "expected"), [("data/t.csv", "../../data/t.csv"), ("/data/t.csv", "/data/t.csv"), ("~/t.csv", "~/t.csv")]
)
def test_relative_paths_are_rewritten_and_others_kept(tmp_path: Path, path: str, expected: str) -> None:
    workload = {**TRACED["workload"], "trace": {"path": path}}
    config = SimulationConfig(**{**TRACED, "workload": workload}).located_in(tmp_path)
    found = yaml.safe_load(config_yaml(config, tmp_path / "out" / "traced"))
    assert found["workload"]["trace"]["path"] == expected


def test_a_hugging_face_file_is_found_from_the_new_place(tmp_path: Path) -> None:
    config = SimulationConfig(**{**TRAINING, "model": {"huggingface": "./config.json"}}).located_in(tmp_path)
    found = yaml.safe_load(config_yaml(config, tmp_path / "out"))
    assert found["model"]["huggingface"] == "../config.json"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_results_are_those_of_the_run(experiment: Path, tmp_path: Path, name: str) -> None:
    config = SimulationConfig.from_yaml(experiment, name)
    result = DistributedAISimulator(config).run()
    _, results, _, rows, *_ = write_results(config, result, tmp_path)
    assert json.loads(results.read_text(encoding="utf-8")) == json.loads(json.dumps(result.as_dict()))
    with rows.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == list(result.rows)
    assert len(table) == {"gpt2": 3, "llama": 20, "traced": 3}[name]
    column = "started_s" if name == "gpt2" else "finished_s"
    assert [float(row[column]) for row in table] == list(result.rows[column]), "every digit is kept"


def test_the_ranks_are_those_of_the_run(experiment: Path, tmp_path: Path) -> None:
    result = DistributedAISimulator(config := SimulationConfig.from_yaml(experiment, "gpt2")).run()
    *_, ranks = write_results(config, result, tmp_path)
    with ranks.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert {name: float(text) for name, text in row.items()} == {name: each[0] for name, each in result.ranks.items()}


def test_the_communication_graph_is_written_if_events_are_collected(tmp_path: Path) -> None:
    config = SimulationConfig(**{**TRAINING, "simulation": {"collect_events": True}})
    result = DistributedAISimulator(config).run()
    *_, traffic = write_results(config, result, tmp_path)
    assert traffic.name == "gpt2_traffic.csv"
    with traffic.open(encoding="utf-8", newline="") as file:
        table = [tuple(map(float, row)) for row in list(csv.reader(file))[1:]]
    assert table == list(zip(*result.traffic.values(), strict=True))
    assert {row[:2] for row in table} >= {(0, 1), (1, 0)}
    assert all(nbytes > 0 for *_, nbytes in table)


def test_the_time_line_and_the_steps_of_serving_are_written(tmp_path: Path) -> None:
    config = SimulationConfig(**{**SERVING, "simulation": {"collect_events": True}})
    result = DistributedAISimulator(config).run()
    files = {path.name: path for path in write_results(config, result, tmp_path)}
    for name, columns in (("timeline", result.timeline), ("steps", result.requests.steps.columns())):
        with files[f"llama_{name}.csv"].open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert header == list(columns)
        assert [tuple(map(float, row)) for row in rows] == list(zip(*columns.values(), strict=True))
    assert result.metrics["steps"] == sum(result.requests.steps.columns()["steps"])


def test_the_files_for_other_tools_are_those_of_the_run(tmp_path: Path) -> None:
    config = SimulationConfig(**SERVING)
    result = DistributedAISimulator(config).run()
    files = {path.name: path.read_text(encoding="utf-8") for path in write_results(config, result, tmp_path)}
    assert json.loads(files["llama_serving.json"]) == json.loads(json.dumps(bench_result(config, result)))
    metrics = read_exposition(files["llama_metrics.prom"])
    assert metrics["vllm:request_success_total"].value(model_name="Llama3-8B", finished_reason="length") == 20


def test_nothing_of_the_machine_is_in_the_results(experiment: Path, tmp_path: Path) -> None:
    results = carried_out(experiment, "traced", tmp_path / "out")["traced_results.json"]
    assert b"wall" not in results
    assert b"cpu" not in results
    assert str(tmp_path).encode() not in results


def test_a_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text({"mfu": float("nan")})


def test_results_do_not_depend_on_the_hash_seed(experiment: Path, tmp_path: Path) -> None:
    def arguments(seed: str) -> list[str]:
        return ["run", str(experiment), "--out", str(tmp_path / seed), "--quiet"]

    command = [sys.executable, "-m", "simsys", *arguments("1")]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "1"}, check=True, capture_output=True)
    assert CliRunner().invoke(cli, arguments("drawn")).exit_code == 0  # for this process
    found = []
    for seed in ("1", "drawn"):
        written = sorted(path for path in (tmp_path / seed).rglob("*") if path.is_file())
        files = [path for path in written if not path.name.endswith("_provenance.json")]  # has the date
        found.append({path.relative_to(tmp_path / seed): path.read_bytes() for path in files})
    assert len(found[0]) == 19
    assert found[0] == found[1]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text("-+0123456789.eExo:~_", max_size=6)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


@given(st.dictionaries(TEXTS, VALUES | st.lists(VALUES, max_size=3), min_size=1, max_size=4))
def test_yaml_is_read_back_as_what_was_written(data: dict[str, Any]) -> None:
    assert parse_document(yaml_text(data), "written").data == data


@pytest.mark.parametrize(
    "text", ["1e9", "0o17", "08", "no", "12:30", "None", "~", "", "2025-01-01", "a: b", "- a", "#"]
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert parse_document(yaml_text({"name": text}), "written").data == {"name": text}


def test_what_occurs_twice_is_written_twice() -> None:
    layer = {"name": "linear"}
    assert "&" not in yaml_text({"layers": [layer, layer]})


def test_a_scenario_that_says_little_runs_again_from_what_was_written(tmp_path: Path) -> None:
    """All defaults are written out, also those of settings that would have no effect here."""
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM"},
        model={"name": "GPT2-Small"},
        training={"batch_size_per_gpu": 1, "num_iterations": 1},
    )
    simulator = DistributedAISimulator(config)
    simulator.run()
    written = next(path for path in simulator.export_results(tmp_path) if path.name.endswith("_config.yaml"))
    (again,) = check_file(written)
    assert again.config.model_dump() == config.model_dump()
