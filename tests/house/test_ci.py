"""What runs elsewhere names things that exist here: workflows, hooks and the image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.places import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def jobs() -> dict[str, Any]:
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def test_there_is_a_job_for_each_check() -> None:
    assert set(jobs()) == {"lint", "test", "docs", "wheel", "docker"}


def test_every_supported_python_is_tested() -> None:
    tested = jobs()["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f">={tested[0]}" == project["requires-python"]
    assert tested == ["3.11", "3.12", "3.13", "3.14"]


def test_targets_and_verbs_exist() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = (ROOT / "scripts" / "dev.sh").read_text(encoding="utf-8")
    targets = re.findall(r"- run: make ([\w-]+)", text)
    assert targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []
    assert [name for name in re.findall(r"dev\.sh ([\w-]+)", text) if f"{name})" not in verbs] == []


def test_hooks_name_scripts_that_exist() -> None:
    hooks = [hook for repo in yaml.safe_load(HOOKS.read_text(encoding="utf-8"))["repos"] for hook in repo["hooks"]]
    named = [Path(word) for hook in hooks for word in hook["entry"].split() if word.startswith(("scripts/", "tests/"))]
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert {hook["language"] for hook in hooks} == {"system"}


def test_the_image_copies_what_exists_and_the_build_context_has_it() -> None:
    copied = [
        source for line in re.findall(r"^COPY (?!--from)(.*) \S+$", IMAGE, re.MULTILINE) for source in line.split()
    ]
    sources = [source for source in copied if not source.startswith("--")]
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert {"simsys", "pyproject.toml", "experiments"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if f"!{source}\n" not in allowed] == []


def test_the_image_runs_the_main_job_without_root() -> None:
    last = IMAGE.rpartition("\nFROM ")[2]
    assert last.startswith("python:3.12-slim\n")
    assert re.search(r"^USER simsys$", last, re.MULTILINE)
    assert 'ENTRYPOINT ["simsys"]\nCMD ["run", "experiments/experiment_config.yaml"]' in last


@pytest.mark.parametrize("name", ["SECURITY.md", "CONTRIBUTING.md", "LICENSE", "CHANGELOG.md"])
def test_the_usual_files_are_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 500


def test_the_changelog_has_this_version_with_its_date() -> None:
    from simsys import __version__

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(__version__)}\] - 20\d\d-\d\d-\d\d$", changelog, re.MULTILINE)
