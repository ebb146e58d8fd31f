"""What the README promises beside its Python and console examples: a scenario of one's own, and the picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from tests.helpers.places import ROOT
from tests.helpers.published_configs import QWEN3_32B

README = (ROOT / "README.md").read_text(encoding="utf-8")
TRACE = ROOT / "experiments" / "traces" / "chat_sample.csv"


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The scenario with an own GPU and an own model, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (scenario,) = re.findall(r"^```yaml\n# mine\.yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    Path("mine.yaml").write_text(scenario, encoding="utf-8")
    Path("config.json").write_text(json.dumps(QWEN3_32B), encoding="utf-8")
    return "mine.yaml"


def simsys(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_an_own_gpu_and_an_own_model_run(own_file: str) -> None:
    assert "ok" in simsys("check", own_file)
    printed = simsys("run", own_file)
    assert printed.startswith("mine: ")
    assert "32.8 B parameters" in " ".join(printed.split())


def test_a_trace_replaces_the_traffic(own_file: str) -> None:
    own, recorded = (simsys("run", own_file, "--no-files", "--quiet", *more) for more in ([], set_trace()))
    assert own != recorded


def set_trace() -> list[str]:
    return ["--set", f"workload={{trace: {TRACE}}}"]


def test_it_links_a_glossary_of_at_most_80_terms() -> None:
    assert "(docs/glossary.md)" in README
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.startswith(("| term ", "| --- "))]
    assert 0 < len(rows) - len(heads) <= 80


@pytest.mark.slow
def test_the_picture_is_what_its_commands_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    simsys("sweep", str(ROOT / "experiments" / "sweep.yaml"), "--scenario", "sweep-rates")
    simsys("plot", "results/sweep-rates", "throughput_latency", "--out", "throughput-latency.svg")
    drawn = Path("throughput-latency.svg").read_text(encoding="utf-8")
    assert drawn == (ROOT / "docs" / "images" / "throughput-latency.svg").read_text(encoding="utf-8")
