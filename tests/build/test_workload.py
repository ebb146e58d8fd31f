from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import simsys.build.workload
from simsys.build.workload import build_requests
from simsys.config.workload import WorkloadConfig
from simsys.errors import TraceError, UsageError
from simsys.serving.requests import OPTIONAL_COLUMNS, RequestTable
from tests.helpers.places import ROOT

HERE = Path(__file__).parent
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2026-01-05 09:00:{second:02},{100 + second},{10 + second}\n" for second in range(0, 50, 5)
)
DRAWN: dict[str, Any] = {
    "arrivals": {"kind": "gamma", "rate": "8 req/s", "burstiness": 0.5},
    "prompt_tokens": {"kind": "lognormal", "mean": 512},
    "output_tokens": {"kind": "uniform", "low": 10, "high": 200},
    "num_requests": 200,
}
TRACED: dict[str, Any] = {
    "arrivals": {"kind": "trace"},
    "prompt_tokens": {"kind": "trace"},
    "output_tokens": {"kind": "trace"},
    "trace": {"path": "traces/chat.csv"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "chat.csv").write_text(TRACE)
    return tmp_path


def build(given: dict[str, Any], seed: int = 42, folder: Path = HERE) -> RequestTable:
    return build_requests(WorkloadConfig.model_validate(given), seed, folder)


def columns(table: RequestTable) -> tuple[list[float], list[int], list[int]]:
    return table.arrival_s, table.prompt_tokens, table.output_tokens


def test_equal_seeds_give_equal_requests_and_others_do_not() -> None:
    assert columns(build(DRAWN)) == columns(build(DRAWN))
    assert all(one != other for one, other in zip(columns(build(DRAWN)), columns(build(DRAWN, 43)), strict=True))


@pytest.mark.parametrize("count", [1, 77, 199])
def test_the_first_requests_do_not_depend_on_how_many_follow(count: int) -> None:
    short = build(DRAWN | {"num_requests": count})
    assert columns(short) == tuple(column[:count] for column in columns(build(DRAWN)))


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"arrivals": {"kind": "poisson", "rate": "8 req/s"}}, 0),
        ({"prompt_tokens": {"kind": "normal", "mean": 512, "std": 50}}, 1),
        ({"output_tokens": 128}, 2),
    ],
)
def test_changing_one_distribution_moves_no_other_column(change: dict[str, Any], moved: int) -> None:
    pairs = zip(columns(build(DRAWN)), columns(build(DRAWN | change)), strict=True)
    assert [one != other for one, other in pairs] == [index == moved for index in range(3)]


def test_equally_distributed_lengths_are_drawn_apart() -> None:
    same = {"kind": "lognormal", "mean": 512}
    table = build(DRAWN | {"prompt_tokens": same, "output_tokens": same})
    assert table.prompt_tokens != table.output_tokens


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [({"kind": "constant", "rate": "2 req/s"}, [0.0, 0.5, 1.0]), ({"kind": "all_at_once"}, [0.0, 0.0, 0.0])],
)
def test_arrivals_without_chance(arrivals: dict[str, Any], expected: list[float]) -> None:
    table = build(DRAWN | {"arrivals": arrivals, "prompt_tokens": 7, "num_requests": 3})
    assert table.arrival_s == expected
    assert table.prompt_tokens == [7, 7, 7]


def test_a_trace_is_found_beside_the_experiment_and_read_whole(folder: Path) -> None:
    table = build(TRACED, folder=folder)
    assert table.arrival_s == [5.0 * row for row in range(10)]
    assert table.prompt_tokens == [100 + 5 * row for row in range(10)]
    assert table.output_tokens == [10 + 5 * row for row in range(10)]


def test_an_absolute_path_of_a_trace_stands_for_itself(folder: Path) -> None:
    absolute = TRACED | {"trace": {"path": str(folder / "traces" / "chat.csv")}}
    assert len(build(absolute)) == 10


@pytest.mark.parametrize(("num_requests", "max_requests", "rows"), [(4, None, 4), (None, 3, 3), (2, 5, 2)])
def test_part_of_a_trace(folder: Path, num_requests: int | None, max_requests: int | None, rows: int) -> None:
    trace = TRACED["trace"] | {"max_requests": max_requests, "rate_scale": 5}
    table = build(TRACED | {"num_requests": num_requests, "trace": trace}, folder=folder)
    assert table.arrival_s == [float(row) for row in range(rows)]


def test_lengths_of_a_trace_with_drawn_arrivals(folder: Path) -> None:
    table = build(TRACED | {"arrivals": {"kind": "poisson", "rate": "8 req/s"}}, folder=folder)
    assert table.prompt_tokens == [100 + 5 * row for row in range(10)]
    assert 0 < table.span_s < 5


def test_a_trace_with_too_few_requests_is_refused(folder: Path) -> None:
    with pytest.raises(TraceError, match=r"chat\.csv: holds 10 requests, but num_requests asks for 11"):
        build(TRACED | {"num_requests": 11}, folder=folder)


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"chat\.csv: no such file"):
        build(TRACED, folder=tmp_path)


@pytest.mark.parametrize("kind", ["poisson", "constant"])
def test_a_rate_too_low_for_the_clock_is_refused(kind: str) -> None:
    with pytest.raises(UsageError, match=r"at most 1e\+10 s \(300 years\) are simulated"):
        build(DRAWN | {"arrivals": {"kind": kind, "rate": "1e-50 req/s"}})


def test_requests_do_not_depend_on_string_hashing() -> None:
    program = (
        "from tests.build.test_workload import *; import hashlib; "
        "print(hashlib.sha256(repr(columns(build(DRAWN))).encode()).hexdigest())"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == hashlib.sha256(repr(columns(build(DRAWN))).encode()).hexdigest()


CHATS: dict[str, Any] = DRAWN | {
    "sessions": {
        "turns": {"kind": "uniform", "low": 1, "high": 6},
        "think_time": {"kind": "exponential", "mean": "9 s"},
    },
    "prefixes": {"groups": 3, "tokens": {"kind": "uniform", "low": 100, "high": 900}, "weights": [5, 3, 2]},
    "priorities": {0: 0.9, 5: 0.1},
    "tenants": {"free": 3, "paid": 1},
}
TALKS = json.dumps(
    [
        {
            "conversations": [
                {"from": who, "value": text * (number + 1)}
                for who, text in 3 * [("human", "x" * 40), ("gpt", "y" * 80)]
            ]
        }
        for number in range(4)
    ]
)
OF_TALKS: dict[str, Any] = {
    "arrivals": {"kind": "constant", "rate": "2 req/s"},
    "prompt_tokens": {"kind": "trace"},
    "output_tokens": {"kind": "trace"},
    "trace": {"path": "talks.json", "multi_turn": True, "think_time": "3 s"},
}


def every_column(table: RequestTable) -> dict[str, list[Any]]:
    return {name: getattr(table, name) for name in ("arrival_s", "prompt_tokens", "output_tokens", *OPTIONAL_COLUMNS)}


def test_a_trace_without_conversations_has_no_turns(tmp_path: Path) -> None:
    (tmp_path / "flat.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0.0,8,4\n1.0,9,5\n", encoding="utf-8")
    given = OF_TALKS | {"trace": {"path": "flat.csv", "multi_turn": True}}
    with pytest.raises(TraceError, match=r"flat\.csv: has no conversations"):
        build(given, folder=tmp_path)


def test_plain_workloads_have_plain_tables() -> None:
    table = build(DRAWN)
    assert all(getattr(table, name) == [] for name in OPTIONAL_COLUMNS)
    assert table.notes == ()


@pytest.mark.parametrize("count", [1, 2, 7, 50, 199])
def test_the_first_turns_do_not_depend_on_how_many_follow(count: int) -> None:
    whole, part = every_column(build(CHATS)), every_column(build(CHATS | {"num_requests": count}))
    blocks = part.pop("hash_ids")  # those of the last conversation reach less far
    assert all(column == whole[name][:count] for name, column in part.items())
    assert all(ids == more[: len(ids)] for ids, more in zip(blocks, whole["hash_ids"], strict=False))


def test_a_conversation_keeps_its_history_tenant_priority_and_time() -> None:
    table = build(CHATS | {"num_requests": 2000})
    later = [request for request, before in enumerate(table.after) if before >= 0]
    assert len(later) > 1000
    for request in later:
        before = table.after[request]
        assert table.turn[request] == table.turn[before] + 1
        assert table.prompt_tokens[request] > table.prompt_tokens[before] + table.output_tokens[before]
        for name in ("session", "tenant", "priority", "arrival_s"):
            assert getattr(table, name)[request] == getattr(table, name)[before]
    assert table.tenant_names == ("free", "paid")
    assert {table.think_s[request] for request, before in enumerate(table.after) if before < 0} == {0.0}
    assert sum(table.think_s) / len(later) == pytest.approx(9.0, rel=0.2)


def test_weights_say_how_often_priorities_and_tenants_occur() -> None:
    table = build(DRAWN | {"num_requests": 20_000, "priorities": {0: 0.9, -5: 0.1}, "tenants": {"a": 1, "b": 3}})
    assert table.priority.count(-5) / 20_000 == pytest.approx(0.1, abs=0.011)
    assert table.tenant.count(1) / 20_000 == pytest.approx(0.75, abs=0.016)


def test_requests_of_a_group_share_its_system_prompt() -> None:
    plain = build(DRAWN)
    table = build(DRAWN | {"prefixes": {"groups": 2, "tokens": 100}, "hash_block_size": 32})
    assert table.prompt_tokens == [tokens + 100 for tokens in plain.prompt_tokens]
    assert set(table.hash_ids) == {(0, 1, 2), (3, 4, 5)}  # 96 of 100 tokens are full blocks
    assert table.hash_block_tokens == 32
    assert columns(table)[0] == columns(plain)[0]


def test_a_closed_loop_says_how_many_clients_there_are() -> None:
    table = build(DRAWN | {"arrivals": {"kind": "closed_loop", "concurrency": 16}})
    assert (table.concurrency, set(table.arrival_s), len(table)) == (16, {0.0}, 200)


def test_a_timed_workload_has_all_requests_until_its_end() -> None:
    timed = build({key: value for key, value in DRAWN.items() if key != "num_requests"} | {"duration": "5 s"})
    longer = build(DRAWN)
    assert timed.arrival_s == [time_s for time_s in longer.arrival_s if time_s < 5.0]
    assert timed.prompt_tokens == longer.prompt_tokens[: len(timed)]


def test_a_time_without_requests_is_refused() -> None:
    with pytest.raises(UsageError, match="no request arrives within 1 ms"):
        build(DRAWN | {"arrivals": {"kind": "poisson", "rate": "0.001 req/s"}, "duration": "1 ms"})


def test_far_too_many_requests_are_not_drawn_before_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simsys.build.workload, "draw_arrivals", lambda *_: pytest.fail("requests are drawn"))
    timed = {key: value for key, value in DRAWN.items() if key != "num_requests"} | {"duration": "1 h"}
    with pytest.raises(UsageError, match="requests or more arrive within 1 h"):
        build(timed | {"arrivals": {"kind": "poisson", "rate": "1e16 req/s"}})


def test_a_time_with_too_many_requests_is_refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(simsys.config.workload, "MOST_REQUESTS", 1000)
    monkeypatch.setattr(simsys.config.workload, "MOST_RELATED_REQUESTS", 1000)
    timed = {key: value for key, value in DRAWN.items() if key != "num_requests"} | {"duration": "1 h"}
    with pytest.raises(
        UsageError,
        match=r"1000 requests or more arrive within 1 h; .* lower the rate or the duration, or give num_requests",
    ):
        build(timed)
    assert len(build(timed | {"num_requests": 900})) == 900
    with pytest.raises(UsageError, match="17280 requests are more than there can be, 1000"):
        build(TRACED | {"trace": TRACED["trace"] | {"repeat": True}, "duration": "1 d"}, folder=folder)


def test_a_window_of_a_trace(folder: Path) -> None:
    trace = TRACED["trace"] | {"start": "10 s", "duration": "15 s", "rate_scale": 5}
    table = build(TRACED | {"trace": trace}, folder=folder)
    assert (table.arrival_s, table.prompt_tokens) == ([0.0, 1.0, 2.0], [110, 115, 120])


def test_arrivals_at_rounded_times_are_spread(folder: Path) -> None:
    trace = TRACED["trace"] | {"spread": "5 s", "rate_scale": 2}
    table = build(TRACED | {"trace": trace}, folder=folder)
    delays_s = [time_s - 2.5 * row for row, time_s in enumerate(table.arrival_s)]  # rows are 5 s apart
    assert all(0 <= delay_s < 2.5 for delay_s in delays_s)
    assert len(set(delays_s)) == 10
    assert table.prompt_tokens == [100 + 5 * row for row in range(10)]
    part = build(TRACED | {"trace": trace, "num_requests": 4}, folder=folder)
    assert part.arrival_s == table.arrival_s[:4]


@pytest.mark.parametrize(
    "limits", [{"num_requests": 25}, {"duration": "125 s"}, {"num_requests": 25, "duration": "1 h"}]
)
def test_a_trace_that_repeats(folder: Path, limits: dict[str, Any]) -> None:
    table = build(TRACED | {"trace": TRACED["trace"] | {"repeat": True}} | limits, folder=folder)
    assert table.arrival_s == [5.0 * row for row in range(25)]
    assert table.prompt_tokens[10:20] == table.prompt_tokens[:10]


def test_a_trace_that_repeats_at_drawn_times(folder: Path) -> None:
    drawn = {"arrivals": DRAWN["arrivals"], "num_requests": 33, "trace": TRACED["trace"] | {"repeat": True}}
    table = build(TRACED | drawn, folder=folder)
    assert table.arrival_s == build(DRAWN | {"num_requests": 33}).arrival_s
    assert table.prompt_tokens == (4 * table.prompt_tokens[:10])[:33]


def test_skipped_rows_are_noted(folder: Path) -> None:
    path = folder / "traces" / "chat.csv"
    path.write_text(path.read_text() + "2026-01-05 09:00:5")
    table = build(TRACED, folder=folder)
    assert len(table) == 10
    assert "skipped 1 of 11 rows: 1 with other than 3 columns" in table.notes[-1]
    with pytest.raises(TraceError, match=r"holds 10 requests, but num_requests asks for 11; .*skipped 1 of 11"):
        build(TRACED | {"num_requests": 11}, folder=folder)


def test_conversations_of_a_trace_at_drawn_times(tmp_path: Path) -> None:
    (tmp_path / "talks.json").write_text(TALKS)
    table = build(OF_TALKS, folder=tmp_path)
    assert table.arrival_s == [0.5 * number for number in range(4) for _ in range(3)]
    assert (table.session, table.turn) == ([number for number in range(4) for _ in range(3)], 4 * [0, 1, 2])
    assert table.prompt_tokens[:3] == [10, 10 + 20 + 10, 10 + 20 + 10 + 20 + 10]
    assert table.think_s == 4 * [0.0, 3.0, 3.0]
    assert table.hash_block_tokens == 16
    assert [len(ids) for ids in table.hash_ids[:3]] == [0, 2, 4]
    assert table.hash_ids[2][:2] == table.hash_ids[1]
    assert any("tokens are estimated" in note for note in table.notes)


@pytest.mark.parametrize(
    ("limits", "count"), [({"num_requests": 5}, 5), ({"duration": "1 s"}, 6), ({"num_requests": 12}, 12)]
)
def test_some_conversations_of_a_trace(tmp_path: Path, limits: dict[str, Any], count: int) -> None:
    (tmp_path / "talks.json").write_text(TALKS)
    table = build(OF_TALKS | limits, folder=tmp_path)
    assert table.session == [number for number in range(4) for _ in range(3)][:count]


def test_conversations_of_a_trace_repeat_as_others(tmp_path: Path) -> None:
    (tmp_path / "talks.json").write_text(TALKS)
    table = build(OF_TALKS | {"num_requests": 20, "trace": OF_TALKS["trace"] | {"repeat": True}}, folder=tmp_path)
    assert table.session == [number for number in range(7) for _ in range(3)][:20]
    assert table.prompt_tokens[12:] == table.prompt_tokens[:8]
    assert not set(table.hash_ids[13]) & set(table.hash_ids[1])


def test_a_trace_without_times_cannot_say_when_requests_arrive(tmp_path: Path) -> None:
    (tmp_path / "talks.json").write_text(TALKS)
    with pytest.raises(TraceError, match="a trace of format sharegpt holds no times; give others, such as arrivals: "):
        build(TRACED | {"trace": {"path": "talks.json"}}, folder=tmp_path)


OWN = "arrival_s,prompt_tokens,output_tokens,session,after,hash_ids,hash_block_tokens\n" + "".join(
    f"{time_s},64,8,{session},{after},{ids},16\n"
    for time_s, session, after, ids in [(0, 0, -1, "1"), (1, 1, -1, "2"), (2, 0, 0, "1 5"), (3, 1, 1, "2 6")]
)


def test_columns_of_a_trace_are_kept_where_it_holds_the_prompts(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(OWN)
    trace = {"trace": {"path": "own.csv"}}
    table = build(TRACED | trace, folder=tmp_path)
    assert (table.after, table.hash_ids) == ([-1, -1, 0, 1], [(1,), (2,), (1, 5), (2, 6)])
    drawn = build(TRACED | trace | {"prompt_tokens": 5}, folder=tmp_path)
    assert (drawn.arrival_s, drawn.after, drawn.hash_ids) == ([0.0, 1.0, 2.0, 3.0], [], [])


def test_conversations_that_overlap_in_a_trace_begin_at_drawn_times(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(OWN)
    table = build(TRACED | {"trace": {"path": "own.csv"}, "arrivals": OF_TALKS["arrivals"]}, folder=tmp_path)
    assert (table.arrival_s, table.session, table.after) == ([0.0, 0.0, 0.5, 0.5], [0, 0, 1, 1], [-1, 0, -1, 2])


def test_conversations_of_a_trace_are_no_closed_loop(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(OWN)
    clients = {"kind": "closed_loop", "concurrency": 2}
    with pytest.raises(TraceError, match="cannot arrive in a closed loop"):
        build(TRACED | {"trace": {"path": "own.csv"}, "arrivals": clients}, folder=tmp_path)
