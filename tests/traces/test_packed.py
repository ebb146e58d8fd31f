"""Files, compressed or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simsys.errors import TraceError
from simsys.traces.packed import beginning, read_whole

TEXT = "\n".join(map(str, range(5000)))


@pytest.mark.parametrize("packed", [True, False])
def test_text_is_read_whole_or_its_beginning(tmp_path: Path, packed: bool) -> None:
    content = TEXT.encode()
    (tmp_path / "file").write_bytes(gzip.compress(content) if packed else content)
    assert read_whole(tmp_path / "file") == TEXT
    assert beginning(tmp_path / "file", 10) == TEXT[:10]
    with pytest.raises(TraceError, match="larger than 0 MiB when unpacked"):
        read_whole(tmp_path / "file", most=100)


def test_a_cut_file_has_a_beginning(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(gzip.compress(TEXT.encode())[:-200])
    assert TEXT.startswith(beginning(tmp_path / "cut", 100_000))
    assert beginning(tmp_path / "cut", 100) == TEXT[:100]


def test_what_cannot_be_read_has_no_beginning(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"\x1f\x8brubbish")
    for name in ("damaged", "none", ".", "a\0"):
        assert beginning(tmp_path / name, 100_000) == ""


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(gzip.compress(TEXT.encode())[:-3])
    with pytest.raises(TraceError, match="cut: the compressed file is cut off"):
        read_whole(tmp_path / "cut")
