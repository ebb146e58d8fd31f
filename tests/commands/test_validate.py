"""The commands that compare with measurements, from the files of a user to the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from simsys.cli import cli

EXPERIMENT = """\
name: mine
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
serving: {engine: vllm}
workload: {arrivals: {kind: poisson, rate: 20 req/s}, num_requests: 8, prompt_tokens: 64, output_tokens: 8}
simulation: {save_detailed: true}
"""


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result in the form of vLLM's benchmark, which is of simsys itself."""
    monkeypatch.chdir(tmp_path)
    Path("exp.yaml").write_text(EXPERIMENT)
    assert called("run", "exp.yaml", "--quiet").exit_code == 0
    return Path("results/mine/mine_serving.json")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_result_of_ones_own_is_predicted_request_by_request(measured: Path) -> None:
    result = called("validate", str(measured), "--on", "exp.yaml", "--json", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    serving = found["validation"]["serving"]
    assert serving["coverage"] == 1.0
    assert serving["by_metric"]["ttft_ms"]["rows"] == 8
    assert serving["by_metric"]["ttft_ms"]["mape"] < 1e-3
    assert found["files"] == ["p.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validate", "results/mine/mine_serving.json"), "name an experiment with --on"),
        (("validate", "results/mine/mine_serving.json", "--on", "exp.yaml", "--scenario", "no"), "unknown scenario"),
        (("validate", "none.csv"), "cannot read none.csv"),
        (("validate", "exp.yaml"), "no known table of measurements"),
        (("calibrate", "none.csv", "--out", "profiles"), "cannot read none.csv"),
        (("calibrate", "--out", "profiles"), "Missing argument"),
        (("validate", "--jobs", "0"), "--jobs"),
    ],
)
def test_what_is_wrong_is_told_without_a_traceback(measured: Path, arguments: tuple[str, ...], message: str) -> None:
    result = called(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not Path("profiles").exists()


def test_measured_and_predicted_values_stand_side_by_side(measured: Path) -> None:
    text = called("validate", str(measured), "--on", "exp.yaml").stdout
    lines = [line.split() for line in text.partition("measured   predicted")[2].splitlines()]
    name, unit, was, predicted, error = next(line for line in lines if line[:1] == ["mean_ttft_ms"])
    assert (name, unit, error[-1]) == ("mean_ttft_ms", "ms", "%")
    assert float(was) == pytest.approx(float(predicted), rel=1e-2)
    assert "warning" not in text


def test_another_model_or_rate_than_the_experiments_is_a_warning(measured: Path) -> None:
    other = json.loads(measured.read_text()) | {"model_id": "meta-llama/Llama-3.1-70B-Instruct", "request_rate": 5.0}
    Path("other.json").write_text(json.dumps(other))
    lines = called("validate", "other.json", "--on", "exp.yaml").stdout.splitlines()
    assert lines[0].startswith("warning: other.json: measured on model 'meta-llama/Llama-3.1-70B-Instruct'")
    found = json.loads(called("validate", "other.json", "--on", "exp.yaml", "--json").stdout)["validation"]
    assert len(found["warnings"]) == 2
    assert found["serving"]["values"][0].keys() >= {"measured", "predicted", "error"}


LAYOUTS = """\
id,group,model,layers,hidden,ffn,heads,vocab,seq_len,gpu,gpus,strategy,tp,pp,dp,micro_batch,global_batch,precision,\
iter_time_s_derived
a,one,GPT-2x256,2,256,1024,4,512,128,A100-SXM-80GB,2,DDP,1,1,2,1,4,fp16,1
b,one,GPT-2x256,2,256,1024,4,512,128,A100-SXM-80GB,2,DDP,1,1,2,2,4,fp16,2
c,one,GPT-2x256,2,256,1024,4,512,128,A100-SXM-80GB,2,TP,2,1,1,4,4,fp16,3
"""


def test_losses_of_choices_and_their_page_section_are_written(tmp_path: Path) -> None:
    table, losses, page, notes = (tmp_path / name for name in ("t.csv", "losses.yaml", "page.md", "notes.yaml"))
    table.write_text(LAYOUTS)
    page.write_text("# Page\n\n## Choices\n\nold\n\n## What is not modelled\n")
    notes.write_text("choices: {one: it is small}\n")
    options = ("--expected-losses", str(losses), "--choices-page", str(page), "--notes", str(notes))
    result = called("validate", str(table), *options)
    assert result.exit_code == 0, result.output
    found = yaml.safe_load(losses.read_text())["training"]
    assert (found["sets"], found["rows"]) == (1, 3)
    text = page.read_text()
    assert f"by `simsys validate {table.name} --choices-page FILE`" in text
    assert f"| one | 1 | {found['rank_correlation']:.2f} | {found['loss']:.1%} |" in text
    assert found["loss"] == 0.0 or "it is small" in text
    assert "old" not in text
    assert text.endswith("\n## What is not modelled\n")


TABLE = """\
id,system,gpus,nodes,collective,bytes,time_us
a,DGX A100,8,1,all_reduce,1048576,60
b,DGX A100,many,1,all_reduce,1048576,60
"""


def test_rows_that_cannot_be_read_are_listed_and_the_others_predicted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    result = called("validate", str(path))
    assert result.exit_code == 0
    assert "collectives: 1 measured values, 100.0 % predicted" in result.stdout
    problem = f"{path}:3:12: gpus: 'many' is not a whole number from 1"
    assert result.stdout.endswith(f"left out (unreadable)\n  {problem}\n")
    found = json.loads(called("validate", str(path), "--json").stdout)["validation"]
    assert found["left_out"] == [problem]
    strict = called("validate", str(path), "--strict")
    assert (strict.exit_code, strict.stdout) == (2, "")
    assert "gpus: 'many'" in strict.stderr
