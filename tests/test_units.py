from __future__ import annotations

import math
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from simsys import units
from simsys.errors import UsageError
from simsys.units import GIB, KIB, LARGEST, MIB, Dimension, format_quantity, parse, pretty

DIMENSIONS = pytest.mark.parametrize("dimension", list(Dimension), ids=lambda dimension: dimension.name)
BANDWIDTH, TIME, SIZE = Dimension.BYTES_PER_SECOND, Dimension.SECONDS, Dimension.BYTES


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("900 GB/s", BANDWIDTH, 900e9),
        ("400 Gb/s", BANDWIDTH, 50e9),
        ("400Gbit/s", BANDWIDTH, 50e9),
        ("400 Gbps", BANDWIDTH, 50e9),
        ("50 GBps", BANDWIDTH, 50e9),
        ("2 GiB/s", BANDWIDTH, 2 * GIB),
        ("80 GB", SIZE, 80e9),
        ("80 GiB", SIZE, 80 * GIB),
        ("1 kB", SIZE, 1000),
        ("1 KB", SIZE, 1000),
        ("1 KiB", SIZE, KIB),
        ("64MiB", SIZE, 64 * MIB),
        ("1 TiB", SIZE, 1024 * GIB),
        ("8 Mbit", SIZE, 1e6),
        ("1.5e-3 s", TIME, 1.5e-3),
        (".5 s", TIME, 0.5),
        ("5. ms", TIME, 5e-3),
        ("25 us", TIME, 25e-6),
        ("25 µs", TIME, 25e-6),
        ("25 μs", TIME, 25e-6),
        ("300 ns", TIME, 300e-9),
        ("2 min", TIME, 120),
        ("1.5 h", TIME, 5400),
        ("1 d", TIME, 86400),
        ("0 s", TIME, 0),
        (" 7 ms ", TIME, 7e-3),
        ("2 GFLOP", Dimension.FLOP, 2e9),
        ("989 TFLOPS", Dimension.FLOP_PER_SECOND, 989e12),
        ("989 TFLOP/s", Dimension.FLOP_PER_SECOND, 989e12),
        ("1979 TOPS", Dimension.FLOP_PER_SECOND, 1979e12),
        ("5 GOP/s", Dimension.FLOP_PER_SECOND, 5e9),
        ("700 W", Dimension.WATTS, 700),
        ("10.2 kW", Dimension.WATTS, 10200),
        ("2.5 $/h", Dimension.USD_PER_HOUR, 2.5),
        ("2.5 USD/h", Dimension.USD_PER_HOUR, 2.5),
        ("2500 tok/s", Dimension.TOKENS_PER_SECOND, 2500),
        ("2500 tokens/s", Dimension.TOKENS_PER_SECOND, 2500),
        ("8 req/s", Dimension.REQUESTS_PER_SECOND, 8),
        ("8 requests/s", Dimension.REQUESTS_PER_SECOND, 8),
        ("90 %", Dimension.FRACTION, 0.9),
        ("90%", Dimension.FRACTION, 0.9),
        (0.9, Dimension.FRACTION, 0.9),
        ("0.9", Dimension.FRACTION, 0.9),
        (1, Dimension.FRACTION, 1.0),
    ],
)
def test_parse_reads_every_accepted_spelling(text: object, dimension: Dimension, value: float) -> None:
    assert parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        (
            300,
            BANDWIDTH,
            "300 has no unit; write e.g. '300 GB/s' (units: B/s, kB/s, MB/s, GB/s, TB/s, PB/s, EB/s)",
        ),
        ("0", TIME, "0 has no unit; write e.g. '0 ms' (units: ns, us, ms, s, min, h, d)"),
        ("5 ms", BANDWIDTH, "'5 ms' is a time, a bandwidth is needed, e.g. '900 GB/s'"),
        ("80 GB", BANDWIDTH, "'80 GB' is a size, a bandwidth is needed, e.g. '900 GB/s'"),
        ("2 TFLOP", Dimension.FLOP_PER_SECOND, "'2 TFLOP' is an amount of compute, a compute rate is needed"),
        ("16 mB", SIZE, "unknown unit 'mB' in '16 mB', did you mean 'MB'?"),
        ("16 gib", SIZE, "unknown unit 'gib' in '16 gib', did you mean 'GiB'?"),
        ("3 parsecs", TIME, "unknown unit 'parsecs' in '3 parsecs'; known: d, h, min, ms, ns, s, us"),
        ("-1 s", TIME, "'-1 s' is negative; a time cannot be"),
        ("-0 s", TIME, "'-0 s' is negative; a time cannot be"),
        ("nan s", TIME, "'nan s' is not a time; write a finite number and a unit, e.g. '5 ms'"),
        ("inf GB/s", BANDWIDTH, "'inf GB/s' is not a bandwidth; write a finite number"),
        (math.inf, BANDWIDTH, "inf is not a bandwidth; write a finite number"),
        (math.nan, Dimension.FRACTION, "nan is not a fraction; write a finite number"),
        ("1e999 s", TIME, "'1e999 s' is too large for a time"),
        ("1,000 GB", SIZE, "unknown unit ',000 GB' in '1,000 GB'"),
        ("", TIME, "'' is not a time"),
        ("fast", TIME, "'fast' is not a time"),
        ("٣ s", TIME, "'٣ s' is not a time"),
        (90, Dimension.FRACTION, "90 is above 1 (100 %); did you mean '90 %'?"),
        ("101 %", Dimension.FRACTION, "'101 %' is above 1 (100 %)"),
        (True, TIME, "a time is written as a number and a unit, e.g. '5 ms'; this is true or false"),
        (None, TIME, "; this is empty"),
        ([1], SIZE, "; this is a list"),
        ({}, SIZE, "; this is a mapping"),
    ],
)
def test_parse_refuses_and_says_what_would_do(text: object, dimension: Dimension, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, dimension)
    assert message in str(caught.value)


def test_no_spelling_means_two_things() -> None:
    tables = [set(table.spellings) for table in units._TABLE.values()]
    assert len(set().union(*tables)) == sum(map(len, tables))


@DIMENSIONS
@given(value=st.floats(1 / LARGEST, LARGEST) | st.integers(1, 2**62).map(float))
def test_format_then_parse_is_the_same_float(dimension: Dimension, value: float) -> None:
    value = min(value, 1.0) if dimension is Dimension.FRACTION else value
    assert parse(format_quantity(value, dimension), dimension) == value


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (900e9, BANDWIDTH, "900 GB/s"),
        (80 * GIB, SIZE, "80 GiB"),
        (80e9, SIZE, "80 GB"),
        (1000.0, SIZE, "1 kB"),
        (25e-6, TIME, "25 us"),
        (3600.0, TIME, "3600 s"),
        (0.0, TIME, "0 s"),
        (0.9, Dimension.FRACTION, "90 %"),
        (2.5, Dimension.USD_PER_HOUR, "2.5 $/h"),
    ],
)
def test_format_quantity_is_short_where_it_is_exact(value: float, dimension: Dimension, text: str) -> None:
    assert format_quantity(value, dimension) == text


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (19.54e9, SIZE, "19.5 GB"),
        (0.01234, TIME, "12.3 ms"),
        (0.9999999, TIME, "1 s"),  # rounds up to the next unit, not to "1000 ms"
        (5430.0, TIME, "1.51 h"),
        (0.0, TIME, "0 s"),
        (1234.0, Dimension.USD_PER_HOUR, "1230 $/h"),
        (-2.5e9, SIZE, "-2.5 GB"),
        (0.4567, Dimension.FRACTION, "45.7 %"),
        (math.nan, TIME, "nan s"),
    ],
)
def test_pretty_rounds_for_people(value: float, dimension: Dimension, text: str) -> None:
    assert pretty(value, dimension) == text


@DIMENSIONS
@given(value=st.floats(1e-9, 1e18), digits=st.integers(1, 6))
def test_pretty_is_within_the_digits_it_shows(dimension: Dimension, value: float, digits: int) -> None:
    number, _, unit = pretty(value, dimension, digits).partition(" ")
    shown = float(number) * float(units._TABLE[dimension].spellings[unit])
    assert shown == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


class Sample(BaseModel):
    size: units.Bytes = 25e6
    wait: units.NonNegativeSeconds | None = None
    share: units.Fraction = 0.9


def test_a_dumped_model_reloads_equal() -> None:
    sample = Sample.model_validate({"size": "80 GiB", "wait": "0 s", "share": "33.3 %"})
    dumped = sample.model_dump(mode="json")
    assert dumped == {"size": "80 GiB", "wait": "0 s", "share": "33.3 %"}
    assert Sample.model_validate(dumped) == sample
    assert Sample.model_validate_json(sample.model_dump_json()) == sample


def test_python_mode_keeps_floats() -> None:
    assert Sample.model_validate({"size": "1 kB"}).model_dump() == {"size": 1000.0, "wait": None, "share": 0.9}


def test_json_schema_is_for_editors() -> None:
    properties = Sample.model_json_schema(mode="serialization")["properties"]
    assert properties["size"] == {
        "default": "25 MB",
        "description": "A size with its unit",
        "examples": ["80 GB", "64 MiB"],
        "title": "Size",
        "type": "string",
    }
    assert properties["share"]["type"] == ["string", "number"]


@pytest.mark.parametrize(
    ("kind", "zero", "allowed"),
    [
        (units.Bytes, "0 B", False),
        (units.NonNegativeBytes, "0 B", True),
        (units.Seconds, "0 s", False),
        (units.NonNegativeSeconds, "0 s", True),
        (units.BytesPerSecond, "0 B/s", False),
        (units.FlopPerSecond, "0 FLOP/s", False),
        (units.Flop, "0 FLOP", False),
        (units.Watts, "0 W", False),
        (units.UsdPerHour, "0 $/h", True),
        (units.TokensPerSecond, "0 tok/s", False),
        (units.RequestsPerSecond, "0 req/s", False),
        (units.Fraction, "0 %", False),
        (units.Fraction, 0, False),
        (Annotated[float, units.Quantity(TIME)], "1e-400 s", False),
    ],
)
def test_zero_is_allowed_where_it_makes_sense(kind: Any, zero: object, allowed: bool) -> None:
    adapter = TypeAdapter(kind)
    if allowed:
        assert adapter.validate_python(zero) == 0
    else:
        with pytest.raises(ValidationError, match=r"is zero; .* above zero is needed"):
            adapter.validate_python(zero)


@pytest.mark.parametrize("bare", [300, 300.0, "300", 0])
def test_fields_refuse_bare_numbers(bare: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"size": bare})
    assert "has no unit; write e.g." in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize("text", ["1e-320 GB/s", "1e-300 B/s", "1e308 GB/s"])
def test_a_quantity_that_nobody_can_mean_is_refused(text: str) -> None:
    """A transfer at such a rate would last infinitely long, or no time at all."""
    with pytest.raises(UsageError, match=r"is too (small|large) for a bandwidth"):
        parse(text, Dimension.BYTES_PER_SECOND)
