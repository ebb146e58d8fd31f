"""When and with what results were made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys import __version__
from simsys.cli import cli


def test_a_run_writes_date_and_versions_beside_results_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = datetime.now(UTC).replace(microsecond=0)
    options = ["run", "--preset", "small", "--set", "training.num_iterations=1", "--quiet"]
    assert CliRunner().invoke(cli, options).exit_code == 0
    folder = Path("results/small_scale")
    found = json.loads((folder / "small_scale_provenance.json").read_text(encoding="utf-8"))
    result = json.loads((folder / "small_scale_results.json").read_text(encoding="utf-8"))
    assert before <= datetime.fromisoformat(found["date"]) <= datetime.now(UTC)
    assert found["simsys_version"] == result["simsys_version"] == __version__
    assert found["profiles"] == result["profiles"] != {}
    assert "date" not in result
