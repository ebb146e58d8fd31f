from __future__ import annotations

import os

import pytest

from simsys.data import data_folders, find_data
from simsys.errors import UnknownNameError
from tests.helpers.places import ROOT

SHIPPED = ROOT / "model_db"


def test_user_paths_come_before_the_environment_and_that_before_the_shipped_folder(tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    monkeypatch.setenv("SIMSYS_PATH", os.pathsep.join([str(first), "", str(second)]))
    mine = tmp_path / "mine"
    assert data_folders("model_db", [mine]) == [mine, first / "model_db", second / "model_db", SHIPPED]


def test_a_folder_is_named_once(monkeypatch):
    monkeypatch.setenv("SIMSYS_PATH", str(SHIPPED.parent))
    assert data_folders("model_db", [SHIPPED, SHIPPED]) == [SHIPPED]


def test_the_first_file_of_the_name_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("SIMSYS_PATH", raising=False)
    name = "model_characteristics_db.json"
    assert find_data("model_db", name, [tmp_path]) == SHIPPED / name
    (tmp_path / name).write_text("{}", encoding="utf-8")
    assert find_data("model_db", name, [str(tmp_path)]) == tmp_path / name


def test_a_missing_file_is_an_error_with_a_suggestion(tmp_path):
    with pytest.raises(UnknownNameError, match=r"did you mean 'model_characteristics_db\.json'"):
        find_data("model_db", "model_characteristic_db.json", [tmp_path / "absent"])
