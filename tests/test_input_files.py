"""Input files: what is refused before it is read, and what JSON may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simsys.config.document import read_document
from simsys.config.edges import read_edges
from simsys.errors import SimsysError
from simsys.fidelity.tables.nccl_tests import nccl_tests_cases
from simsys.fidelity.tables.table import read_table
from simsys.fidelity.tables.vllm_result import read_result
from simsys.input_files import ContentError, parse_json, read_text, unreadable
from simsys.model.huggingface.config_file import read_config
from simsys.serving.traces.reader import read_lengths

READERS = (
    read_document,
    read_edges,
    read_config,
    nccl_tests_cases,
    read_result,
    read_table,
    lambda path: read_lengths(path, "tokens"),
)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["pipe.csv", "zero.csv"])
def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path, reader, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    with pytest.raises(SimsysError, match="a pipe or a device; a regular file is needed") as caught:
        reader(tmp_path / name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("1" * 400, "a number of 400 digits"),
        ("1" * 5000, "a number of 5000 digits"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
    ],
)
def test_json_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ContentError, match=message):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,\n "b": }', (2, 7)),
        ('{"a": {"b": 1},\n "b": {"a": 2, "c": {"a": 3}},\n  "a": 4}', (3, 3)),
        ('{"a": "{\\"a\\": 1}",\n"x": [{"a": 1}, {"a": 2,\n "a" : 3}]}', (3, 2)),
        ('{"a": [1,\n' + "9" * 400 + "]}", (2, 1)),
        ('{"a": "[[[", "b":\n ' + "[" * 100_000 + "]" * 100_000 + ',\n"c": []}', (2, 100_001)),
    ],
)
def test_the_place_of_what_is_wrong_in_json(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(ContentError) as caught:
        parse_json(text)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("reader", [nccl_tests_cases, read_result])
def test_deep_json_of_measurements_is_an_error_of_the_file(tmp_path: Path, reader) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"a":' * 100_000)
    with pytest.raises(SimsysError, match="nested too deeply") as caught:
        reader(file)
    assert caught.value.exit_code == 2


def test_the_line_of_the_first_bad_byte_and_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\ntwo\xff")
    with pytest.raises(ContentError, match="not UTF-8 text") as caught:
        read_text(file)
    assert (caught.value.line, caught.value.column) == (2, 4)
    assert unreadable(file, caught.value) == f"{file}:2:4: this is not UTF-8 text"
    file.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        read_text(file, 2**20)


def test_a_huge_cell_of_a_table_is_an_error_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b\n1," + "x" * 140_000 + "\n")
    with pytest.raises(SimsysError, match=r"t\.csv:2: not a table of comma-separated values"):
        read_table(file)


def test_booleans_and_infinity_are_no_totals_of_a_result(tmp_path: Path) -> None:
    for value in ("true", "Infinity", "NaN"):
        file = tmp_path / "r.json"
        file.write_text(f'{{"completed": {value}, "total_input_tokens": 1, "total_output_tokens": 1}}')
        with pytest.raises(SimsysError, match=r"r\.json:1:15: completed: .* a whole number"):
            read_result(file)
