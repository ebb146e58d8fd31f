"""The section on choices: kinds, sources with causes, the worst choices, and its place in a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import UsageError
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.choices import choices_of
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.report.choices_section import choices_section, replace_choices


def predictions() -> list[Prediction]:
    """Two sets of layouts of which one is predicted right."""
    found = []
    for group, predicted in (("right", (1.0, 2.0, 4.0)), ("wrong", (2.0, 1.0, 4.0))):
        for degree, (seconds, measured) in enumerate(zip(predicted, (1.0, 1.5, 3.0), strict=True), 1):
            run = ScenarioRun.of({"parallelism": {"tp_degree": degree, "strategy": "TP"}})
            case = Case(f"{group}{degree}", "training", group, "iteration_s", "s", measured, layouts=group, run=run)
            found.append(Prediction(case, seconds))
    return found


def test_section_has_the_loss_of_each_kind_and_source_and_the_worst_choices() -> None:
    text = "\n".join(choices_section(choices_of(predictions()), {"wrong": "it is known"}))
    assert "| training | layout | 2 | 6 | 0.75 | 25.0% |  |" in text
    assert "| wrong | 1 | 0.50 | 50.0% | 25.0% | it is known |" in text
    assert "| right | 1 | 1.00 | 0.0% | 0.0% |  |" in text
    assert "| wrong | tp_degree 2 for 1 | 1 for 2 s | 1.5 for 1 s | 50% |" in text
    assert text.count("for 1 s") == 1, "the right choice costs nothing"
    assert not list(choices_section({}, {}))


@pytest.mark.parametrize("old", ["", "\n## Choices\n\nold\n\n| a |\n"])
@pytest.mark.parametrize("rest", ["", "\n## What is not modelled\n\n- dropout\n"])
def test_section_is_replaced_or_added(old: str, rest: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# How wrong it is\n\nfirst\n{old}{rest if old else ''}")
    assert replace_choices(page, predictions(), made="Made by hand.", causes={}) == [page]
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# How wrong it is\n\nfirst\n\n## Choices\n\nMade by hand.\n\nMeasured runs")
    assert "old" not in text
    assert text.endswith(rest if old and rest else "|\n")
    assert not old or not rest or "|\n\n## What" in text
    replace_choices(page, predictions(), made="Made by hand.", causes={})
    assert page.read_text(encoding="utf-8") == text


def test_page_needs_choices(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(UsageError, match="no three measured runs differ in one choice alone"):
        replace_choices(page, predictions()[:2], made="", causes={})
    assert page.read_text() == "# Page\n"
