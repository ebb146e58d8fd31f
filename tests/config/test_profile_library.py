"""Where profiles of the user are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.config.profile_library import ProfileLibrary, own_folders
from simsys.data import data_folders

SHIPPED = data_folders("hardware_profiles")[-1]


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)


def test_profiles_below_hardware_profiles_come_before_those_beside_the_experiment(tmp_path: Path) -> None:
    make(tmp_path, "hardware_profiles/gpus", "gpus")
    assert own_folders(tmp_path) == (tmp_path / "hardware_profiles", tmp_path)
    for folder, memory in (("hardware_profiles/gpus", "1 GB"), ("gpus", "2 GB")):
        (tmp_path / folder / "X.yaml").write_text(f"extends: L4\nmemory: {memory}\n", encoding="utf-8")
    found = ProfileLibrary.of("gpu", own_folders(tmp_path))
    assert found.find("x") == tmp_path / "hardware_profiles" / "gpus" / "X.yaml"
    assert found.find("H100").parent == SHIPPED / "gpus"


@pytest.mark.parametrize("name", ["gpus", "nodes", "fabrics", "engines", "fits"])
def test_a_folder_counts_if_it_has_one_of_the_folders_of_profiles(tmp_path: Path, name: str) -> None:
    make(tmp_path, "results")
    assert own_folders(tmp_path) == ()
    make(tmp_path, name)
    assert own_folders(tmp_path) == (tmp_path,)


def test_another_folder_may_be_named_by_a_path_from_there(tmp_path: Path) -> None:
    make(tmp_path, "lab/gpus", "study/nodes")
    assert own_folders(tmp_path / "study", "../lab") == (tmp_path / "lab",)
    assert own_folders(tmp_path / "study", str(tmp_path / "lab")) == (tmp_path / "lab",)
    assert own_folders(tmp_path / "study", "nowhere") == ()


@pytest.mark.parametrize("name", ["~no such user/x", "a\0b"])
def test_what_is_no_path_leads_nowhere(tmp_path: Path, name: str) -> None:
    assert own_folders(tmp_path, name) == ()


def test_the_shipped_profiles_are_not_the_users_even_from_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would come before those of $SIMSYS_PATH."""
    assert own_folders(SHIPPED.parent) == ()
    monkeypatch.chdir(SHIPPED.parent)
    assert own_folders(Path()) == ()
