"""Every Python example in the README and the docs runs."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path

import pytest

from simsys.collectives import ALGORITHMS
from simsys.framework import FRAMEWORKS, DataParallel, Schedule, Scheduler
from simsys.metrics.own import ANALYSES, METRICS
from simsys.model.aggregates import STEPS
from simsys.model.model import Block
from simsys.model.model_entry import ENTRY_KEYS, OPERATOR_KEYS
from simsys.testing import check_framework
from tests.helpers.places import ROOT

MODULES = (DataParallel, Schedule, Scheduler)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{index}")
    for page in PAGES
    for index, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S))
]


@pytest.fixture(autouse=True)
def all_as_before() -> object:
    """Forget what an example registers, and the variables of the environment that it sets."""
    registries = (FRAMEWORKS, ALGORITHMS, METRICS, ANALYSES)
    before, environment = [set(registry.names()) for registry in registries], dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(environment)
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry.names()) - names:
            registry.forget(name)


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs; a module that it defines passes the conformance kit."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    exec(compile(code, "example", "exec"), namespace)
    for value in namespace.values():
        if isinstance(value, type) and issubclass(value, MODULES) and value.__module__ == "example":
            check_framework(value)


def test_there_are_examples() -> None:
    """The search above finds them."""
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links exist."""
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_page_of_the_model_db_has_every_key() -> None:
    """Of models, macro operations, layers and operators, as the code reads them."""
    page = (ROOT / "docs" / "model-db.md").read_text(encoding="utf-8")
    layer_keys = [spec.name for spec in fields(Block)]
    keys = {*ENTRY_KEYS, *(key for step in STEPS.values() for key in step), *layer_keys, "repeat", *OPERATOR_KEYS}
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert keys <= described
    steps = {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    assert set(STEPS) <= steps
