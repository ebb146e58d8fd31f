from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import simsys.sweeps.store as module
from simsys.errors import OutputError, UsageError
from simsys.sweeps.evaluate import Row
from simsys.sweeps.points import Point
from simsys.sweeps.run import merge
from simsys.sweeps.store import FILENAME, Store

POINTS = [Point(0, (1, "a"), None, "k0"), Point(1, (2, {"b": 1}), 7, "k1"), Point(2, (3, None), 8, "k0")]


def begun(folder: Path, text: str = "x", name: str = "toy") -> Store:
    store = Store(folder, write=True)
    try:
        store.begin(name, {"scenario": text}, ["p", "q"], POINTS)
    except BaseException:
        store.close()
        raise
    return store


def test_points_come_back_with_their_rows(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add([Row("k0", "ok", "", "{}")])
        assert [(point, row and row.state) for point, row in store.points()] == [
            (POINTS[0], "ok"),
            (POINTS[1], None),
            (POINTS[2], "ok"),
        ]
    with Store(tmp_path) as store:
        assert store.states() == {"k0": "ok"}
        assert store.paths() == ["p", "q"]


def test_a_row_is_written_once(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add([Row("k0", "crashed", "why")])
        store.add([Row("k0", "ok", "", "{}"), Row("k0", "ok", "", "{}")])
        assert store.states() == {"k0": "ok"}


def test_the_same_sweep_resumes(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add([Row("k0", "ok", "", "{}")])
    with begun(tmp_path) as store:
        assert store.states() == {"k0": "ok"}


def test_another_experiment_or_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path).close()
    with pytest.raises(UsageError, match="a sweep of toy with other settings; give another folder with --out"):
        begun(tmp_path, "y")
    with pytest.raises(UsageError, match="the sweep of another experiment \\(toy\\)"):
        begun(tmp_path, "y", "other")
    monkeypatch.setattr(module, "__version__", "9.9.9")
    with pytest.raises(UsageError, match=r"was written by simsys .*, this is 9.9.9"):
        begun(tmp_path)


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    with begun(tmp_path):
        with pytest.raises(UsageError, match="another sweep writes here"):
            Store(tmp_path, write=True)
        with Store(tmp_path) as reader:
            assert reader.meta()["name"] == "toy"
    begun(tmp_path).close()


def test_another_process_is_refused_until_the_writer_ends(tmp_path: Path) -> None:
    code = (
        f"from simsys.sweeps.store import Store; from pathlib import Path; Store(Path({str(tmp_path)!r}), write=True)"
    )
    with begun(tmp_path):
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another sweep writes here" in second.stderr


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no sweep"):
        Store(tmp_path)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILENAME).write_bytes(b"no database at all" * 100)
    for _ in range(2):  # a store that cannot be opened must not stay locked
        with pytest.raises(UsageError, match="damaged or no store"):
            Store(tmp_path, write=True)
    with pytest.raises(UsageError, match="damaged or no store"), Store(tmp_path) as store:
        store.meta()


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / FILENAME).execute("CREATE TABLE other (x)").connection.close()
    with pytest.raises(UsageError, match="no store of a sweep"), Store(tmp_path):
        pass


def test_a_store_of_another_format_is_refused_also_for_reading(tmp_path: Path) -> None:
    begun(tmp_path).close()
    base = sqlite3.connect(tmp_path / FILENAME)
    base.execute("UPDATE meta SET value = '99' WHERE name = 'format'")
    base.commit()
    base.close()
    with pytest.raises(UsageError, match=r"another format \(99\); give another folder"):
        Store(tmp_path, write=True)
    with pytest.raises(UsageError, match=r"another format \(99\); it cannot be used here"):
        Store(tmp_path)


def test_a_store_of_another_version_is_not_merged_into_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path / "old").close()
    monkeypatch.setattr(module, "__version__", "9.9.9")
    with pytest.raises(UsageError, match=r"this is 9.9.9; it cannot be used here"):
        merge(tmp_path / "new", [tmp_path / "old"])


def test_nothing_is_made_where_a_store_to_be_merged_is_missing(tmp_path: Path) -> None:
    begun(tmp_path / "old").close()
    with pytest.raises(UsageError, match="holds no sweep"):
        merge(tmp_path / "new", [tmp_path / "old", tmp_path / "none"])
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_a_file_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot write"):
        Store(tmp_path / "file", write=True)


def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add([Row("k0", "ok", "", "{}")])
        pages = store._base.execute("PRAGMA page_count").fetchone()[0]
        store._base.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OutputError, match="full"):
            store.add([Row(f"key {index}", "ok", "", "x" * 1000) for index in range(1000)])
        assert store.states() == {"k0": "ok"}
    shutil.copytree(tmp_path, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / FILENAME)) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_merging_adds_what_is_missing_and_may_be_repeated(tmp_path: Path) -> None:
    with begun(tmp_path / "a") as store:
        store.add([Row("k0", "crashed", "why"), Row("k1", "ok", "", "{}")])
    with begun(tmp_path / "b") as store:
        store.add([Row("k0", "ok", "", "{}"), Row("k1", "timed out", "why")])
    with Store(tmp_path / "c", write=True) as target:
        for name in ("a", "b", "a", "b"):
            with Store(tmp_path / name) as source:
                target.add_from(source)
        assert target.states() == {"k0": "ok", "k1": "ok"}
        assert [point for point, _ in target.points()] == POINTS
    begun(tmp_path / "other", "y").close()
    with Store(tmp_path / "c", write=True) as target, Store(tmp_path / "other") as source:
        with pytest.raises(
            UsageError, match=r"other: this store is of a sweep of toy with other settings; it cannot be"
        ):
            target.add_from(source)
        assert target.states() == {"k0": "ok", "k1": "ok"}
