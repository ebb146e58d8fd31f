"""Files are written whole or not at all, and the message says what went wrong."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from simsys.errors import OutputError
from simsys.report.files import Writer, write_files


def text(content: str) -> Writer:
    return lambda file: file.write(content)


def fail(error: BaseException) -> Writer:
    def write(file: TextIO) -> None:
        file.write("half")
        raise error

    return write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_written_in_order_into_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert write_files(folder, {"z.txt": text("µ\n"), "a.txt": text("")}) == [folder / "z.txt", folder / "a.txt"]
    assert (folder / "z.txt").read_bytes() == "µ\n".encode()
    assert names(folder) == ["a.txt", "z.txt"]


def test_files_of_the_same_name_are_replaced_and_others_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("long before", encoding="utf-8")
    (tmp_path / "other.txt").write_text("other", encoding="utf-8")
    write_files(tmp_path, {"old.txt": text("new")})
    assert (tmp_path / "old.txt").read_text(encoding="utf-8") == "new"
    assert (tmp_path / "other.txt").read_text(encoding="utf-8") == "other"


def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    (file,) = write_files(tmp_path, {"written": text("")})
    assert file.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_files_are_compressed_to_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_files(tmp_path / folder, {"x.gz": text("word\n" * 1000), "y.gz": text("word\n" * 1000)})
    contents = [path.read_bytes() for path in sorted(tmp_path.rglob("*.gz"))]
    assert contents == [contents[0]] * 4
    assert gzip.decompress(contents[0]).decode() == "word\n" * 1000
    assert len(contents[0]) < 100


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()]
)
@pytest.mark.parametrize("second", ["second.txt", "second.txt.gz"])
def test_a_failure_leaves_the_old_files_and_nothing_else(tmp_path: Path, error: BaseException, second: str) -> None:
    (tmp_path / "first.txt").write_text("old", encoding="utf-8")
    expected = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write_files(tmp_path, {"first.txt": text("new"), second: fail(error)})
    assert names(tmp_path) == ["first.txt"]
    assert (tmp_path / "first.txt").read_text(encoding="utf-8") == "old"


def test_the_message_names_the_file_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write .*second\.txt: No space left on device"):
        write_files(tmp_path, {"second.txt": fail(OSError(errno.ENOSPC, "No space left on device"))})


@pytest.mark.parametrize("below", ["", "folder", "folder/folder"])
def test_a_file_where_a_folder_is_needed_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    with pytest.raises(OutputError, match=r"file is a file, a folder is needed"):
        write_files(file / below, {"x": text("")})
    assert file.read_text(encoding="utf-8") == "kept"


def test_a_folder_in_the_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*x: Is a directory"):
        write_files(tmp_path, {"x": text("")})
    assert names(tmp_path) == ["x"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        write_files(tmp_path, {"x": text("")})


@pytest.mark.skipif(os.name != "posix", reason="limits on the size of files are POSIX")
@pytest.mark.parametrize("name", ["b", "b.gz"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, name: str) -> None:
    program = (
        "import random, resource, sys; from pathlib import Path; from simsys.report.files import write_files;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "text = ''.join(random.choices('0123456789abcdef', k=100_000));"
        f"write_files(Path(sys.argv[1]), {{'a': lambda f: f.write('x'), '{name}': lambda f: f.write(text)}})"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "OutputError: cannot write" in process.stderr
    assert "File too large" in process.stderr
    assert "ignored" not in process.stderr
    assert names(tmp_path) == []


def test_what_a_killed_program_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    for name in (".a.txt.01234567.tmp", ".other.txt.01234567.tmp"):
        (tmp_path / name).touch()
    write_files(tmp_path, {"a.txt": text("new")})
    assert names(tmp_path) == [".other.txt.01234567.tmp", "a.txt"]


def test_files_that_another_program_writes_now_are_left_alone(tmp_path: Path) -> None:
    def nested(file: TextIO) -> None:
        write_files(tmp_path, {"a.txt": text("inner")})
        file.write("outer")

    write_files(tmp_path, {"a.txt": nested})
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "outer"
