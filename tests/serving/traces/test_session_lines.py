"""Traces of sessions as JSON lines: Dynamo's Mooncake rows, AIPerf's inputs, and lines that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys.build.workload import build_requests
from simsys.config.workload import WorkloadConfig
from simsys.errors import TraceError, UsageError
from simsys.report.trace import TraceAnswer
from simsys.serving.requests import RequestTable
from simsys.serving.traces import Trace, read_trace
from tests.helpers.each_case import each_case

DYNAMO = """\
{"session_id": "a", "timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]}
{"session_id": "b", "created_time": 500, "input_tokens": 600, "output_tokens": 7, "hash_ids": [0, 3]}
{"session_id": "a", "delay": 1500, "input_length": 1700, "output_length": 9, "hash_ids": [0, 1, 4, 5]}
{"session_id": "b", "timestamp": 4000, "input_length": 700, "output_length": 8, "hash_ids": [0, 3]}
"""
AGENTS = """\
{"request_id": "p0", "session_id": "s", "timestamp": 0, "input_length": 600, "output_length": 10, "hash_ids": [0, 1]}
{"request_id": "c1", "wait_for": ["p0"], "tool_wait_ms": 200, "input_length": 700, "output_length": 40}
{"request_id": "c2", "wait_for": ["p0"], "delay": 100, "tool_wait_ms": 200, "input_length": 800, "output_length": 20}
{"request_id": "p1", "session_id": "s", "wait_for": ["c1", "c2"], "input_length": 900, "output_length": 10}
"""


def read(folder: Path, text: str, **given: Any) -> Trace:
    path = folder / "trace.jsonl"
    path.write_text(text, encoding="utf-8")
    return read_trace(path, **given)


def build(folder: Path, text: str, **given: Any) -> RequestTable:
    (folder / "trace.jsonl").write_text(text, encoding="utf-8")
    return build_requests(WorkloadConfig.model_validate({"trace": "trace.jsonl"} | given), 1, folder)


def test_rows_of_a_session_of_dynamo_wait_for_the_one_before(tmp_path: Path) -> None:
    """After a delay, or after the time between their time stamps."""
    trace = read(tmp_path, DYNAMO)
    table = trace.table
    assert (trace.format, trace.timed, trace.answered) == ("mooncake", True, True)
    assert table.prompt_tokens == [1100, 1700, 600, 700]
    assert (table.session, table.turn, table.after) == ([0, 0, 1, 1], [0, 1, 0, 1], [-1, 0, -1, 2])
    assert table.think_s == [0.0, 1.5, 0.0, 3.5]
    assert (table.hash_ids, table.hash_block_tokens) == ([(0, 1), (0, 1, 4), (0,), (0,)], 512)


def test_sessions_may_begin_after_rows_of_their_own(tmp_path: Path) -> None:
    plain = '{"timestamp": 0, "input_length": 10, "output_length": 5}\n'
    turn = '{"timestamp": %d, "input_length": 10, "output_length": 5, "session_id": "x"}\n'
    table = read(tmp_path, plain + turn % 1 + turn % 2).table
    assert (table.after, table.prompt_tokens) == ([-1, -1, 1], [10, 10, 25])


def test_agents_of_dynamo_wait_for_all_that_they_name(tmp_path: Path) -> None:
    table = read(tmp_path, AGENTS).table
    assert (table.after, table.joins) == ([-1, 0, 0, 1], [(), (), (), (2,)])
    assert table.think_s == pytest.approx([0.0, 0.2, 0.3, 0.0])
    assert table.prompt_tokens == [600, 700, 800, 900], "the lengths are those of whole prompts"
    out = tmp_path / "out.csv"
    TraceAnswer(str(tmp_path / "trace.jsonl"), read(tmp_path, AGENTS)).write(out)
    again = read_trace(out).table
    assert (again.after, again.joins, again.think_s) == (table.after, table.joins, table.think_s)


def test_lengths_of_aiperfs_later_turns_are_new_tokens(tmp_path: Path) -> None:
    lines = (
        '{"session_id": "abc", "input_length": 300, "output_length": 40}\n'
        '{"session_id": "abc", "delay": 2, "input_length": 150, "output_length": 20}\n'
    )
    trace = read(tmp_path, lines)
    assert (trace.timed, trace.continues) == (False, True)
    assert trace.table.prompt_tokens == [300, 490]
    assert trace.table.think_s == [0.0, 0.002]
    assert "new tokens" in trace.remarks[0]
    table = build(tmp_path, lines, arrivals={"kind": "constant", "rate": "1 req/s"})
    assert table.hash_ids[1][: 340 // 16][: 300 // 16] == table.hash_ids[0]
    assert table.hash_block_tokens == 16


def test_texts_of_aiperf_are_estimated(tmp_path: Path) -> None:
    trace = read(tmp_path, '{"text": "12345678", "timestamp": 0, "output_length": 3}\n{"texts": ["abcd", "e"]}\n')
    assert (trace.format, trace.answered, trace.timed) == ("aiperf single_turn", False, False)
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([2, 2], [3, 1])
    with pytest.raises(UsageError, match="some lines have no length of their output"):
        TraceAnswer("trace.jsonl", trace).write(tmp_path / "out.csv")


def test_single_turns_of_a_session_share_nothing(tmp_path: Path) -> None:
    line = '{"text": "%s", "session_id": "x", "output_length": 3, "delay": 500}\n'
    table = build(tmp_path, line % ("a" * 400) + line % ("b" * 400), arrivals={"kind": "all_at_once"})
    assert (table.after, table.think_s, table.hash_ids) == ([-1, 0], [0.0, 0.5], [])


def test_turns_of_aiperf_have_the_history_before_them(tmp_path: Path) -> None:
    turns = '{"turns": [{"text": "12345678", "output_length": 5}, {"text": "1234", "delay": 9, "output_length": 6}]}\n'
    trace = read(tmp_path, turns + turns.replace("{", '{"session_id": "x", ', 1))
    assert trace.format == "aiperf multi_turn"
    assert trace.table.prompt_tokens == [2, 8, 2, 8]
    assert trace.table.session == [0, 0, 1, 1]


def test_bodies_of_requests_are_read(tmp_path: Path) -> None:
    lines = (
        '{"model": "m", "messages": [{"role": "user", "content": "12345678"}], "max_tokens": 7}\n'
        '{"prompt": "1234", "max_completion_tokens": 9}\n'
        '{"payload": {"messages": [{"role": "user", "content": [{"text": "12345"}]}], "max_tokens": 4}}'
    )
    trace = read(tmp_path, lines)
    assert trace.format == "aiperf raw_payload"
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([2, 1, 2], [7, 9, 4])


def test_messages_are_whole_prompts_unless_they_are_deltas(tmp_path: Path) -> None:
    line = '{"session_id": "s", %s"messages": [{"role": "user", "content": "%s"}], "output_length": 10}\n'
    whole = read(tmp_path, line % ("", "1234") + line % ("", "12341234")).table
    deltas = read(tmp_path, line % ('"message_mode": "delta", ', "1234") * 2).table
    assert (whole.prompt_tokens, deltas.prompt_tokens) == ([1, 2], [1, 12])


def test_blocks_of_another_size_are_said(tmp_path: Path) -> None:
    line = '{"session_id": "a", "timestamp": 0, "input_length": 100, "output_length": 5, "hash_ids": [1, 2, 3, 4]}\n'
    with pytest.raises(TraceError, match=r"trace.jsonl:1: more hash_ids than blocks of 512 tokens; give hash_block_s"):
        read(tmp_path, line)
    assert read(tmp_path, line, block_tokens=32).table.hash_ids == [(1, 2, 3)]
    with pytest.raises(UsageError, match="tokens of a block must be at least 1, not 0"):
        read(tmp_path, line, block_tokens=0)
    table = build(tmp_path, line, trace={"path": "trace.jsonl", "hash_block_size": 32})
    assert (table.hash_ids, table.hash_block_tokens) == ([(1, 2, 3)], 32)


WRONG = {
    "cut off": ('{"session_id": "a", "input_', 'text that is not JSON: \'{"session_id": "a", "input_\''),
    "no length": ('{"session_id": "a", "output_length": 4}', "no input_length and no text"),
    "tokens": (
        '{"session_id": "a", "input_length": "9", "output_length": 4}',
        "input_length that is not a whole number from 1 to 999999999: '9'",
    ),
    "delay": ('{"session_id": "a", "delay": -2, "input_length": 9, "output_length": 4}', "delay below 0: '-2'"),
    "picture": ('{"text": "a", "image": "a.png"}', "image, which are not modelled; give input_length"),
    "content": (
        '{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "max_tokens": 1}',
        "content of type image_url, which is not modelled; give input_length",
    ),
    "waits": (
        '{"request_id": "b", "wait_for": ["zz"], "input_length": 9, "output_length": 4}',
        "wait_for of a request_id that is in no earlier line: 'zz'",
    ),
    "names": ('{"wait_for": "a", "input_length": 9, "output_length": 4}', "wait_for that is no list of names: 'a'"),
    "ids": (
        '{"session_id": "a", "input_length": 9, "output_length": 4, "hash_ids": ["x"]}',
        "hash_ids that are no list of whole numbers: 'a list'",
    ),
    "empty": ('{"messages": [{"role": "user", "content": ""}], "max_tokens": 4}', "messages without a text: 'a list'"),
}


@each_case("name", list(WRONG))
def test_a_wrong_line_is_refused_at_its_place(name: str, tmp_path: Path) -> None:
    line, message = WRONG[name]
    good = '{"session_id": "a", "timestamp": 0, "input_length": 9, "output_length": 4}\n\n'
    with pytest.raises(TraceError) as caught:
        read(tmp_path, good + line)
    assert str(caught.value) == f"{tmp_path / 'trace.jsonl'}:3: {message}"


@pytest.mark.parametrize("turns", ['"x"', "[]", "[1]"])
def test_turns_must_be_a_list_of_turns(turns: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace.jsonl:2: turns that are no list of turns"):
        read(tmp_path, '{"turns": [{"text": "a"}]}\n{"turns": ' + turns + "}")


def test_a_scenario_gives_lengths_that_a_trace_has_not(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="some lines have no length of their output; give lengths, such as"):
        build(tmp_path, '{"text": "a question"}', arrivals={"kind": "all_at_once"})
    table = build(tmp_path, '{"text": "a question"}', arrivals={"kind": "all_at_once"}, output_tokens=30)
    assert table.output_tokens == [30]


def test_no_more_than_asked_for_are_read(tmp_path: Path) -> None:
    assert len(read(tmp_path, DYNAMO, max_requests=2).table) == 2


def body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 9}


def test_sessions_of_an_inputs_file_are_read(tmp_path: Path) -> None:
    sessions = [{"session_id": "a", "payloads": [body("12345678"), body("1" * 40)]}, {"payloads": [body("12345678")]}]
    trace = read(tmp_path, json.dumps({"data": sessions}))
    table = trace.table
    assert (trace.format, trace.timed, trace.continues) == ("aiperf inputs_json", False, True)
    assert (table.prompt_tokens, table.output_tokens, table.after) == ([2, 10, 2], [9, 9, 9], [-1, 0, -1])
    with pytest.raises(TraceError, match=r"trace.jsonl:1: data\[0\].payloads\[1\]: no input_length and no text"):
        read(tmp_path, json.dumps({"data": [{"payloads": [body("1234"), {"model": "m"}]}]}))
