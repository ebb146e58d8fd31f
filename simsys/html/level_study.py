"""The page of a study of the levels of detail: how much faster medium is, and how far from high."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.html.blocks import Items, Page, Picture, Section, Table
from simsys.html.charts import stacked_bars
from simsys.version import __version__


def level_study_page(found: Mapping[str, Any]) -> Page:
    """Lay out a study, as ``simsys lod --json`` prints it."""
    columns = ["scenario", "speed-up", "speed-up of CPU time", "fewer events", "largest difference", "reasons"]
    rows = [
        [each["name"], each["speedup"], each["cpu_speedup"], each["event_reduction"], each["largest_difference"],
         "; ".join(each["reasons"])]
        for each in found["scenarios"]
    ]  # fmt: skip
    table = Table("Medium against high", columns, rows)
    conclusion = Section("Conclusion", [Items(found["conclusion"])] if found.get("conclusion") else [])
    bars = {
        f"{study['name']}, {level}": {name: 100.0 * share for name, share in part["shares"].items()}
        for study in found.get("breakdown", ())
        for level, part in study["levels"].items()
    }
    caption = "CPU time by package"
    pictures = [Picture(caption, stacked_bars(caption, bars, "%"))] if bars else []
    machine = ", ".join(f"{name} {value}" for name, value in found.get("machine", {}).items())
    sections = [Section("Levels", [table]), conclusion, Section("Where the time of the simulator goes", pictures)]
    refused = [f"{each['name']}: {each['error']}" for each in found.get("refused", ())]
    return Page("Levels of detail", f"{len(rows)} scenarios at high and at medium", refused, sections, [
        f"simsys {__version__}", *([machine] if machine else [])
    ])  # fmt: skip
