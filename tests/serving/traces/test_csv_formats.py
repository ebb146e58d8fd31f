"""Each CSV format, by a small file of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import TraceError
from simsys.serving.traces import Trace, read_trace

BURSTGPT = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,7,2.5,ChatGPT,472,18,490,Conversation log
45,abc,3.5,GPT-4,1087,230,1317,API log
118,7,1.5,ChatGPT,417,276,693,Conversation log
120,,1.0,ChatGPT,100,0,100,Conversation log
121,,1.0,ChatGPT,100,10,110,API log
122,,1.0,ChatGPT,100,11,111,API log
"""
OLDER_BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
"""
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,20\n1.25,200,30\n"
SPLITWISE = """\
request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
0,2,5,0.0,1,1024,64
1,2,0,0.125,1,512,32
2,2,5,0.25,1,256,16
"""
SIMSYS = """\
arrival_s,prompt_tokens,output_tokens,priority,tenant,session,turn,after,think_s,hash_ids,hash_block_tokens
0.0,32,4,0,1,3,0,-1,0.0,1 2,16
0.1,70,5,-2,0,3,1,0,2.5,1 2 7 8,16
0.30000000000000004,16,6,0,0,4,0,-1,0.0,,16
"""


def read(folder: Path, text: str) -> Trace:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return read_trace(path)


def test_burstgpt_with_sessions(tmp_path: Path) -> None:
    trace = read(tmp_path, BURSTGPT)
    assert trace.format == "burstgpt"
    assert trace.table.arrival_s == [0.0, 40.0, 113.0, 116.0, 117.0]
    assert trace.table.prompt_tokens == [472, 1087, 417, 100, 100]
    assert trace.table.output_tokens == [18, 230, 276, 10, 11]
    session = trace.table.session
    assert session[0] == session[2]
    assert len(set(session)) == 4  # requests without one belong to none together
    assert trace.table.after == []  # their times were recorded
    assert [(each.rows, each.reason, each.first_row) for each in trace.skipped] == [
        (1, "Response tokens of 0 or less", 5)  # a request that failed
    ]


def test_burstgpt_as_it_was_first(tmp_path: Path) -> None:
    trace = read(tmp_path, OLDER_BURSTGPT)
    assert (trace.format, trace.table.session) == ("burstgpt", [])
    assert trace.table.output_tokens == [18, 230]


def test_vidur(tmp_path: Path) -> None:
    trace = read(tmp_path, VIDUR)
    assert (trace.format, trace.table.arrival_s) == ("vidur", [0.0, 0.75])
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([100, 200], [20, 30])


def test_lengths_of_vidur_have_no_arrivals(tmp_path: Path) -> None:
    trace = read(
        tmp_path, "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n1,9,10,0.1\n"
    )
    assert (trace.format, trace.timed, trace.table.arrival_s) == ("vidur-lengths", False, [0.0, 0.0])
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([3772, 1], [54, 9])
    timed = read(tmp_path, "arrived_at,num_prefill_tokens,num_decode_tokens,pd_ratio\n0.5,100,20,5\n")
    assert (timed.format, timed.timed) == ("vidur", True)


@pytest.mark.parametrize(("end", "remarks"), [("\n", 0), ("\r\n", 0), ("", 1)])
def test_a_last_number_that_may_be_cut_off_is_remarked(tmp_path: Path, end: str, remarks: int) -> None:
    trace = read(tmp_path, VIDUR.strip() + end)
    assert (len(trace.table), len(trace.remarks)) == (2, remarks)
    assert all("the last row has no line end" in remark for remark in trace.remarks)


def test_splitwise(tmp_path: Path) -> None:
    trace = read(tmp_path, SPLITWISE)
    assert (trace.format, trace.table.arrival_s) == ("splitwise", [0.0, 0.125, 0.25])
    assert (trace.table.prompt_tokens, trace.table.output_tokens) == ([1024, 512, 256], [64, 32, 16])
    assert trace.table.tenant == [0, 1, 0]  # applications, numbered as they come


def test_own_format_with_every_column(tmp_path: Path) -> None:
    trace = read(tmp_path, SIMSYS)
    table = trace.table
    assert (trace.format, trace.skipped) == ("simsys", ())
    assert table.arrival_s == [0.0, 0.1, 0.30000000000000004]
    assert (table.priority, table.tenant, table.session, table.turn) == ([0, -2, 0], [1, 0, 0], [3, 3, 4], [0, 1, 0])
    assert (table.after, table.think_s) == ([-1, 0, -1], [0.0, 2.5, 0.0])
    assert (table.hash_ids, table.hash_block_tokens) == ([(1, 2), (1, 2, 7, 8), ()], 16)


def test_who_waits_for_a_row_that_was_skipped_waits_for_none(tmp_path: Path) -> None:
    rows = ["0,8,1,-1", "1,0,1,0", "2,8,1,1", "3,8,1,0", "4,8,1,9", "5,8,1,5"]
    table = read(tmp_path, "\n".join(["arrival_s,prompt_tokens,output_tokens,after", *rows])).table
    assert table.after == [-1, -1, 0, -1, -1]


def test_ids_beyond_the_prompt_are_left_out(tmp_path: Path) -> None:
    table = read(tmp_path, SIMSYS.replace("0.0,32,4", "0.0,31,4")).table
    assert table.hash_ids[0] == (1,)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0.5,8,4,x,0,0,0,-1,0,,16", "priority that is not a whole number from -1000000000"),
        ("0.5,8,4,0,-1,0,0,-1,0,,16", "tenant that is not a whole number from 0"),
        ("0.5,8,4,0,0,0,0,-2,0,,16", "after that is not a whole number from -1"),
        ("0.5,8,4,0,0,0,0,-1,-3,,16", "think_s below 0"),
        ("0.5,8,4,0,0,0,0,-1,0,1 b,16", "hash_ids that are no whole numbers with spaces between them"),
        ("0.5,8,4,0,0,0,0,-1,0,,32", "hash_block_tokens other than that of the rows before"),
        ("0.5,8,4,0,0,0,0,-1,0,,0", "hash_block_tokens that is not a whole number from 1"),
        ("-0.5,8,4,0,0,0,0,-1,0,,16", "arrival_s below 0"),
        ("nan,8,4,0,0,0,0,-1,0,,16", "arrival_s that is no time"),
        ("1e31,8,4,0,0,0,0,-1,0,,16", "arrival_s that is no time"),
    ],
)
def test_a_row_with_a_broken_column_is_skipped(tmp_path: Path, row: str, reason: str) -> None:
    trace = read(tmp_path, SIMSYS + row + "\n")
    assert [(each.reason, each.rows, each.first_row) for each in trace.skipped] == [(reason, 1, 5)]
    assert len(trace.table) == 3


def test_ids_need_the_size_of_a_block(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="hash_ids need a column hash_block_tokens"):
        read(tmp_path, "arrival_s,prompt_tokens,output_tokens,hash_ids\n0,16,1,1\n")
