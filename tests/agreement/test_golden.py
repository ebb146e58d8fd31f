"""Small runs, event by event, are exactly what they were when the golden files were written."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.places import ROOT

GOLDEN = ROOT / "tests" / "agreement" / "golden"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_golden", ROOT / "scripts" / "make_golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_traces_are_unchanged(script: ModuleType) -> None:
    texts = script.golden_texts()
    assert texts.keys() == {file.name for file in GOLDEN.iterdir()}
    for name, text in texts.items():
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), f"{name} has changed: run scripts/make_golden.py"


def test_a_changed_trace_is_found_and_written_anew(script: ModuleType, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    assert script.main(["--check", "--folder", str(tmp_path)]) == 0
    changed = tmp_path / "ddp_events_high.json"
    changed.write_text(changed.read_text(encoding="utf-8").replace("0.0", "0.1", 1), encoding="utf-8")
    assert script.main(["--check", "--folder", str(tmp_path)]) == 1
    assert script.main(["--folder", str(tmp_path)]) == 0
    assert script.main(["--check", "--folder", str(tmp_path)]) == 0


def test_the_traces_show_what_they_are_there_for() -> None:
    def rows(name: str) -> list[list[object]]:
        return json.loads((GOLDEN / name).read_text(encoding="utf-8"))

    kinds = [row[2] for row in rows("ddp_events_high.json")]
    assert set(kinds) >= {"ITERATION_START", "COMPUTE_START", "COMPUTE_END", "ALLREDUCE_START", "ALLREDUCE_END"}
    times = [float(str(row[0])) for row in rows("ddp_events_high.json")]
    assert times == sorted(times)
    assert {"admitted", "first token", "finished", "preempted"} <= {
        row[2] for row in rows("serving_events_medium.json")
    }
