"""What limits a run and what helps: losses by resource with their place, and remedies that were simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.html.blocks import Block, Items, Page, Section, Table
from simsys.report.text import percent
from simsys.version import __version__


def analyses_page(found: Mapping[str, Any]) -> Page:
    """Lay out analyses, as ``simsys analyze --json`` prints them."""
    analyses = found["analyses"]
    sections = [Section(str(each["name"]), list(analysis_blocks(each))) for each in analyses]
    warnings = [str(note) for each in analyses for note in each.get("notes", ())]
    if len(analyses) != 1:
        return Page("Analyses", f"{len(analyses)} scenarios", warnings, sections, [f"simsys {__version__}"])
    return Page(
        str(analyses[0]["name"]), analysis_headline(analyses[0]), warnings, sections, [f"simsys {__version__}"]
    )


def analysis_headline(found: Mapping[str, Any]) -> str:
    """The most severe loss, and the best remedy, in a sentence."""
    first = next((each for each in found["findings"] if each["severity"]), None)
    if first is None:
        return "no time is lost"
    text = f"{_words(first['kind'])} takes {percent(first['severity'])} of the time"
    best = next(iter(found.get("remedies", ())), None)
    return text if best is None else f"{text}; {settings_text(best['settings'])} gains {percent(best['gain'])}"


def analysis_blocks(found: Mapping[str, Any]) -> Iterator[Block]:
    """Resources by severity, and remedies by gain."""
    lost = [each for each in found["findings"] if each["severity"] or each.get("text")]
    if lost:
        rows = [
            [f"{each['job']}: {_words(each['kind'])}" if each.get("job") else _words(each["kind"]), each["severity"],
             each["level"], each.get("place", ""), each.get("text", "")]
            for each in lost
        ]  # fmt: skip
        yield Table("Losses by resource", ["resource", "share of the time", "level", "where", "evidence"], rows)
    remedies = found.get("remedies", ())
    if remedies:
        caption = f"Remedies, each simulated (best of {found['simulated']:,})"
        rows = [
            [place, settings_text(each["settings"]), each["gain"], _words(each["kind"]), each["lost_before"],
             each["lost_after"], each.get("usd_ratio"), each.get("gpus", 0), each.get("note", "")]
            for place, each in enumerate(remedies, 1)
        ]  # fmt: skip
        columns = [
            "rank",
            "settings",
            "gain",
            "of",
            "lost before",
            "lost after",
            "price of a token, ratio",
            "more GPUs",
            "note",
        ]
        yield Table(caption, columns, rows)
    elif found.get("simulated"):
        yield Items([f"None of {found['simulated']:,} simulated settings helps."])
    if notes := [str(note) for note in found.get("notes", ())]:
        yield Items(notes)


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in a line, such as ``parallelism.tp_degree: 4``."""
    return ", ".join(f"{name}: {value}" for name, value in settings.items())


def _words(kind: str) -> str:
    return {"kv_capacity": "KV capacity"}.get(kind, kind)
