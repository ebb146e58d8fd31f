"""Every Python example in the README and the docs runs; pages are few, in their place, linked and narrow enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts.mkdocs_hooks import within_site
from simsys.collectives import ALGORITHMS
from simsys.framework import FRAMEWORKS, DataParallel, Schedule, Scheduler
from simsys.metrics.own import ANALYSES, METRICS
from simsys.model.aggregates import STEPS
from simsys.model.model import Block
from simsys.model.model_entry import ENTRY_KEYS, OPERATOR_KEYS
from simsys.testing import check_framework
from tests.helpers.places import ROOT

MODULES = (DataParallel, Schedule, Scheduler)
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXTS = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
KINDS = {"tutorials", "how-to", "reference", "explanation"}
MOST_PAGES = 30
THEIRS = "docs/design/metrics.md"
"""A page of vLLM."""
NO_PROSE = ("|", "#", ">", "<", "![")
"""How lines begin that cannot be divided."""
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{index}", marks=pytest.mark.slow if "greatest_rate(" in code else ())
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


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files that exist, and headings that these have."""
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), f"{target}#{anchor}"


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_pages_are_few_and_of_one_kind() -> None:
    """Tutorials, how-to guides, reference and explanation, each in its folder."""
    pages = sorted(DOCS.rglob("*.md"))
    assert len(pages) <= MOST_PAGES
    assert {page.relative_to(DOCS).parts[0] for page in pages} <= {"index.md", "glossary.md", *KINDS}


def test_every_page_is_in_the_navigation_and_on_the_first_page() -> None:
    """Of the site that `make docs` builds."""
    names = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)) == names
    first = (DOCS / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([\w/-]+\.md)\)", first)) == names - {"index.md"}


def test_pages_that_code_names_exist() -> None:
    """Docstrings, messages and descriptions of settings name pages by their paths."""
    sources = [
        path for folder in ("simsys", "frameworks", "scripts", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    sources += [ROOT / "experiments" / "experiment.schema.json", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    found = {
        (source.name, name)
        for source in sources
        for name in re.findall(r"(?<![\w./])docs/[\w/-]+\.md\b", source.read_text(encoding="utf-8"))
    }
    assert len(found) > 5
    assert [pair for pair in sorted(found) if pair[1] != THEIRS and not (ROOT / pair[1]).is_file()] == []


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_lines_of_prose_are_narrow(page: Path) -> None:
    """As lines of code are; tables, headings and code cannot be divided."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    wide = [line for line in text.splitlines() if len(line) > 119 and not line.lstrip().startswith(NO_PROSE)]
    assert wide == []


def test_links_out_of_the_site_become_paths() -> None:
    """The site has only pages."""
    text = "[a](../../experiments/a.yaml), [b](b.md), [c](https://c.org)"
    assert within_site(text, "how-to/x.md") == "a (`experiments/a.yaml`), [b](b.md), [c](https://c.org)"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra `docs`")
def test_the_site_is_built(tmp_path: Path) -> None:
    """Without a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "index.html").is_file()


def test_the_page_of_the_model_db_has_every_key() -> None:
    """Of models, macro operations, layers and operators, as the code reads them."""
    page = (ROOT / "docs" / "reference" / "model-db.md").read_text(encoding="utf-8")
    layer_keys = [spec.name for spec in fields(Block)]
    keys = {*ENTRY_KEYS, *(key for step in STEPS.values() for key in step), *layer_keys, "repeat", *OPERATOR_KEYS}
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert keys <= described
    steps = {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    assert set(STEPS) <= steps


def test_every_decision_has_its_date() -> None:
    """Sections of the pages of decisions, but for the list of what is not validated."""
    folder = DOCS / "explanation"
    texts = [page.read_text(encoding="utf-8") for page in sorted(folder.glob("decisions-*.md"))]
    assert len(texts) == 3
    texts.append((folder / "architecture.md").read_text(encoding="utf-8").partition("## Decisions about")[2])
    sections = [section for text in texts for section in re.split(r"^##+ ", text, flags=re.M)[1:]]
    undated = [each.split("\n")[0] for each in sections if not re.search(r"\*20\d\d-\d\d-\d\d\.\*", each)]
    assert len(sections) > 40
    assert undated == ["Not cross-validated"]
