"""Results of another configuration with the same name are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import OutputError
from simsys.report.earlier_results import keep_earlier, place_of_earlier


def run(folder: Path, config: str) -> Path | None:
    """As a run: keep what was there, then write."""
    kept = keep_earlier(folder, "a", config)
    folder.mkdir(exist_ok=True)
    for name in ("config.yaml", "results.json"):
        (folder / f"a_{name}").write_text(config, encoding="utf-8")
    return kept


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def test_the_same_configuration_is_replaced(tmp_path: Path) -> None:
    assert run(tmp_path / "a", "one") is None
    assert run(tmp_path / "a", "one") is None
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_another_configuration_is_moved_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    run(folder, "one")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    place = place_of_earlier(folder, "a", "two")
    assert run(folder, "two") == place
    assert place is not None
    assert content(place) == {"a_config.yaml": "one", "a_results.json": "one"}
    assert content(folder) == {"a_config.yaml": "two", "a_results.json": "two", "notes.txt": "mine"}


def test_alternating_makes_no_further_folders(tmp_path: Path) -> None:
    for config in ("one", "two") * 3:
        run(tmp_path / "a", config)
    assert len(list(tmp_path.iterdir())) == 3


def test_an_interrupted_move_is_completed(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    run(folder, "one")
    place = place_of_earlier(folder, "a", "two")
    assert place is not None
    place.mkdir()
    (folder / "a_results.json").rename(place / "a_results.json")
    run(folder, "two")
    assert content(place) == {"a_config.yaml": "one", "a_results.json": "one"}


def test_what_cannot_be_moved_is_an_error(tmp_path: Path) -> None:
    run(tmp_path / "a", "one")
    place = place_of_earlier(tmp_path / "a", "a", "two")
    assert place is not None
    place.write_text("a file", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot move the earlier results"):
        run(tmp_path / "a", "two")
    assert content(tmp_path / "a")["a_config.yaml"] == "one"
