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


@pytest.mark.parametrize(
    "arrivals",
    [
        {"kind": "gamma", "rate": "8 req/s", "burstiness": 0.5},
        {"kind": "gamma", "rate": "8 req/s", "burstiness": 2},
        {"kind": "constant", "rate": "0.5 req/s"},
        {"kind": "all_at_once"},
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
        {"kind": "trace"},
    ],
)
def test_lengths(length: dict[str, Any]) -> None:
    parsed = TypeAdapter(Length).validate_python(length)
    assert parsed.model_dump(exclude_unset=True) == length


@pytest.mark.parametrize("base", [VALID, TRACED])
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
        ({"num_requests": None}, "num_requests is missing"),
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
    ],
)
def test_parts_that_do_not_fit_together_are_explained(changes: dict[str, Any], expected: str) -> None:
    assert expected in message(**changes)


def test_it_is_frozen() -> None:
    workload = WorkloadConfig.model_validate(VALID)
    with pytest.raises(ValidationError, match="frozen"):
        workload.num_requests = 5
