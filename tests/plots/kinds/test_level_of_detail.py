"""Speed against error as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simsys.contents.printed import Printed
from simsys.plots.drawing import write_figure
from simsys.plots.picture import draw
from tests.helpers.legible import overlaps
from tests.helpers.places import ROOT


def row(name: str, kind: str, speedup: float, error: float) -> dict[str, Any]:
    return {"name": name, "kind": kind, "cpu_speedup": speedup, "largest_difference": error}


DATA = {
    "scenarios": [
        row("chat", "serving", 150.0, 0.0),
        row("crossed", "serving", 60.0, 0.02),
        row("small", "training", 90.0, 1e-9),
    ]
}


def test_no_names_of_the_published_study_cover_each_other() -> None:
    data = json.loads((ROOT / "docs" / "explanation" / "level-of-detail.json").read_text(encoding="utf-8"))
    assert overlaps(draw(Printed("lod", data), "level_of_detail")) == []


def test_every_scenario_is_a_point_with_its_name(tmp_path: Path) -> None:
    path = write_figure(draw(Printed("lod", DATA), "level_of_detail"), tmp_path / "plot.svg")
    text = path.read_text(encoding="utf-8")
    for name in ("chat", "crossed", "small", "serving", "training"):
        assert f"<!-- {name} -->" in text
