from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.errors import TraceError, UsageError
from simsys.serving.traces import read_trace
from simsys.serving.traces.csv_formats import CSV_FORMATS, CsvFormat
from tests.helpers.places import ROOT
from tests.helpers.thorough import cases

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
    read = read_trace(trace)
    assert read.table.arrival_s == [0.0, 1e-7, 2.5000002]  # seconds from the first row, to 100 ns, over midnight
    assert read.table.prompt_tokens == [374, 396, 879]
    assert read.table.output_tokens == [44, 109, 55]
    assert (read.format, read.timed, read.unsorted, read.skipped) == ("azure", True, 0, ())


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
    assert read_trace(trace).table.arrival_s == [0.0, gap_s]


def test_columns_are_found_by_name_and_may_be_quoted(trace: Path) -> None:
    trace.write_text('"GeneratedTokens", "TIMESTAMP", ContextTokens\n44,"2026-01-05 00:00:00", 374\n')
    table = read_trace(trace).table
    assert (table.prompt_tokens, table.output_tokens) == ([374], [44])


def test_rate_scale_divides_the_times(trace: Path) -> None:
    trace.write_text("\n".join([HEADER, *ROWS]))
    assert read_trace(trace, rate_scale=2.0).table.arrival_s == [0.0, 5e-8, 1.2500001]


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_max_requests_reads_no_further(trace: Path, limit: int) -> None:
    trace.write_text("\n".join([HEADER, *ROWS] + (["broken"] if limit <= 3 else [])))
    read = read_trace(trace, max_requests=limit)
    assert (len(read.table), read.skipped) == (min(limit, 3), ())


@pytest.mark.parametrize("limit", [0, -1])
def test_impossible_limits_are_refused(trace: Path, limit: int) -> None:
    with pytest.raises(UsageError, match="max_requests must be at least 1"):
        read_trace(trace, max_requests=limit)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_impossible_scales_are_refused(trace: Path, scale: float) -> None:
    with pytest.raises(UsageError, match="rate_scale must be a finite number above 0"):
        read_trace(trace, rate_scale=scale)


@pytest.mark.parametrize(("start", "length"), [(-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (0.0, 0.0), (0.0, -1.0)])
def test_impossible_windows_are_refused(trace: Path, start: float, length: float) -> None:
    with pytest.raises(UsageError, match="start must be 0 s or more and duration above"):
        read_trace(trace, start_s=start, duration_s=length)


@pytest.mark.parametrize(
    ("start", "length", "most", "prompts"),
    [
        (0.0, math.inf, None, [1, 2, 3, 4]),
        (1.0, math.inf, None, [2, 3, 4]),
        (0.0, 2.0, None, [1, 2]),  # the end is not part of the window
        (1.0, 2.0, None, [2, 3]),
        (1.0, 9.0, 2, [2, 3]),
        (0.5, 1.0, None, [2]),
    ],
)
def test_a_window_of_time(trace: Path, start: float, length: float, most: int | None, prompts: list[int]) -> None:
    trace.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n10,1,1\n11,2,1\n12,3,1\n13,4,1\n")
    table = read_trace(trace, start_s=start, duration_s=length, max_requests=most).table
    assert table.prompt_tokens == prompts
    assert table.arrival_s == [float(number) for number in range(len(prompts))]


def test_an_empty_window_says_how_long_the_trace_is(trace: Path) -> None:
    trace.write_text("\n".join([HEADER, *ROWS]))
    with pytest.raises(TraceError, match=r"no request from 60 s on; the trace lasts 2\.5 s"):
        read_trace(trace, start_s=60.0)


def skipped(path: Path, data: bytes | str) -> dict[str, tuple[int, int]]:
    """Write a file with `ROWS[0]` and others, and return how many rows were skipped, from which on, by reason."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return {each.reason: (each.rows, each.first_row) for each in read_trace(path).skipped}


def test_broken_rows_are_skipped_and_counted_by_reason(trace: Path) -> None:
    rows = [ROWS[0], "2026-01-05 18:1", "", "2026-13-06 00:00:00,5,5", "2026-01-06 00:00:00,0,-4", ROWS[1], ROWS[2]]
    rows += ["2026-01-06 00:00:03,-7,4", "2026-01-06 00:00:03,x,4", "2026-01-06 00:00:0"]  # the last one is cut off
    assert skipped(trace, "\n".join([HEADER, *rows])) == {
        "other than 3 columns": (2, 3),
        "TIMESTAMP that is no time such as 2023-11-16 18:17:03.9799600": (1, 5),
        "ContextTokens of 0 or less": (2, 6),
        "ContextTokens that is not a whole number from 1 to 999999999": (1, 10),
    }
    read = read_trace(trace)
    assert read.table.prompt_tokens == [374, 396, 879]
    assert read.table.notes[-1].startswith("trace chat.csv: skipped 6 of 9 rows: 2 with other than 3 columns (first")


def test_a_trace_of_broken_rows_only_is_refused_with_the_reasons(trace: Path) -> None:
    assert refusal(trace, f"{HEADER}\nx\ny,1,1\n") == (
        "chat.csv: a trace of format azure without requests; skipped 2 of 2 rows: 1 with other than 3 columns (first "
        "in row 2: 'x'); 1 with TIMESTAMP that is no time such as 2023-11-16 18:17:03.9799600 (first in row 3: 'y')"
    )


def test_rows_out_of_order_are_sorted_and_counted(trace: Path) -> None:
    trace.write_text("\n".join([HEADER, ROWS[2], ROWS[0], ROWS[1], ROWS[1], ""]))
    read = read_trace(trace)
    assert read.table.prompt_tokens == [374, 396, 396, 879]
    assert read.table.arrival_s == [0.0, 1e-7, 1e-7, 2.5000002]  # equal times are fine
    assert read.unsorted == 1
    assert read.remarks == ("1 of 4 rows were earlier than the row before; sorted by time",)


@pytest.mark.parametrize(
    "cell", ["", "x", "nan", "inf", "-3", "+3", "0", "00", "3.0", "1e3", "1_000", "٣", "²", "1000000000", "9" * 5000]
)
@pytest.mark.parametrize("column", ["ContextTokens", "GeneratedTokens"])
def test_a_token_count_that_is_none_is_skipped(trace: Path, cell: str, column: str) -> None:
    counts = f"{cell},7" if column == "ContextTokens" else f"7,{cell}"
    (reason,) = skipped(trace, f"{HEADER}\n{ROWS[0]}\n2026-01-06 00:00:00,{counts}\n")
    what = "of 0 or less" if cell in ("-3", "0", "00") else "that is not a whole number from 1 to 999999999"
    assert reason == f"{column} {what}"
    assert len(read_trace(trace).table.notes[-1]) < 250


def test_a_prompt_of_a_million_tokens_is_a_request(trace: Path) -> None:
    trace.write_text(f"{HEADER}\n2026-01-06 00:00:00,1000000,1\n")
    assert read_trace(trace).table.prompt_tokens == [1_000_000]


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
def test_a_timestamp_that_is_none_is_skipped(trace: Path, stamp: str) -> None:
    (reason,) = skipped(trace, f"{HEADER}\n{ROWS[0]}\n{stamp},1,1\n")
    assert reason.startswith("TIMESTAMP that is no time")


@pytest.mark.parametrize("row", ["2026-01-05 00:00:00,1", "2026-01-05 00:00:00,1,1,1", ",", "2026-01-05 00:00:00;1;1"])
def test_a_row_of_the_wrong_width_is_skipped(trace: Path, row: str) -> None:
    assert skipped(trace, f"{HEADER}\n{row}\n{ROWS[0]}\n") == {"other than 3 columns": (1, 2)}


def test_an_open_quote_breaks_its_own_row_only(trace: Path) -> None:
    assert skipped(trace, f'{HEADER}\n"{ROWS[0]}\n{ROWS[1]}\nx\n') == {
        "a quote that is not closed": (1, 2),
        "other than 3 columns": (1, 4),
    }


def test_an_unknown_header_names_the_known_ones(trace: Path) -> None:
    assert refusal(trace, "timestamp,context_tokens,generated_tokens\n") == (
        "chat.csv:1: unknown header 'timestamp,context_tokens,generated_tokens', "
        "did you mean 'TIMESTAMP,ContextTokens,GeneratedTokens'?"
    )
    message = refusal(trace, "a;b\n")
    for known in CSV_FORMATS:
        assert ",".join(known.needed) in message


def test_an_unknown_column_is_refused_and_a_near_one_suggested(trace: Path) -> None:
    assert refusal(trace, "Timestamp,Request tokens,Response tokens,Log Typ\n") == (
        "chat.csv:1: unknown column 'Log Typ' of format burstgpt, did you mean 'Log Type'?"
    )
    assert refusal(trace, f"{HEADER},TIMESTAMP\n").startswith("chat.csv:1: a column occurs twice in ")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "chat.csv:1: the file is empty"),
        (b"\xef\xbb\xbf", "chat.csv:1: the file is empty"),
        (b"\n\n", "chat.csv:1: the file is empty"),
        (HEADER.encode(), "a trace of format azure without requests"),
        (b"[", "chat.csv:1:2: not valid JSON: "),
        (b"[]", "chat.csv:1: unknown kind of JSON (an empty list)"),
        (b"{}", "unknown kind of JSON (an object with no keys)"),
        (b'{"a": 1}', "unknown kind of JSON (an object with a)"),
        (b"[[1]]", "unknown kind of JSON (a list whose first entry is a list whose first entry is a int)"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "chat.csv:1:2: a number of 5000 digits"),
        (b'[{"a": "\xff"}]', "chat.csv:1:9: this is not UTF-8 text"),
        (b"\x1f\x8b\x08\x00\x00", "not UTF-8 text"),
        (HEADER.encode("utf-16"), "not UTF-8 text"),
        (HEADER.encode("utf-16-le"), "binary data"),
        (f"{HEADER}\n{ROWS[0]}\n\0\0\0".encode(), "chat.csv:3: holds binary data"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "chat.csv:1: holds binary data"),
        (b"x" * 1_000_000, "chat.csv:1: a line of 65536 characters or more"),
        (f"{HEADER}\n{'1,' * 100_000}".encode(), "chat.csv:2: a line of 65536 characters or more"),
        (b'"TIMESTAMP', "unknown header"),
        (ROWS[0].encode(), "unknown header"),
        (f"{HEADER},NumImages\n".encode(), "unknown column 'NumImages' of format azure"),
    ],
)
def test_files_that_are_no_trace_are_refused(trace: Path, data: bytes, expected: str) -> None:
    message = refusal(trace, data)
    assert message.startswith("chat.csv:")
    assert expected in message
    assert len(message) < 500


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


STARTS = [
    b"",
    HEADER.encode() + b"\n",
    b"arrival_s,prompt_tokens,output_tokens,after,hash_ids,hash_block_tokens\n0,64,1,-1,1 2,16\n",
    b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
    b'{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}\n',
    b'{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": ',
    b'{"input_lens": [1, 2], "output_lens": [1, 2], "start_times": ',
    b'[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": ',
]


def read_or_refused(folder: Path, data: bytes, multi_turn: bool) -> None:
    path = folder / "any"
    path.write_bytes(data)
    with contextlib.suppress(TraceError):  # and nothing else is raised
        assert len(read_trace(path, multi_turn=multi_turn).table) > 0


@settings(max_examples=cases(200), deadline=None)
@given(data=st.binary(max_size=200), start=st.sampled_from(STARTS), multi_turn=st.booleans())
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes, multi_turn: bool
) -> None:
    read_or_refused(tmp_path_factory.getbasetemp(), start + data, multi_turn)


@pytest.mark.parametrize(("last", "rate_scale"), [("10000000001.0", 1.0), ("2", 1e-10), ("2", 5e-324)])
def test_a_trace_of_centuries_is_refused_by_its_name(tmp_path: Path, last: str, rate_scale: float) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"arrival_s,prompt_tokens,output_tokens\n0,1,1\n{last},1,1\n")
    with pytest.raises(TraceError, match=r"long\.csv: requests arrive for .* with duration, or .* with rate_scale"):
        read_trace(path, rate_scale=rate_scale)


def test_requests_that_join_others_are_after_one(tmp_path: Path) -> None:
    path = tmp_path / "joins.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens,joins\n0,1,1,0\n")
    with pytest.raises(TraceError, match=r"joins\.csv:1: joins are other requests to wait for beside after"):
        read_trace(path)


CELLS = st.one_of(
    st.integers(-3, 70).map(str),
    st.floats().map(str),
    st.sampled_from(["", "x", "1 2", "1e999", '"', "2026-01-05 00:00:00"]),
)


@settings(max_examples=cases(200), deadline=None)
@given(data=st.data(), known=st.sampled_from(CSV_FORMATS))
def test_any_rows_of_a_csv_format_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, known: CsvFormat
) -> None:
    header = [*known.needed, *data.draw(st.lists(st.sampled_from(known.columns[3:] or ("",)), unique=True))]
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(header), max_size=len(header)), max_size=8))
    text = "\n".join(",".join(cells) for cells in [header, *rows])
    read_or_refused(tmp_path_factory.getbasetemp(), text.encode(), False)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5000) | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["from", "value"]), inner),
    max_leaves=6,
)
KEYS = [
    "timestamp",
    "input_length",
    "output_length",
    "hash_ids",
    "conversations",
    "input_lens",
    "output_lens",
    "errors",
]
KEYS += ["start_times", "arrival_time_ns", "input_toks", "output_toks"]


@settings(max_examples=cases(300), deadline=None)
@given(
    entries=st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=4),
    shape=st.sampled_from(["lines", "list", "object"]),
)
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, object]], shape: str
) -> None:
    texts = [json.dumps(entry) for entry in entries]
    text = "\n".join(texts) if shape == "lines" else f"[{','.join(texts)}]" if shape == "list" else "".join(texts[:1])
    read_or_refused(tmp_path_factory.getbasetemp(), text.encode(), True)


def trace_of(folder: Path, count: int) -> Path:
    rows = [
        f"2026-01-05 {row // 3600:02}:{row // 60 % 60:02}:{row % 60:02}.5,{row % 999 + 1},7" for row in range(count)
    ]
    path = folder / f"{count}.csv"
    path.write_text("\n".join([HEADER, *rows]))
    return path


def test_the_cost_of_a_row_does_not_grow_with_their_number(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        """Calls of functions, Python's own too, while so many rows are read."""
        path, found, before = trace_of(tmp_path, count), Counter[str](), sys.getprofile()
        sys.setprofile(lambda frame, event, argument: found.update([event]))
        try:
            table = read_trace(path).table
        finally:
            sys.setprofile(before)
        assert len(table) == count
        return found["call"] + found["c_call"]

    assert calls(200) > 200
    assert calls(4_000) < 1.1 * 20 * calls(200)


@pytest.mark.slow
def test_nor_does_the_time_of_a_row(tmp_path: Path) -> None:
    """Of which calls say nothing that look at all rows at once; and no machine is busy enough to look like that."""

    def least_s(path: Path) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            read_trace(path)
            times.append(time.process_time() - start)
        return min(times)

    many, few = (least_s(trace_of(tmp_path, count)) for count in (40_000, 400))
    assert many < 100 * 10 * few


def test_the_samples_are_what_their_script_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location("make_sample_trace", ROOT / "scripts" / "make_sample_trace.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, script)
    spec.loader.exec_module(script)
    folder = ROOT / "experiments" / "traces"
    assert folder == script.FOLDER
    assert {file.name for file in folder.glob("*.csv")} == script.SAMPLES.keys()
    for name, sample in script.SAMPLES.items():
        assert (folder / name).read_bytes() == script.sample_trace(sample).encode()


@pytest.mark.parametrize(("name", "prompt", "output"), [("chat", 500, 200), ("code", 2000, 30)])
def test_the_samples_are_bursty_and_readable(name: str, prompt: float, output: float) -> None:
    table = read_trace(ROOT / "experiments" / "traces" / f"{name}_sample.csv").table
    assert len(table) == 300
    assert 90 < table.span_s < 160
    assert table.gap_cv is not None
    assert table.gap_cv > 1.2
    assert table.mean_prompt_tokens == pytest.approx(prompt, rel=0.15)
    assert table.mean_output_tokens == pytest.approx(output, rel=0.15)
