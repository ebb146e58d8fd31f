"""The page on errors: all groups in it, causes where known, whole tables, pictures beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.report.fidelity_page import Notes, write_page


def predictions() -> list[Prediction]:
    found = []
    for group, error in (("good", 0.02), ("bad", 0.5), ("worse", -0.7)):
        for index in range(4):
            tags = {"strategy": "DDP", "gpu": f"GPU {index % 2}"}
            case = Case(f"{group}{index}", "training", group, "iteration_s", "s", 1.0 + index, tags)
            found.append(Prediction(case, case.measured * (1.0 + error)))
    return [*found, Prediction(Case("x", "training", "good", "iteration_s", "s", 1.0), None, "no | model")]


def test_the_page_names_groups_errors_causes_and_what_is_missing(tmp_path: Path) -> None:
    notes = Notes({"worse": "its network is shared"}, not_modelled=["dropout"])
    page, picture = write_page(
        tmp_path / "docs" / "fidelity.md", predictions(), command="simsys calibrate x", notes=notes
    )
    text = page.read_text(encoding="utf-8")
    assert "`simsys calibrate x`" in text
    assert text.index("| worse | 70% | -70% | its network is shared |") < text.index(
        "| bad | 50% | +50% | not known |"
    )
    assert "| 1 | no / model |" in text
    assert "- dropout" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"images/{picture.name}" in text
    for table in text.split("\n\n"):
        assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) <= 1


def test_the_page_has_a_section_on_choices(tmp_path: Path) -> None:
    runs = [ScenarioRun.of({"parallelism": {"tp_degree": degree}}) for degree in (1, 2, 4)]
    found = [
        Prediction(Case("x", "training", "g", "iteration_s", "s", float(index), layouts="a", run=run), 1.0 + index)
        for index, run in enumerate(runs, 1)
    ]
    page, _ = write_page(tmp_path / "fidelity.md", found, command="c", notes=Notes(not_modelled=["dropout"]))
    text = page.read_text(encoding="utf-8")
    assert text.index("## Training") < text.index("## Choices") < text.index("## What is not modelled")


def test_notes_are_read_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.write_text("causes: {a: because}\nchoices: {b: so}\nnot_modelled: [this]\n")
    assert Notes.read(path) == Notes({"a": "because"}, {"b": "so"}, ["this"])
    for wrong in ("causes: [a]", "choices: [a]", "not_modelled: a"):
        path.write_text(f"{wrong}\n")
        with pytest.raises(UsageError, match="mappings 'causes' and 'choices', and a list"):
            Notes.read(path)
    path.write_text("causes: {a\n")
    with pytest.raises(ConfigError):
        Notes.read(path)
