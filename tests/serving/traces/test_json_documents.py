from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys.errors import TraceError
from simsys.serving.traces import Trace, read_trace

VLLM: dict[str, Any] = {
    "date": "20260105-090000",
    "request_rate": 2.0,
    "input_lens": [100, 200, 300],
    "output_lens": [10, 20, 0],
    "ttfts": [0.1, 0.2, 0.0],
    "itls": [[0.1] * 9, [0.1] * 19, []],
    "errors": ["", "", "timeout"],
}


def said(*texts: tuple[str, str]) -> dict[str, Any]:
    return {"id": "a", "conversations": [{"from": who, "value": text} for who, text in texts]}


TALK = said(("human", "x" * 8), ("gpt", "y" * 4), ("human", "x" * 9), ("gpt", "y" * 40))


def read(folder: Path, content: object, **options: Any) -> Trace:
    path = folder / "trace.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_trace(path, **options)


@pytest.mark.parametrize("indent", [None, 2])
def test_sharegpt_is_the_first_question_and_answer(tmp_path: Path, indent: int | None) -> None:
    trace = read(tmp_path, json.dumps([TALK, said(("human", "h"), ("gpt", "a"))], indent=indent))
    assert (trace.format, trace.timed) == ("sharegpt", False)
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([2, 1], [1, 1])
    assert (trace.table.arrival_s, trace.table.session) == ([0.0, 0.0], [])
    assert trace.remarks == ("tokens are estimated: one for 4 characters",)
    assert "trace trace.json: tokens are estimated: one for 4 characters" in trace.table.notes


def test_sharegpt_as_conversations(tmp_path: Path) -> None:
    table = read(tmp_path, [TALK, said(("human", "h"), ("gpt", "a")), TALK], multi_turn=True).table
    assert table.session == [0, 0, 1, 2, 2]
    assert table.turn == [0, 1, 0, 0, 1]
    assert table.after == [-1, 0, -1, -1, 3]
    assert table.prompt_tokens == [2, 2 + 1 + 3, 1, 2, 6]  # all that was said before, and the question
    assert table.output_tokens == [1, 10, 1, 1, 10]


def test_part_of_the_conversations(tmp_path: Path) -> None:
    assert len(read(tmp_path, [TALK, TALK], multi_turn=True, max_requests=3).table) == 3


def test_what_comes_before_a_question_belongs_to_it_and_an_answer_to_nothing_is_left_out(tmp_path: Path) -> None:
    talk = said(("gpt", "?" * 400), ("system", "s" * 8), ("user", "u" * 8), ("assistant", "a" * 4), ("user", "bye"))
    trace = read(tmp_path, [talk], multi_turn=True)
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([4], [1])


def test_conversations_without_a_request_are_skipped(tmp_path: Path) -> None:
    bad = [said(("human", "alone")), said(), {"conversations": 3}, 7, said(("robot", "x")), said(("human", ""))]
    trace = read(tmp_path, [TALK, *bad])
    assert len(trace.table) == 1
    assert {each.reason: (each.rows, each.first_row) for each in trace.skipped} == {
        "no question with an answer": (3, 2),
        "no list of conversations": (2, 4),
        "a message without a known speaker or a text": (1, 6),
    }


def test_a_result_of_vllm(tmp_path: Path) -> None:
    trace = read(tmp_path, VLLM)
    assert (trace.format, trace.timed) == ("vllm", False)
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([100, 200], [10, 20])
    assert [(each.reason, each.first_row, each.example) for each in trace.skipped] == [("an error", 3, "timeout")]
    assert trace.remarks == ("the result holds no start_times, so all requests arrive at once",)


def test_a_result_of_vllm_that_says_when_requests_started(tmp_path: Path) -> None:
    trace = read(tmp_path, VLLM | {"start_times": [1000.5, 1002.0, 1003.0]})
    assert (trace.timed, trace.table.arrival_s, trace.remarks) == (True, [0.0, 1.5], ())


def test_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="equally long, not 3 input_lens, 1 output_lens, 3 errors"):
        read(tmp_path, VLLM | {"output_lens": [1]})


def test_a_document_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.json:1:\d+: not valid JSON: "):
        read(tmp_path, json.dumps([TALK])[:-20])
