from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simsys.build.workload import build_requests
from simsys.config.workload import WorkloadConfig
from simsys.errors import TraceError, UsageError
from simsys.serving.requests import RequestTable

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
    with pytest.raises(UsageError, match="arrival_s must be finite"):
        build(DRAWN | {"arrivals": {"kind": kind, "rate": "1e-310 req/s"}})


def test_requests_do_not_depend_on_string_hashing() -> None:
    program = (
        "from tests.test_workload import *; import hashlib; "
        "print(hashlib.sha256(repr(columns(build(DRAWN))).encode()).hexdigest())"
    )
    command = [sys.executable, "-c", program]
    digests = {
        subprocess.run(
            command,
            cwd=HERE.parent,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "1")
    }
    assert digests == {hashlib.sha256(repr(columns(build(DRAWN))).encode()).hexdigest()}
