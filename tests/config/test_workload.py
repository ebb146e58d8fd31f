from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from simsys.config.arrivals import Arrivals, PoissonArrivals
from simsys.config.lengths import FixedLength, Length, LognormalLength
from simsys.config.workload import WorkloadConfig

VALID: dict[str, Any] = {
    "arrivals": {"kind": "poisson", "rate": "8 req/s"},
    "prompt_tokens": {"kind": "lognormal", "mean": 512},
    "output_tokens": 128,
    "num_requests": 10_000,
}
TRACED: dict[str, Any] = {
    "arrivals": {"kind": "trace"},
    "prompt_tokens": {"kind": "trace"},
    "output_tokens": {"kind": "trace"},
    "trace": {"path": "chat.csv"},
}


CHATS: dict[str, Any] = VALID | {
    "sessions": {"turns": 4, "think_time": {"kind": "exponential", "mean": "20 s"}},
    "prefixes": {"groups": 2, "tokens": 512, "weights": [1, 3]},
    "priorities": {0: 0.9, 5: 0.1},
    "tenants": {"free": 0.8, "paid": 0.2},
}


def message(**changes: Any) -> str:
    """The only problem of a workload that differs from a valid one by some keys; None removes a key."""
    given = {key: value for key, value in (VALID | changes).items() if value is not None}
    with pytest.raises(ValidationError) as caught:
        WorkloadConfig.model_validate(given)
    (problem,) = caught.value.errors()
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def test_the_documented_workload() -> None:
    workload = WorkloadConfig.model_validate(VALID)
    assert workload.arrivals == PoissonArrivals(rate="8 req/s")  # type: ignore[arg-type]
    assert workload.arrivals.rate == 8.0
    assert workload.prompt_tokens == LognormalLength(mean=512, sigma=0.8, min=1, max=1_000_000)
    assert workload.output_tokens == FixedLength(tokens=128)
    assert workload.num_requests == 10_000


def test_a_trace_needs_no_number_of_requests() -> None:
    workload = WorkloadConfig.model_validate(TRACED)
    assert workload.num_requests is None
    assert workload.trace is not None
    assert workload.trace.rate_scale == 1.0


@pytest.mark.parametrize("trace", ["chat.csv", {"path": "chat.csv"}])
def test_a_trace_is_enough(trace: object) -> None:
    assert WorkloadConfig.model_validate({"trace": trace}) == WorkloadConfig.model_validate(TRACED)


def test_what_is_written_beside_a_trace_counts() -> None:
    workload = WorkloadConfig.model_validate({"trace": "chat.csv", "prompt_tokens": 9, "num_requests": 5})
    assert workload.traced == ["arrivals", "output_tokens"]
    assert (workload.prompt_tokens, workload.num_requests) == (FixedLength(tokens=9), 5)


def test_arrivals_of_conversations_are_not_those_of_the_trace() -> None:
    trace = {"path": "chat.json", "multi_turn": True}
    with pytest.raises(ValidationError, match=r"arrivals\n *Field required"):
        WorkloadConfig.model_validate({"trace": trace})
    workload = WorkloadConfig.model_validate({"trace": trace, "arrivals": {"kind": "all_at_once"}})
    assert workload.traced == ["prompt_tokens", "output_tokens"]


@pytest.mark.parametrize(
    "arrivals",
    [
        {"kind": "gamma", "rate": "8 req/s", "burstiness": 0.5},
        {"kind": "gamma", "rate": "8 req/s", "burstiness": 2},
        {"kind": "constant", "rate": "0.5 req/s"},
        {"kind": "all_at_once"},
        {"kind": "closed_loop", "concurrency": 16},
        {
            "kind": "time_varying",
            "rates": [{"duration": "60 s", "rate": "8 req/s"}, {"duration": "9 s", "rate": "0 req/s"}],
        },
        {"kind": "time_varying", "rates": [{"duration": "1 h", "rate": "8 req/s"}], "repeat": False},
        {"kind": "trace"},
    ],
)
def test_arrivals(arrivals: dict[str, Any]) -> None:
    parsed = TypeAdapter(Arrivals).validate_python(arrivals)
    assert parsed.kind == arrivals["kind"]
    assert TypeAdapter(Arrivals).validate_python(parsed) is parsed


@pytest.mark.parametrize(
    "length",
    [
        {"kind": "fixed", "tokens": 1},
        {"kind": "uniform", "low": 5, "high": 5},
        {"kind": "normal", "mean": 512, "std": 0.5, "min": 10, "max": 600},
        {"kind": "lognormal", "mean": 1.5, "sigma": 1.0},
        {"kind": "zipf", "exponent": 0.6, "min": 16, "max": 4096},
        {"kind": "empirical", "values": [10, 20], "weights": [0.5, 2.0]},
        {"kind": "empirical", "file": "lengths.csv", "column": "tokens"},
        {"kind": "trace"},
    ],
)
def test_lengths(length: dict[str, Any]) -> None:
    parsed = TypeAdapter(Length).validate_python(length)
    assert parsed.model_dump(exclude_unset=True) == length


@pytest.mark.parametrize("base", [VALID, TRACED, CHATS])
def test_json_reads_back(base: dict[str, Any]) -> None:
    workload = WorkloadConfig.model_validate(base)
    assert WorkloadConfig.model_validate_json(workload.model_dump_json()) == workload


@pytest.mark.parametrize("rate", ["0 req/s", "-1 req/s", "nan req/s", "inf req/s", 8, "8", "8 tok/s", None, True])
@pytest.mark.parametrize("kind", ["poisson", "gamma", "constant"])
def test_impossible_rates_are_refused(kind: str, rate: object) -> None:
    arrivals = {"kind": kind, "rate": rate} | ({"burstiness": 1.0} if kind == "gamma" else {})
    assert message(arrivals=arrivals).startswith(f"arrivals.{kind}.rate: ")


@pytest.mark.parametrize("burstiness", [0, -1, 1e-9, float("nan"), float("inf"), "1", True, None])
def test_impossible_burstiness_is_refused(burstiness: object) -> None:
    arrivals = {"kind": "gamma", "rate": "8 req/s", "burstiness": burstiness}
    assert message(arrivals=arrivals).startswith("arrivals.gamma.burstiness: ")


@pytest.mark.parametrize("tokens", [0, -1, 12.5, float("nan"), float("inf"), True, 2_000_000_000])
def test_impossible_fixed_lengths_are_refused(tokens: object) -> None:
    assert message(output_tokens=tokens).startswith("output_tokens.fixed.tokens: ")


@pytest.mark.parametrize(
    ("length", "place"),
    [
        ({"kind": "uniform", "low": 0, "high": 5}, "uniform.low"),
        ({"kind": "uniform", "low": 1}, "uniform.high"),
        ({"kind": "normal", "mean": 0, "std": 1}, "normal.mean"),
        ({"kind": "normal", "mean": 5, "std": 0}, "normal.std"),
        ({"kind": "normal", "mean": 5}, "normal.std"),
        ({"kind": "lognormal", "mean": float("nan")}, "lognormal.mean"),
        ({"kind": "lognormal", "mean": 5, "sigma": 11}, "lognormal.sigma"),
        ({"kind": "lognormal", "mean": 5, "sigma": -0.5}, "lognormal.sigma"),
        ({"kind": "lognormal", "mean": 5, "std": 1}, "lognormal.std"),
        ({"kind": "trace", "path": "x.csv"}, "trace.path"),
        ({"kind": "zipf", "exponent": -1, "max": 5}, "zipf.exponent"),
        ({"kind": "zipf", "exponent": 1, "max": 100_000_000}, "zipf.max"),
        ({"kind": "empirical", "values": []}, "empirical.values"),
        ({"kind": "empirical", "values": [0]}, "empirical.values.0"),
        ({"kind": "empirical", "values": [1], "weights": [0]}, "empirical.weights.0"),
        ({"kind": "empirical", "values": [1, 2], "weights": [1, 1e308]}, "empirical.weights.1"),
    ],
)
def test_a_bad_field_is_named(length: dict[str, Any], place: str) -> None:
    assert message(prompt_tokens=length).startswith(f"prompt_tokens.{place}: ")


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        ({"kind": "uniform", "low": 9, "high": 5}, "low (9) must not exceed high (5)"),
        ({"kind": "normal", "mean": 9, "std": 1, "min": 10}, "min <= mean <= max must hold, not 10 <= 9 <= 1000000"),
        ({"kind": "lognormal", "mean": 50.5, "max": 50}, "min <= mean <= max must hold, not 1 <= 50.5 <= 50"),
        ({"kind": "lognormal", "mean": 5, "min": 9, "max": 2}, "min <= mean <= max must hold, not 9 <= 5 <= 2"),
        ({"kind": "lognorm", "mean": 5}, "unknown kind 'lognorm' of length, did you mean 'lognormal'?"),
        ({"kind": ["fixed"]}, "unknown kind ['fixed'] of length"),
        ({"mean": 5}, "a number of tokens, or a mapping with a kind"),
        ("512", "a number of tokens, or a mapping with a kind"),
        ([], "a number of tokens, or a mapping with a kind"),
        ({"kind": "zipf", "exponent": 1, "min": 9, "max": 5}, "min (9) must not exceed max (5)"),
        ({"kind": "empirical"}, "either values or a file with a column is needed"),
        ({"kind": "empirical", "values": [1], "file": "x", "column": "y"}, "either values or a file"),
        ({"kind": "empirical", "file": "x"}, "file and column belong together"),
        ({"kind": "empirical", "values": [1, 2], "weights": [1]}, "one weight for each value is needed, 2, not 1"),
    ],
)
def test_lengths_that_make_no_sense_are_explained(length: object, expected: str) -> None:
    assert expected in message(prompt_tokens=length)


def test_exact_messages() -> None:
    assert message(arrivals={"kind": "poison", "rate": "8 req/s"}) == (
        "arrivals: unknown kind 'poison' of arrivals, did you mean 'poisson'?"
    )
    assert message(arrivals="poisson") == (
        "arrivals: a mapping with a kind, such as {kind: poisson, rate: 8 req/s}, is expected here"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"arrivals": {"kind": "trace"}}, "arrivals of kind trace need a trace, e.g. trace: {path: requests.csv}"),
        ({"trace": {"path": "x.csv"}}, "trace is given, but no part uses it"),
        (
            {"num_requests": None, "arrivals": {"kind": "closed_loop", "concurrency": 2}},
            "num_requests is missing; only a trace knows its own number of requests; with a simulation.duration, give",
        ),
        ({"num_requests": 0}, "num_requests: "),
        ({"num_requests": 1.5}, "num_requests: "),
        ({"num_requests": 10**12}, "num_requests: "),
        ({"max_concurrency": 4}, "max_concurrency: "),
        (
            TRACED | {"trace": {"path": "x.csv", "max_requests": 10}},
            "num_requests (10000) exceeds trace.max_requests (10)",
        ),
        (TRACED | {"trace": {"path": ""}}, "trace.path: "),
        (TRACED | {"trace": {"path": "x.csv", "rate_scale": 0}}, "trace.rate_scale: "),
        (TRACED | {"trace": {"path": "x.csv", "max_requests": 0}}, "trace.max_requests: "),
        (
            {"output_tokens": {"kind": "trace"}, "trace": {"path": "x.csv", "rate_scale": 2}},
            "trace.rate_scale has no effect",
        ),
        (
            {"output_tokens": {"kind": "trace"}, "trace": {"path": "x.csv", "spread": "3 s"}},
            "trace.spread has no effect",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_explained(changes: dict[str, Any], expected: str) -> None:
    assert expected in message(**changes)


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ({"kind": "closed_loop"}, "arrivals.closed_loop.concurrency: "),
        ({"kind": "closed_loop", "concurrency": 0}, "arrivals.closed_loop.concurrency: "),
        ({"kind": "time_varying", "rates": []}, "arrivals.time_varying.rates: "),
        ({"kind": "time_varying", "rates": [{"duration": "0 s", "rate": "1 req/s"}]}, "rates.0.duration: "),
        ({"kind": "time_varying", "rates": [{"duration": "1 s", "rate": "0 req/s"}]}, "all rates are zero"),
        (
            {
                "kind": "time_varying",
                "rates": [{"duration": "1 s", "rate": "1 req/s"}, {"duration": "1 s", "rate": "0 req/s"}],
                "repeat": False,
            },
            "without repeat the last rate continues, so it must be above zero",
        ),
    ],
)
def test_arrivals_that_make_no_sense_are_explained(arrivals: dict[str, Any], expected: str) -> None:
    assert expected in message(arrivals=arrivals)


OF_TRACE = {"prompt_tokens": {"kind": "trace"}, "output_tokens": {"kind": "trace"}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"duration": "1 h", "arrivals": {"kind": "all_at_once"}},
            "duration does not limit arrivals of kind all_at_once",
        ),
        (
            {"duration": "1 h", "arrivals": {"kind": "closed_loop", "concurrency": 4}},
            "of kind closed_loop; give num_requests",
        ),
        (TRACED | {"trace": {"path": "x", "think_time": "1 s"}}, "think_time has no effect unless multi_turn"),
        (TRACED | {"trace": {"path": "x", "multi_turn": True}}, "multi_turn needs prompt_tokens and output_tokens"),
        (OF_TRACE | {"trace": {"path": "x"}, "sessions": {"turns": 2}}, "sessions add to prompts that are drawn"),
        (OF_TRACE | {"trace": {"path": "x"}, "prefixes": {"tokens": 2}}, "prefixes add to prompts that are drawn"),
        ({"sessions": {"turns": {"kind": "trace"}}}, "turns cannot come from a trace"),
        ({"sessions": {"turns": 2, "think_time": 5}}, "sessions.think_time.fixed.time: "),
        ({"sessions": {"turns": 2, "think_time": []}}, "a time, or a mapping with a kind"),
        ({"prefixes": {"tokens": {"kind": "trace"}}}, "tokens cannot come from a trace"),
        ({"prefixes": {"tokens": 5, "groups": 2, "weights": [1]}}, "one weight for each group is needed, 2, not 1"),
        ({"priorities": {}}, "priorities: "),
        ({"tenants": {"a": 0}}, "tenants.a: "),
        ({"tenants": {"a": 1, "b": 1e308}}, "tenants.b: "),
        ({"priorities": {"1": 1e308}}, "priorities.1: "),
        ({"priorities": {"high": 1}}, "priorities.high"),
        ({"hash_block_size": 0}, "hash_block_size: "),
        (
            {"sessions": {"turns": 2}, "arrivals": {"kind": "closed_loop", "concurrency": 4}},
            "conversations are a closed loop already",
        ),
    ],
)
def test_workloads_that_make_no_sense_are_explained(changes: dict[str, Any], expected: str) -> None:
    assert expected in message(**changes)


def test_it_is_frozen() -> None:
    workload = WorkloadConfig.model_validate(VALID)
    with pytest.raises(ValidationError, match="frozen"):
        workload.num_requests = 5


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, "num_requests is missing; only a trace knows its own number of requests, and a duration limits it"),
        (TRACED | {"trace": {"path": "x", "repeat": True}}, "a trace that repeats never ends: give num_requests or"),
        ({"duration": "1 h"}, ""),
        (TRACED, ""),
    ],
)
def test_a_workload_says_if_nobody_knows_its_number_of_requests(changes: dict[str, Any], missing: str) -> None:
    workload = WorkloadConfig.model_validate({**VALID, **changes, "num_requests": None})
    assert workload.missing.startswith(missing)
    assert bool(workload.missing) == bool(missing)
