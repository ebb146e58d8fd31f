"""``simsys import-trace``: what it says of a trace, and the file it writes."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.build.workload import build_requests
from simsys.cli import cli
from simsys.config.workload import WorkloadConfig
from simsys.report.trace import TraceAnswer, write_table
from simsys.rng import stream
from simsys.serving import arrivals
from simsys.serving.requests import OPTIONAL_COLUMNS, RequestTable
from simsys.serving.traces import read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
MOONCAKE = """\
{"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 7, "hash_ids": [0, 3]}
{"timestamp": 3000, "input_length": 876, "output_length": 1, "hash_ids": [0]}
"""
SHAREGPT = json.dumps(
    [
        {"conversations": [{"from": "human", "value": "x" * 40}, {"from": "gpt", "value": "y" * 80}] * turns}
        for turns in (3, 1)
    ]
)
CHATS: dict[str, Any] = {
    "arrivals": {"kind": "poisson", "rate": "8 req/s"},
    "prompt_tokens": {"kind": "lognormal", "mean": 100},
    "output_tokens": {"kind": "uniform", "low": 10, "high": 200},
    "num_requests": 200,
    "sessions": {"turns": {"kind": "uniform", "low": 1, "high": 6}, "think_time": "9.3 s"},
    "prefixes": {"groups": 3, "tokens": 100},
    "priorities": {0: 0.9, -5: 0.1},
    "tenants": {"free": 3, "paid": 1},
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["import-trace", *arguments])
    assert "Traceback" not in result.output
    return result


def facts(content: str, *options: str, name: str = "trace") -> dict[str, Any]:
    Path(name).write_text(content, encoding="utf-8")
    result = run(name, "--json", *options)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)["trace"]
    return found


def same(one: RequestTable, other: RequestTable) -> bool:
    names = ("arrival_s", "prompt_tokens", "output_tokens", "hash_block_tokens", *OPTIONAL_COLUMNS)
    return all(getattr(one, name) == getattr(other, name) for name in names)


def test_facts_of_a_plain_trace() -> None:
    rows = [f"2026-01-05 00:00:{second:02},{tokens},{tokens * 2}" for second, tokens in [(1, 10), (2, 20), (5, 60)]]
    found = facts("\n".join([HEADER, *rows, ""]))
    assert found == {
        "file": "trace",
        "format": "azure",
        "requests": 3,
        "span_s": 4.0,
        "request_rate": 0.5,
        "gap_cv": 0.5,  # gaps of 1 and 3 s
        "burstiness": 4.0,
        "same_time_as_before": 0,
        "prompt_tokens": {"mean": 30.0, "p50": 20.0, "p99": 59.2, "max": 60},
        "output_tokens": {"mean": 60.0, "p50": 40.0, "p99": 118.4, "max": 120},
        "unsorted_rows": 0,
        "skipped_rows": 0,
        "skipped": [],
        "notes": [],
    }


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_burstiness_is_that_of_gamma_arrivals(shape: float) -> None:
    times = arrivals.gamma(8.0, shape, 20_000, stream(1, "arrivals"))
    content = "\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *(f"{time_s},1,1" for time_s in times)])
    found = facts(content)
    assert found["burstiness"] == pytest.approx(shape, rel=0.1)
    assert found["request_rate"] == pytest.approx(8.0, rel=0.1)


def test_prefix_sharing_is_what_a_cache_without_limits_would_hold() -> None:
    found = facts(MOONCAKE)
    assert found["prefix_sharing"] == {"block_tokens": 512, "shared_of_prompt_tokens": 2 * 512 / 3000}
    assert found["same_time_as_before"] == 1


def test_texts_have_no_times_and_their_tokens_are_an_estimate() -> None:
    found = facts(SHAREGPT, "--multi-turn")
    assert found["sessions"] == {"count": 2, "mean_turns": 2.0}
    assert found["notes"] == ["tokens are estimated: one for 4 characters"]
    assert "request_rate" not in found
    assert facts(SHAREGPT)["requests"] == 2


def test_skipped_and_unsorted_rows_are_counted_with_reasons() -> None:
    rows = ["5,1,1", "4,1,1", "6,0,1", "6,1,-1", "x,1,1", "6,0,1", "7,"]
    content = "\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *rows])
    found = facts(content)
    assert (found["requests"], found["unsorted_rows"], found["skipped_rows"]) == (2, 1, 5)
    assert found["skipped"][0] == {
        "reason": "num_prefill_tokens of 0 or less",
        "rows": 2,
        "first_row": 4,
        "example": "0",
    }
    text = run("trace").stdout
    assert "- reason: num_prefill_tokens of 0 or less\n  rows: 2\n  first_row: 4\n" in text
    assert "1 of 2 rows were earlier than the row before" in text


def test_options_choose_part_of_a_trace_and_its_pace() -> None:
    content = "\n".join(
        ["arrived_at,num_prefill_tokens,num_decode_tokens", *(f"{60 * row},1,1" for row in range(100))]
    )
    found = facts(content, "--start", "10 min", "--duration", "1 h", "--rate-scale", "60", "--max-requests", "30")
    assert (found["requests"], found["request_rate"]) == (30, 1.0)


def test_the_text_for_people() -> None:
    Path("trace").write_text(MOONCAKE)
    assert run("trace").stdout == (
        "file: trace\nformat: mooncake\nrequests: 3\nspan: 3 s\nrequest_rate: 0.667 req/s\n"
        "gap_cv: 1.0\nburstiness: 1.0\nsame_time_as_before: 1\n"
        "prompt_tokens:\n  mean: 1000.0\n  p50: 1024.0\n  p99: 1098.0\n  max: 1100\n"
        "output_tokens:\n  mean: 20.0\n  p50: 7.0\n  p99: 51.1\n  max: 52\n"
        "prefix_sharing:\n  block_tokens: 512\n  shared_of_prompt_tokens: 0.3413\nskipped_rows: 0\n"
    )


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (MOONCAKE, ()),
        (SHAREGPT, ("--multi-turn",)),
        (f"{HEADER}\n2026-01-05 00:00:00.1234567,3,4\n2026-01-05 00:00:01.7654321,5,6\n", ("--rate-scale", "3")),
        ("Timestamp,Session ID,Request tokens,Response tokens\n1,b,3,4\n2,a,3,4\n3,b,5,6\n", ()),
    ],
)
def test_what_is_written_reads_the_same(content: str, options: tuple[str, ...]) -> None:
    found = facts(content, "--out", "folder/new.csv", *options)
    again = json.loads(run("folder/new.csv", "--json").stdout)["trace"]
    assert again["format"] == "simsys"
    kept = set(again) - {
        "file",
        "format",
        "notes",
        "span_s",
        "request_rate",
        "gap_cv",
        "burstiness",
        "same_time_as_before",
    }
    assert {key: again[key] for key in kept} == {key: found[key] for key in kept}


def written(table: RequestTable) -> RequestTable:
    text = StringIO()
    write_table(table, text)
    Path("written.csv").write_text(text.getvalue())
    return read_trace(Path("written.csv")).table


def test_a_table_with_every_column_survives_being_written() -> None:
    table = build_requests(WorkloadConfig.model_validate(CHATS), 7, Path())
    start_s = table.arrival_s[0]
    read = written(table)
    assert read.arrival_s == [time_s - start_s for time_s in table.arrival_s]
    assert same(written(read), read)
    for name in ("prompt_tokens", "output_tokens", "hash_block_tokens", *OPTIONAL_COLUMNS):
        assert getattr(read, name) == getattr(table, name)


@settings(max_examples=50, deadline=None)
@given(
    gaps=st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    tokens=st.integers(1, 999_999_999),
    think_s=st.floats(0, 1e6),
)
def test_any_times_survive_being_written(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[float], tokens: int, think_s: float
) -> None:
    times = [sum(gaps[:place]) for place in range(len(gaps))]
    count = len(gaps)
    table = RequestTable(times, [tokens] * count, [1] * count, after=[-1] * count, think_s=[think_s] * count)
    path = tmp_path_factory.getbasetemp() / "any.csv"
    with path.open("w", newline="") as file:
        write_table(table, file)
    assert same(read_trace(path).table, table)


def test_the_written_file_is_a_plain_csv_file() -> None:
    facts(MOONCAKE, "--out", "new.csv")
    rows = list(csv.DictReader(StringIO(Path("new.csv").read_text())))
    assert rows[1] == {
        "arrival_s": "0.0",
        "prompt_tokens": "1024",
        "output_tokens": "7",
        "hash_ids": "0 3",
        "hash_block_tokens": "512",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("trace", "--out", "trace"), "trace is the trace itself"),
        (("trace", "--out", "./../{folder}/trace"), "is the trace itself"),
        (("trace", "--out", "trace/new.csv"), "cannot write trace"),
        (("trace", "--out", "folder"), "cannot write folder"),
        (("trace", "--start", "10"), "10 has no unit"),
        (("trace", "--start", "-1 s"), "'-1 s' is negative"),
        (("trace", "--duration", "0 s"), "duration above"),
        (("trace", "--duration", "soon"), "soon"),
        (("trace", "--start", "1 h"), "no request from 3600 s on; the trace lasts 3 s"),
        (("trace", "--rate-scale", "0"), "rate_scale must be a finite number above 0"),
        (("trace", "--max-requests", "0"), "max_requests must be at least 1"),
        (("traces",), "no such file"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(arguments: tuple[str, ...], expected: str) -> None:
    Path("folder").mkdir()
    Path("trace").write_text(MOONCAKE)
    result = run(*(text.format(folder=Path.cwd().name) for text in arguments))
    assert result.exit_code == 2
    assert expected in result.output
    assert Path("trace").read_text() == MOONCAKE
    assert {path.name for path in Path().rglob("*")} == {"folder", "trace"}


def test_an_answer_of_a_trace_without_a_span_has_no_rate() -> None:
    Path("one.csv").write_text(f"{HEADER}\n2026-01-05 00:00:00,3,4\n")
    answer = TraceAnswer("one.csv", read_trace(Path("one.csv")))
    assert (answer.as_dict()["request_rate"], answer.as_dict()["burstiness"]) == (None, None)
    assert "request_rate" not in answer.text()
