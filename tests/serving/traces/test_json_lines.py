from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import TraceError
from simsys.serving.traces import Trace, read_trace

MOONCAKE = """\
{"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 7, "hash_ids": [0, 3], "session_id": "x"}
{"timestamp": 3052, "input_length": 90, "output_length": 1, "hash_ids": [4]}
"""
LLMSERVINGSIM = """\
{"input_toks": 21, "output_toks": 5, "arrival_time_ns": 1000000000, "input_tok_ids": []}
{"input_toks": 22, "output_toks": 6, "arrival_time_ns": 1500000001}
"""


def read(folder: Path, text: str) -> Trace:
    path = folder / "trace.jsonl"
    path.write_text(text, encoding="utf-8")
    return read_trace(path)


def test_mooncake_in_milliseconds_with_the_ids_of_full_blocks(tmp_path: Path) -> None:
    trace = read(tmp_path, MOONCAKE)
    assert (trace.format, trace.timed) == ("mooncake", True)
    assert trace.table.arrival_s == [0.0, 0.0, 3.052]
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([1100, 1024, 90], [52, 7, 1])
    assert (trace.table.hash_ids, trace.table.hash_block_tokens) == ([(0, 1), (0, 3), ()], 512)


def test_mooncake_without_ids(tmp_path: Path) -> None:
    table = read(tmp_path, '{"timestamp": 1.5, "input_length": 600, "output_length": 5}').table
    assert (table.hash_ids, table.hash_block_tokens) == ([], 0)


def test_llmservingsim(tmp_path: Path) -> None:
    trace = read(tmp_path, LLMSERVINGSIM)
    assert (trace.format, trace.table.arrival_s) == ("llmservingsim", [0.0, 0.500000001])
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([21, 22], [5, 6])


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    lines = [
        '{"timestamp": -5, "input_length": 9, "output_length": 9}',
        '{"timestamp": 5, "input_length": 0, "output_length": 9}',
        '{"timestamp": 5, "input_length": 9, "output_length": 1.5}',
        '{"timestamp": 5, "input_length": 9}',
        '{"timestamp": true, "input_length": 9, "output_length": 9}',
        '{"timestamp": NaN, "input_length": 9, "output_length": 9}',
        '{"timestamp": 5, "input_length": 9, "output_length": 9, "hash_ids": [1.5]}',
        "[1, 2]",
        '{"timestamp": 5, "input_len',
    ]
    trace = read(tmp_path, MOONCAKE + "\n".join(lines))
    assert len(trace.table) == 3
    assert {each.reason: (each.rows, each.first_row) for each in trace.skipped} == {
        "timestamp below 0": (1, 4),
        "input_length of 0 or less": (1, 5),
        "output_length that is not a whole number from 1 to 999999999": (2, 6),
        "timestamp that is no time": (2, 8),
        "hash_ids that are no list of whole numbers": (1, 10),
        "a value that is no object": (1, 11),
        "text that is not JSON": (1, 12),
    }


def test_a_prompt_of_very_many_blocks_is_read(tmp_path: Path) -> None:
    ids = list(range(20_000))
    table = read(
        tmp_path, f'{{"timestamp": 0, "input_length": 10240000, "output_length": 1, "hash_ids": {ids}}}'
    ).table
    assert table.hash_ids == [tuple(ids)]


def test_lines_with_other_keys_are_refused_and_near_ones_suggested(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match="unknown keys of JSON lines: a, b; known: arrival_time_ns, input_toks, output"
    ):
        read(tmp_path, '{"a": 1, "b": 2}\n{"a": 1, "b": 2}\n')
    with pytest.raises(TraceError, match="did you mean 'timestamp, input_length, output_length'"):
        read(tmp_path, '{"timestamp": 1, "input_len": 2, "output_len": 3}\n\n{}')
