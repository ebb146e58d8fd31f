from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.errors import TraceError, UsageError
from simsys.serving.traces import read_trace

ROOT = Path(__file__).resolve().parents[1]
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROWS = [
    "2026-01-05 23:59:59.9999999,374,44",
    "2026-01-06 00:00:00.0000000,396,109",
    "2026-01-06 00:00:02.5000001,879,55",
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "chat.csv"


def refusal(path: Path, data: bytes | str) -> str:
    """Write a file, expect it to be refused, and return the message without the folder."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    return str(caught.value).replace(str(path), path.name)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "{end}", "{end}{end}  {end}"])
def test_reads_rows_whatever_the_line_ends(trace: Path, end: str, mark: str, last: str) -> None:
    trace.write_bytes((mark + end.join([HEADER, *ROWS]) + last.format(end=end)).encode())
    table, report = read_trace(trace)
    assert table.arrival_s == [0.0, 1e-7, 2.5000002]  # seconds from the first row, to 100 ns, over midnight
    assert table.prompt_tokens == [374, 396, 879]
    assert table.output_tokens == [44, 109, 55]
    assert (report.format, report.rows, report.span_s) == ("azure", 3, 2.5000002)


def test_report_describes_the_requests(trace: Path) -> None:
    rows = [f"2026-01-05 00:00:{second:02},{tokens},{tokens * 2}" for second, tokens in [(1, 10), (2, 20), (5, 60)]]
    trace.write_text("\n".join([HEADER, *rows]))
    _, report = read_trace(trace)
    assert (report.mean_rate_per_s, report.mean_prompt_tokens, report.mean_output_tokens) == (0.5, 30.0, 60.0)
    assert report.gap_cv == 0.5


@pytest.mark.parametrize(
    ("first", "second", "gap_s"),
    [
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:01+00:00", 0.99007),
        ("2024-05-10T00:00:00Z", "2024-05-10T02:00:00.5+01:00", 3600.5),
        ("2024-02-28 23:59:59", "2024-03-01 00:00:00", 86401.0),
        ("2024-05-10 00:00:00.000000001", "2024-05-10 00:00:00.000000003", 2e-9),
    ],
)
def test_timestamps_with_offsets_and_any_decimals(trace: Path, first: str, second: str, gap_s: float) -> None:
    trace.write_text(f"{HEADER}\n{first},1,1\n{second},1,1\n")
    assert read_trace(trace)[0].arrival_s == [0.0, gap_s]


def test_columns_are_found_by_name_and_may_be_quoted(trace: Path) -> None:
    trace.write_text('"GeneratedTokens", "TIMESTAMP", ContextTokens\n44,"2026-01-05 00:00:00", 374\n')
    table, _ = read_trace(trace)
    assert (table.prompt_tokens, table.output_tokens) == ([374], [44])


def test_rate_scale_divides_the_times(trace: Path) -> None:
    trace.write_text("\n".join([HEADER, *ROWS]))
    assert read_trace(trace, rate_scale=2.0)[0].arrival_s == [0.0, 5e-8, 1.2500001]


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_max_requests_reads_no_further(trace: Path, limit: int) -> None:
    trace.write_text("\n".join([HEADER, *ROWS] + (["broken"] if limit <= 3 else [])))
    assert len(read_trace(trace, max_requests=limit)[0]) == min(limit, 3)


@pytest.mark.parametrize("limit", [0, -1])
def test_impossible_limits_are_refused(trace: Path, limit: int) -> None:
    with pytest.raises(UsageError, match="max_requests must be at least 1"):
        read_trace(trace, max_requests=limit)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_impossible_scales_are_refused(trace: Path, scale: float) -> None:
    with pytest.raises(UsageError, match="rate_scale must be a finite number above 0"):
        read_trace(trace, rate_scale=scale)


def test_every_broken_row_is_named_with_its_line(trace: Path) -> None:
    rows = [ROWS[0], "2026-01-05 18:1", "", "2026-13-06 00:00:00,5,5", "2026-01-06 00:00:00,0,-4", ROWS[1]]
    assert refusal(trace, "\n".join([HEADER, *rows])) == (
        "chat.csv:3: 3 columns are needed, not 1: '2026-01-05 18:1'\n"
        "chat.csv:5: TIMESTAMP is '2026-13-06 00:00:00', not a time such as 2023-11-16 18:17:03.9799600\n"
        "chat.csv:6: ContextTokens is '0', not a whole number from 1 to 999999999"
    )


def test_an_unknown_header_names_the_known_one(trace: Path) -> None:
    assert refusal(trace, "timestamp,context_tokens,generated_tokens\n") == (
        "chat.csv:1: unknown header 'timestamp,context_tokens,generated_tokens', "
        "did you mean 'TIMESTAMP,ContextTokens,GeneratedTokens'?"
    )
    assert "known: TIMESTAMP,ContextTokens,GeneratedTokens" in refusal(trace, "a;b\n")


@pytest.mark.parametrize(
    "cell", ["", "x", "nan", "inf", "-3", "+3", "0", "00", "3.0", "1e3", "1_000", "٣", "²", "1000000000", "9" * 5000]
)
@pytest.mark.parametrize("column", ["ContextTokens", "GeneratedTokens"])
def test_a_token_count_that_is_none_is_refused(trace: Path, cell: str, column: str) -> None:
    counts = f"{cell},7" if column == "ContextTokens" else f"7,{cell}"
    message = refusal(trace, f"{HEADER}\n2026-01-05 00:00:00,{counts}\n")
    assert message.startswith(f"chat.csv:2: {column} is ")
    assert message.endswith("not a whole number from 1 to 999999999")
    assert len(message) < 200


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "nan",
        "12.5",
        "05/01/2026 00:00",
        "2026-01-05",
        "2026-01-05 24:00:00",
        "2026-01-05 00:00:60",
        "2026-02-30 00:00:00",
        "0000-01-01 00:00:00",
        "-2026-01-05 00:00:00",
        "٢026-01-05 00:00:00",
        "2026-01-05 00:00:00.",
        "2026-01-05 00:00:00.0000000001",
        "2026-01-05 00:00:00+99:00",
    ],
)
def test_a_timestamp_that_is_none_is_refused(trace: Path, stamp: str) -> None:
    assert refusal(trace, f"{HEADER}\n{stamp},1,1\n").startswith("chat.csv:2: TIMESTAMP is ")


@pytest.mark.parametrize("row", ["2026-01-05 00:00:00,1", "2026-01-05 00:00:00,1,1,1", ",", "2026-01-05 00:00:00;1;1"])
def test_a_row_of_the_wrong_width_is_refused(trace: Path, row: str) -> None:
    assert "3 columns are needed, not " in refusal(trace, f"{HEADER}\n{row}\n")


def test_an_open_quote_breaks_its_own_row_only(trace: Path) -> None:
    message = refusal(trace, f'{HEADER}\n"{ROWS[0]}\n{ROWS[1]}\nx\n')
    assert [line.partition(": ")[0] for line in message.splitlines()] == ["chat.csv:2", "chat.csv:4"]


def test_ten_rows_are_named_and_the_rest_counted(trace: Path) -> None:
    message = refusal(trace, "\n".join([HEADER, *["x"] * 37])).splitlines()
    assert len(message) == 11
    assert message[9].startswith("chat.csv:11: ")
    assert message[10] == "and 27 more"
    assert "more" not in refusal(trace, "\n".join([HEADER, *["x"] * 10]))


def test_rows_out_of_order_are_refused(trace: Path) -> None:
    message = refusal(trace, "\n".join([HEADER, ROWS[0], ROWS[2], ROWS[1], ROWS[2]]))
    assert message == "chat.csv:4: TIMESTAMP is earlier than in the row before; sort the trace by time"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (HEADER.encode(), "a header but no requests"),
        (b"\x1f\x8b\x08\x00\x00", "not UTF-8 text"),
        (HEADER.encode("utf-16"), "not UTF-8 text"),
        (HEADER.encode("utf-16-le"), "binary data"),
        (f"{HEADER}\n{ROWS[0]}\n\0\0\0".encode(), "chat.csv:3: holds binary data"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "chat.csv:1: holds binary data"),
        (b"x" * 1_000_000, "chat.csv:1: a line of 65536 characters or more"),
        (f"{HEADER}\n{'1,' * 100_000}".encode(), "chat.csv:2: a line of 65536 characters or more"),
        (b'"TIMESTAMP', "unknown header"),
        (ROWS[0].encode(), "unknown header"),
        (f"{HEADER},NumImages\n".encode(), "unknown header"),
    ],
)
def test_files_that_are_no_trace_are_refused(trace: Path, data: bytes, expected: str) -> None:
    message = refusal(trace, data)
    assert message.startswith("chat.csv:")
    assert expected in message
    assert len(message) < 300


def test_a_missing_file_is_refused_and_a_near_name_suggested(trace: Path) -> None:
    trace.write_text(HEADER)
    with pytest.raises(TraceError, match=r"chats\.csv: no such file, did you mean 'chat\.csv'\?"):
        read_trace(trace.with_name("chats.csv"))


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a folder"):
        read_trace(tmp_path)


@pytest.mark.parametrize("name", ["a\0b.csv", "x" * 300, "chat.csv/inside.csv"])
def test_a_path_that_cannot_be_is_refused(trace: Path, name: str) -> None:
    trace.write_text(HEADER)
    with pytest.raises(TraceError, match="cannot be opened"):
        read_trace(trace.parent / name)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), head=st.booleans())
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes((HEADER.encode() + b"\n" if head else b"") + data)
    with pytest.raises(TraceError):  # random bytes are no rows
        read_trace(path)


def test_the_sample_is_what_its_script_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location("make_sample_trace", ROOT / "scripts" / "make_sample_trace.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.TARGET == ROOT / "experiments" / "traces" / "chat_sample.csv"
    assert script.TARGET.read_bytes() == script.sample_trace().encode()


def test_the_sample_is_bursty_and_readable() -> None:
    _, report = read_trace(ROOT / "experiments" / "traces" / "chat_sample.csv")
    assert report.rows == 300
    assert 100 < report.span_s < 160
    assert report.gap_cv is not None
    assert report.gap_cv > 1.2
