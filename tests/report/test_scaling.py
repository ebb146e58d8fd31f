"""Files of scaling studies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys.analysis.scaling_result import ScalingPoint, ScalingResult
from simsys.errors import UsageError
from simsys.report.scaling import read_scaling, scaling_text, write_scaling

POINTS = [
    ScalingPoint(1, 8, 16, 1.0, 128.0, figures={"usd_per_million_tokens": 0.5, "energy_per_token_j": 0.1}),
    ScalingPoint(2, 16, 16, 1.25, 204.8, figures={"usd_per_million_tokens": 0.6, "energy_per_token_j": 0.12}),
    ScalingPoint(4, 32, 16, problem="does not fit, or so"),
]
STUDIES = [ScalingResult("x", "weak", POINTS), ScalingResult("x", "strong", POINTS[:1])]


def written(tmp_path: Path) -> Path:
    return write_scaling("x", STUDIES, tmp_path)[0]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    files = write_scaling("x", STUDIES, tmp_path)
    assert [file.name for file in files] == ["x_scaling.json", "x_scaling_weak.csv", "x_scaling_strong.csv"]
    again = read_scaling(files[0])
    assert again == STUDIES
    assert [study.as_dict() for study in again] == [study.as_dict() for study in STUDIES]
    assert files[1].read_text().splitlines()[0].startswith("nodes,gpus,batch_size_per_gpu,iteration_s,samples_per_s")
    assert scaling_text(again) == "\n\n".join(study.summary() for study in STUDIES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(schema_version=2, simsys_version="9.9"), "format 2 .* written by simsys 9.9"),
        (lambda data: data.update(kind="training"), "not a file of scaling studies"),
        (lambda data: data.pop("studies"), "incomplete: no 'studies'"),
        (lambda data: data["studies"][0].pop("rows"), "incomplete: no 'rows'"),
        (lambda data: data["studies"][0]["rows"]["problem"].pop(), "incomplete"),
        (lambda data: data["studies"][0].update(mode="medium"), "without a mode"),
        (lambda data: data["studies"][1]["rows"].update(problem=["no"]), "without a simulated size"),
        (lambda data: data.update(studies=3), "incomplete"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    file = written(tmp_path)
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=message):
        read_scaling(file)


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json"):
        read_scaling(tmp_path / "none.json")
    file = written(tmp_path)
    file.write_text(file.read_text()[:-20])
    with pytest.raises(UsageError, match=r"x_scaling\.json"):
        read_scaling(file)
