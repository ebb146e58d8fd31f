"""`simsys import-trace` and `simsys validate` with traces of PyTorch's profiler."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from tests.helpers.kineto_like import document, two_steps, write

SCENARIO = """\
name: gpt2
hardware: {profile: dgx-h100, gpus_per_node: 4}
model: {name: GPT2-Small}
parallelism: {strategy: DDP, dp_degree: 4}
training: {batch_size_per_gpu: 2, num_iterations: 4}
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "trace.json.gz", two_steps())
    (tmp_path / "one.yaml").write_text(SCENARIO)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert "Traceback" not in result.output
    return result


def facts(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_summary_for_people() -> None:
    assert run("import-trace", "trace.json.gz").stdout == (
        "trace.json.gz: trace in the format of PyTorch's profiler, 1 GPU, of 4 ranks\n\n"
        "rank 0: 3 steps                         mean         min         max   of step\n"
        "  step                              0.087 ms    0.060 ms    0.100 ms   100.0 %\n"
        "  computation                       0.060 ms    0.060 ms    0.060 ms    69.2 %\n"
        "  exposed all_reduce                0.020 ms    0.000 ms    0.030 ms    23.1 %\n"
        "  exposed copy                      0.003 ms    0.000 ms    0.005 ms     3.8 %\n"
        "  idle                              0.003 ms    0.000 ms    0.005 ms     3.8 %\n"
        "  communication overlapped            16.7 %\n"
        "  gaps                          0.667 per step, longest 0.005 ms\n\n"
        "kernels                                        count         total          mean\n"
        "  gemm                        compute              3      0.180 ms      0.060 ms\n"
        "  ncclDevKernel_AllReduce_Su… all_reduce           2      0.080 ms      0.040 ms\n"
        "  Memcpy DtoH (Device -> Pin… copy                 2      0.010 ms      0.005 ms\n"
    )


def test_the_summary_for_programs() -> None:
    trace = facts("import-trace", "trace.json.gz")["trace"]
    (gpu,) = trace["gpus"]
    assert (trace["format"], trace["world_size"], gpu["rank"], gpu["steps"], gpu["activities"]) == (
        *("kineto", 4, 0, 3, 7),
    )
    assert gpu["mean_step"]["exposed_s"]["all_reduce"] == pytest.approx(20e-6)
    assert gpu["kernels"][0] == {
        "name": "gemm",
        "kind": "compute",
        "count": 3,
        "total_s": pytest.approx(180e-6),
        "mean_s": pytest.approx(60e-6),
    }


def test_a_table_has_a_row_for_each_step() -> None:
    assert run("import-trace", "trace.json.gz", "--out", "sub/steps.csv").exit_code == 0
    rows = list(csv.DictReader(StringIO(Path("sub/steps.csv").read_text())))
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert float(rows[0]["exposed_all_reduce_s"]) == pytest.approx(30e-6)
    assert float(rows[2]["exposed_all_reduce_s"]) == 0.0
    assert float(rows[0]["overlap"]) == pytest.approx(0.25)


def test_a_trace_without_steps_is_one() -> None:
    write(Path("bare.json"), document([("kernel", "gemm", 0.0, 10.0, 5.0)], []))
    text = run("import-trace", "bare.json").stdout
    assert "note: no steps" in text
    assert "rank 0: 1 step " in text


def test_causes_beside_a_prediction() -> None:
    found = facts("validate", "trace.json.gz", "--on", "one.yaml")["steps"]
    (gpu,) = found["gpus"]
    causes = {each["cause"]: each for each in gpu["causes"]}
    assert list(causes) == ["step", "computation", "exposed all_reduce", "exposed copy", "idle"]
    for side in ("measured_s", "predicted_s"):
        parts = [each[side] for name, each in causes.items() if name != "step"]
        assert sum(parts) == pytest.approx(causes["step"][side])
    assert causes["computation"]["predicted_s"] > causes["computation"]["measured_s"]
    text = run("validate", "trace.json.gz", "--on", "one.yaml", "--out", "causes.csv").stdout
    assert "trace.json.gz: rank 0, mean of 3 steps, beside gpt2" in text
    assert all(cause in text for cause in causes)
    assert len(Path("causes.csv").read_text().splitlines()) == 6


def test_a_scenario_of_another_size_is_a_warning() -> None:
    Path("two.yaml").write_text(
        SCENARIO.replace("gpus_per_node: 4", "gpus_per_node: 2").replace("degree: 4", "degree: 2")
    )
    text = "trace.json.gz is of a run with 4 ranks, and gpt2 has 2"
    assert run("validate", "trace.json.gz", "--on", "two.yaml").stdout.startswith(f"warning: {text}\n")
    assert facts("validate", "trace.json.gz", "--on", "two.yaml")["steps"]["warnings"] == [text]
    assert facts("validate", "trace.json.gz", "--on", "one.yaml")["steps"]["warnings"] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("import-trace", "trace.json.gz", "--rate-scale", "2"), "--rate-scale is for traces of requests"),
        (("import-trace", "trace.json.gz", "--multi-turn"), "--multi-turn is for traces of requests"),
        (("import-trace", "trace.json.gz", "--out", "./trace.json.gz"), "is the trace itself"),
        (("import-trace", "trace.json.gz", "--ranks", "ranks"), "not a trace that 'simsys run --trace' has written"),
        (("import-trace", "requests.csv", "--ranks", "ranks"), "--ranks is for traces of simsys"),
        (("import-trace", "cut.json.gz"), "cut off"),
        (("import-trace", "empty.json"), "no kernel of a GPU among its 0 events"),
        (("validate", "trace.json.gz"), "name an experiment with --on"),
        (("validate", "trace.json.gz", "one.yaml", "--on", "one.yaml"), "compare it alone"),
        (("validate", "trace.json.gz", "--on", "one.yaml", "--strict"), "--strict is not for traces"),
        (("validate", "trace.json.gz", "--on", "none.yaml"), "none.yaml"),
        (("validate", "empty.json", "--on", "one.yaml"), "no kernel of a GPU"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: tuple[str, ...], expected: str) -> None:
    content = Path("trace.json.gz").read_bytes()
    Path("cut.json.gz").write_bytes(content[: len(content) // 2])
    Path("requests.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    Path("empty.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    before = sorted(Path().iterdir())
    result = run(*arguments)
    assert result.exit_code == 2
    assert expected in result.output
    assert sorted(Path().iterdir()) == before
    assert Path("trace.json.gz").read_bytes() == content
