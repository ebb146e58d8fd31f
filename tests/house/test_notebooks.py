"""The notebooks of `examples` are their scripts with outputs, and the scripts run."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
LONG = {"capacity_planning", "choosing_a_layout", "memory_strategies"}
"""Scripts that take more than a second."""
MOST_BYTES = 100_000


def cells(script: Path) -> list[tuple[str, str]]:
    """Kind and content of each cell of a script in the percent format."""
    found = re.split(r"^# %%(.*)\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    kinds = ("markdown" if "markdown" in kind else "code" for kind in found[::2])
    return [(kind, content(kind, text)) for kind, text in zip(kinds, found[1::2], strict=True)]


def content(kind: str, text: str) -> str:
    return re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE) if kind == "markdown" else text.strip()


def notebook(script: Path) -> dict:
    return json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))


def test_there_is_one_for_each_topic() -> None:
    assert len(SCRIPTS) >= 8
    assert {path.stem for path in (ROOT / "examples").glob("*.ipynb")} == {path.stem for path in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_script(script: Path) -> None:
    made = [(cell["cell_type"], "".join(cell["source"]).strip()) for cell in notebook(script)["cells"]]
    assert made == cells(script), f"run python scripts/make_notebooks.py {script.stem}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_has_outputs_without_errors(script: Path) -> None:
    code = [cell for cell in notebook(script)["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    assert [cell["execution_count"] for cell in code] == sorted(cell["execution_count"] for cell in code)
    assert script.with_suffix(".ipynb").stat().st_size < MOST_BYTES


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_uses_names_that_exist(script: Path) -> None:
    """What it imports is there, without running it."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    namespace: dict[str, object] = {}
    exec(compile(ast.Module(imports, []), script.name, "exec"), namespace)
    assert len(namespace) > len(imports)


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in SCRIPTS],
)
def test_a_script_prints_what_its_notebook_shows(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(script), run_name="__main__")
    outputs = [output for cell in notebook(script)["cells"] for output in cell.get("outputs", [])]
    shown = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    assert capsys.readouterr().out == shown
