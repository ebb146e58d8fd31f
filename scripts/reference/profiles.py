"""The page of all hardware and engine profiles, with the sources of their numbers, from the files themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from scripts.reference.markdown import MADE, table
from simsys.report.catalogue import rows
from simsys.report.prose import wrapped

FOLDER = Path(__file__).resolve().parents[2] / "hardware_profiles"
INTRODUCTION = f"""\
# Profiles and their sources

{MADE}

`simsys list gpus` (nodes, fabrics, engines) prints the tables, `simsys show gpu H100 --all` every number of a profile.
The tables below have the values that a run uses. The sources are those of the data sheets and documents; numbers that
`simsys calibrate` has fitted to measurements are in `hardware_profiles/fits`, each with the tables of its fit.
"""
KINDS = {"gpus": "GPUs", "nodes": "Nodes", "fabrics": "Fabrics", "engines": "Engines"}


def page_text() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION, *(line for kind, title in KINDS.items() for line in _kind(kind, title))]
    return wrapped("\n".join(lines)).rstrip("\n") + "\n"


def _kind(kind: str, title: str) -> Iterator[str]:
    found = rows(kind)
    yield from (f"## {title}", "")
    columns = list(found[0])
    yield from table(columns, ([_text(row[column]) for column in columns] for row in found))
    for row in found:
        yield from _profile(kind, str(row["name"]))


def _profile(kind: str, name: str) -> Iterator[str]:
    profile = yaml.safe_load((FOLDER / kind / f"{name}.yaml").read_text(encoding="utf-8"))
    yield from (f"### {name}", "")
    if base := profile.get("extends"):
        yield from (f"Extends `{base}`; its sources hold for what is not listed.", "")
    sources = dict(_flat(profile.get("sources", {})))
    if price := profile.get("price"):
        sources["price"] = f"{price.get('source', '')} ({price.get('as_of', '')})"
    if sources:
        yield from table(("number", "source"), ((f"`{key}`", text) for key, text in sources.items()))


def _flat(sources: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in sources.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", str(value)


def _text(value: object) -> str:
    return "–" if value is None or value == "" else str(value)
