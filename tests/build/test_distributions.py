from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from simsys.build.distributions import draw_arrivals, draw_lengths, draw_times, draw_weighted
from simsys.config.arrivals import Arrivals
from simsys.config.lengths import Length, Time
from simsys.errors import TraceError

HERE = Path(__file__).parent
RATE: dict[str, dict[str, Any]] = {
    "poisson": {"rate": "8 req/s"},
    "gamma": {"rate": "8 req/s", "burstiness": 0.5},
    "constant": {"rate": "8 req/s"},
    "time_varying": {"rates": [{"duration": "10 s", "rate": "4 req/s"}, {"duration": "10 s", "rate": "12 req/s"}]},
}


def arrivals(kind: str, most: int, until_s: float = math.inf) -> list[float]:
    config = TypeAdapter(Arrivals).validate_python({"kind": kind, **RATE.get(kind, {})})
    return draw_arrivals(config, most, until_s, seed=7)


def lengths(given: object, count: int, folder: Path = HERE) -> list[int]:
    return draw_lengths(TypeAdapter(Length).validate_python(given), count, 7, "prompt_tokens", folder)


@pytest.mark.parametrize("kind", RATE)
@pytest.mark.parametrize("until_s", [0.5, 30.0, 500.0])
def test_a_time_limit_keeps_just_the_arrivals_before_it(kind: str, until_s: float) -> None:
    timed = arrivals(kind, 1_000_000, until_s)
    assert all(time_s < until_s for time_s in timed)
    assert arrivals(kind, len(timed) + 1)[-1] >= until_s  # the next one is too late
    assert timed == arrivals(kind, len(timed) + 1)[:-1]


@pytest.mark.parametrize("kind", RATE)
def test_whichever_limit_comes_first_holds(kind: str) -> None:
    assert len(arrivals(kind, 10, 500.0)) == 10
    assert arrivals(kind, 3000, 500.0) == arrivals(kind, 3000)


def test_a_piece_without_a_limit_is_not_cut_at_infinity() -> None:
    config = TypeAdapter(Arrivals).validate_python({"kind": "constant", "rate": "1e-50 req/s"})
    assert draw_arrivals(config, 2, math.inf, 1) == [0.0, 1e50]  # which a request table refuses


def test_observed_lengths_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("name,tokens\na,5\nb,x\nc,7\n")
    assert set(lengths({"kind": "empirical", "file": "lengths.csv", "column": "tokens"}, 100, tmp_path)) == {5, 7}


@pytest.mark.parametrize(
    ("content", "column", "expected"),
    [
        ("a,tokens\n1,2\n", "token", "no column 'token', did you mean 'tokens'?"),
        ("tokens\n0\n-3\n", "tokens", "column 'tokens' holds no lengths; skipped 2 with tokens of 0 or less"),
        ("tokens\n", "tokens", "column 'tokens' holds no lengths"),
        ("", "tokens", "the file is empty"),
        (None, "tokens", "no such file"),
    ],
)
def test_a_file_without_lengths_is_refused(tmp_path: Path, content: str | None, column: str, expected: str) -> None:
    if content is not None:
        (tmp_path / "lengths.csv").write_text(content)
    with pytest.raises(TraceError) as caught:
        lengths({"kind": "empirical", "file": "lengths.csv", "column": column}, 5, tmp_path)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "zipf", "exponent": 1.1, "max": 4096},
        {"kind": "empirical", "values": [10, 20, 40]},
        {"kind": "empirical", "values": [10, 20, 40], "weights": [1, 0.5, 0.25]},
    ],
)
def test_the_first_lengths_do_not_depend_on_how_many_follow(given: dict[str, Any]) -> None:
    assert lengths(given, 20) == lengths(given, 200)[:20]


def test_times() -> None:
    time = TypeAdapter(Time)
    assert draw_times(time.validate_python("2 s"), 3, 1, "think") == [2.0, 2.0, 2.0]
    drawn = draw_times(time.validate_python({"kind": "exponential", "mean": "20 s"}), 100_000, 1, "think")
    assert sum(drawn) / len(drawn) == pytest.approx(20.0, rel=5 / math.sqrt(len(drawn)))
    assert sum(time_s > 20.0 for time_s in drawn) / len(drawn) == pytest.approx(math.exp(-1), abs=0.01)


def test_weighted_indices() -> None:
    drawn = draw_weighted([1.0, 3.0], 100_000, 1, "tenants")
    assert drawn.count(1) / len(drawn) == pytest.approx(0.75, abs=5 * math.sqrt(0.1875 / len(drawn)))
