"""Quantities with units: ``"900 GB/s"`` in a file, ``900e9`` (SI) in the program.

Prefixes are case-sensitive (``m`` is milli, ``M`` mega; ``k`` and ``K`` are both 1000, ``Ki`` is 1024), bits and bytes
differ by case (``Gb/s``, ``GB/s``), and a number without a unit is refused. Arithmetic is decimal, so that ``"25 us"``
is exactly ``25e-6``. The config's field types (`Bytes`, `Seconds`, …) are at the end of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from simsys.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

KIB, MIB, GIB = 2**10, 2**20, 2**30

LARGEST = 1e60
"""The largest quantity in base units, and one over the smallest; products of such quantities are finite."""

LONGEST_S = 1e10
"""Nothing begins later in a simulation: at 300 years, times are exact to microseconds."""

_SMALL = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "µ": Decimal("1e-6"), "μ": Decimal("1e-6"), "m": Decimal("1e-3")}
_LARGE = {prefix: Decimal(10) ** power for prefix, power in zip("kKMGTPE", (3, 3, 6, 9, 12, 15, 18), strict=True)}
_BINARY = {"Ki": Decimal(KIB), "Mi": Decimal(MIB), "Gi": Decimal(GIB), "Ti": Decimal(2**40)}
_HIDDEN = re.compile("K(?!i)|[µμ]")  # other spellings of k and u: read, but not suggested

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(\S.*?)?\s*", re.ASCII | re.DOTALL)
_EXACT = Context(prec=60, traps=[])


class Dimension(StrEnum):
    """Dimension of a quantity; the value is the base unit of stored floats."""

    BYTES = "B"
    BYTES_PER_SECOND = "B/s"
    SECONDS = "s"
    FLOP = "FLOP"
    FLOP_PER_SECOND = "FLOP/s"
    WATTS = "W"
    USD_PER_HOUR = "$/h"
    GRAMS_PER_KWH = "g/kWh"
    TOKENS_PER_SECOND = "tok/s"
    REQUESTS_PER_SECOND = "req/s"
    FRACTION = ""


def _spell(units: str, prefixes: Mapping[str, Decimal] | None = None, factor: str = "1") -> dict[str, Decimal]:
    """Every prefixed spelling of units that mean the same, with its size in the base unit."""
    scales = {"": Decimal(1), **(prefixes or {})}
    return {prefix + unit: scale * Decimal(factor) for unit in units.split() for prefix, scale in scales.items()}


@dataclass(frozen=True, slots=True)
class _Units:
    """One dimension's name in messages, examples, units for people (smallest first), and closed table of spellings."""

    noun: str
    examples: tuple[str, str]
    shown: Sequence[str]
    spellings: Mapping[str, Decimal]


_TABLE: dict[Dimension, _Units] = {
    Dimension.BYTES: _Units(
        "a size",
        ("80 GB", "64 MiB"),
        ["B", "kB", "MB", "GB", "TB", "PB", "EB"],
        _spell("B", _LARGE | _BINARY) | _spell("b bit", _LARGE, "0.125"),
    ),
    Dimension.BYTES_PER_SECOND: _Units(
        "a bandwidth",
        ("900 GB/s", "400 Gb/s"),
        ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"],
        _spell("B/s", _LARGE | _BINARY) | _spell("Bps", _LARGE) | _spell("b/s bit/s bps", _LARGE, "0.125"),
    ),
    Dimension.SECONDS: _Units(
        "a time",
        ("5 ms", "2.5 us"),
        ["ns", "us", "ms", "s", "min", "h", "d"],
        _spell("s", _SMALL) | _spell("min", factor="60") | _spell("h", factor="3600") | _spell("d", factor="86400"),
    ),
    Dimension.FLOP: _Units(
        "an amount of compute",
        ("2 TFLOP", "1e12 FLOP"),
        ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"],
        _spell("FLOP", _LARGE),
    ),
    Dimension.FLOP_PER_SECOND: _Units(
        "a compute rate",
        ("989 TFLOP/s", "1979 TOPS"),
        ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"],
        _spell("FLOP/s FLOPS OP/s OPS", _LARGE),
    ),
    Dimension.WATTS: _Units("a power", ("700 W", "10.2 kW"), ["W", "kW", "MW"], _spell("W", _LARGE)),
    Dimension.USD_PER_HOUR: _Units("a price", ("2.5 $/h", "2.5 USD/h"), ["$/h"], _spell("$/h USD/h")),
    Dimension.GRAMS_PER_KWH: _Units(
        "a carbon intensity", ("481 g/kWh", "0.03 kg/kWh"), ["g/kWh"], _spell("g/kWh gCO2/kWh", {"k": Decimal(1000)})
    ),
    Dimension.TOKENS_PER_SECOND: _Units(
        "a token rate", ("2500 tok/s", "2500 tokens/s"), ["tok/s"], _spell("tok/s tokens/s", _LARGE)
    ),
    Dimension.REQUESTS_PER_SECOND: _Units(
        "a request rate", ("8 req/s", "8 requests/s"), ["req/s"], _spell("req/s requests/s")
    ),
    Dimension.FRACTION: _Units("a fraction", ("90 %", "0.9"), ["%"], {"%": Decimal("0.01"), "": Decimal(1)}),
}
_DIMENSION_OF = {spelling: dimension for dimension, units in _TABLE.items() for spelling in units.spellings}


def parse(text: object, dimension: Dimension) -> float:
    """Read a quantity such as ``"900 GB/s"``.

    Args:
        text: A string with a number and a unit; for a fraction also a bare number.
        dimension: What the quantity must measure.

    Returns:
        The value in the dimension's base unit: 0, or between 1e-60 and 1e60; correctly rounded.

    Raises:
        UsageError: There is no unit, an unknown unit, a unit of another dimension, or the number is not finite,
            negative, too large or too small to be meant, or (for a fraction) above 1.

    Example:
        >>> parse("400 Gb/s", Dimension.BYTES_PER_SECOND)
        50000000000.0
    """
    units = _TABLE[dimension]
    example = f"e.g. {units.examples[0]!r}"
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise UsageError(f"{units.noun} is written as a number and a unit, {example}; this is {_kind(text)}")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise UsageError(f"{text!r} is not {units.noun}; write a finite number and a unit, {example}")
    number, unit = match[1], match[2] or ""
    if unit not in units.spellings:
        raise UsageError(_unit_problem(str(text).strip(), number, unit, dimension))
    value = float(_EXACT.multiply(_EXACT.create_decimal(number), units.spellings[unit]))
    if value > LARGEST:
        raise UsageError(f"{text!r} is too large for {units.noun}")
    if 0 < value < 1 / LARGEST:
        raise UsageError(f"{text!r} is too small for {units.noun}; write 0 if none is meant")
    if value < 0 or (value == 0 and number.startswith("-")):
        raise UsageError(f"{text!r} is negative; {units.noun} cannot be, {example}")
    if dimension is Dimension.FRACTION and value > 1:
        hint = f"; did you mean '{number} %'?" if not unit and value <= 100 else ""
        raise UsageError(f"{text!r} is above 1 (100 %){hint}")
    return value


def _kind(value: object) -> str:
    """Name a value's type in the words of YAML."""
    names = {bool: "true or false", type(None): "empty", dict: "a mapping", list: "a list"}
    return names.get(type(value), f"a Python {type(value).__name__}")


def _unit_problem(text: str, number: str, unit: str, dimension: Dimension) -> str:
    """Say why a unit does not fit: missing, of another dimension, or unknown."""
    units = _TABLE[dimension]
    if not unit:
        accepted = ", ".join(units.shown)
        example = units.examples[0].partition(" ")[2]
        return f"{text} has no unit; write e.g. '{number} {example}' (units: {accepted})"
    if unit in _DIMENSION_OF:
        other = _TABLE[_DIMENSION_OF[unit]].noun
        return f"{text!r} is {other}, {units.noun} is needed, e.g. {units.examples[0]!r}"
    known = [spelling for spelling in units.spellings if spelling and not _HIDDEN.match(spelling)]
    return f"unknown unit {unit!r} in {text!r}{did_you_mean(unit, known)}"


def _write(number: Decimal, unit: str, spellings: Mapping[str, Decimal]) -> str:
    """Write a number of base units in some unit: exactly, if a decimal can, and without an exponent if it is short."""
    scaled = _EXACT.divide(number, spellings[unit]).normalize(_EXACT)
    return f"{scaled:f} {unit}" if -7 < scaled.adjusted() < 15 else f"{scaled} {unit}".replace("E+", "e")


def format_quantity(value: float, dimension: Dimension) -> str:
    """Write a quantity so that `parse` returns the same float, bit for bit.

    Args:
        value: A finite value, not negative, in the dimension's base unit.
        dimension: What it measures.

    Returns:
        Text such as ``"900 GB/s"`` or ``"80 GiB"``: a decimal prefix, or a binary one where that is shorter.
    """
    units = _TABLE[dimension]
    number = Decimal(repr(float(value)))
    exact = [unit for unit in units.shown if unit not in ("min", "h", "d")]  # thirds have no finite decimal form
    texts = [_write(number, _fitting_unit(number, exact, units), units.spellings)]
    for unit in (prefix + dimension for prefix in _BINARY):
        if unit in units.spellings and 0 < value < 2**63 and value % float(units.spellings[unit]) == 0:
            texts.append(_write(number, unit, units.spellings))
    return min(texts, key=len)


def pretty(value: float, dimension: Dimension, digits: int = 3) -> str:
    """Write a quantity for people, rounded.

    Args:
        value: The value in the dimension's base unit.
        dimension: What it measures.
        digits: Significant digits.

    Example:
        >>> pretty(0.01234, Dimension.SECONDS)
        '12.3 ms'
    """
    units = _TABLE[dimension]
    if not math.isfinite(value):
        return f"{value} {dimension}".rstrip()
    rounded = Decimal(f"{value:.{digits - 1}e}")
    unit = _fitting_unit(rounded, units.shown, units)
    scaled = Decimal(value) / units.spellings[unit]
    return _write(Decimal(f"{scaled:.{digits - 1}e}") * units.spellings[unit], unit, units.spellings)


def pretty_memory(nbytes: float) -> str:
    """Write an amount of device memory for people: in the binary units that it is sold in.

    Example:
        >>> pretty_memory(80 * GIB), pretty_memory(4e6)
        ('80.0 GiB', '3.81 MiB')
    """
    value, unit = (nbytes / GIB, "GiB") if nbytes >= GIB / 10 else (nbytes / MIB, "MiB")
    return f"{Decimal(f'{value:.2e}'):,f} {unit}"


def _fitting_unit(number: Decimal, shown: Sequence[str], units: _Units) -> str:
    """The largest unit that leaves at least 1 before the point, or the smallest of all; zero is in base units."""
    if not number and "s" in shown:
        return "s"
    return next((unit for unit in reversed(shown) if abs(number) >= units.spellings[unit]), shown[0])


@dataclass(frozen=True, slots=True)
class Quantity:
    """Marks a float field whose value is written with a unit; pydantic calls its two hooks.

    Args:
        dimension: What the field measures.
        zero: Whether 0 is allowed.
    """

    dimension: Dimension
    zero: bool = False

    def read(self, text: object) -> float:
        """Parse a field's value; raises what pydantic reports as that field's error."""
        from pydantic_core import PydanticCustomError

        try:
            value = parse(text, self.dimension)
            if value == 0 and not self.zero:
                raise UsageError(f"{text!r} is zero; {_TABLE[self.dimension].noun} above zero is needed")
        except UsageError as error:
            raise PydanticCustomError("quantity", "{message}", {"message": str(error)}) from None
        return value

    def write(self, value: float) -> str:
        """Write a field's value for JSON or YAML."""
        return format_quantity(value, self.dimension)

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        """Define for pydantic how to read the field; it is written as text in JSON only."""
        from pydantic_core import core_schema

        text = core_schema.plain_serializer_function_ser_schema(self.write, when_used="json")
        return core_schema.no_info_plain_validator_function(self.read, serialization=text)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        """Describe the field for editors that know JSON schema."""
        units = _TABLE[self.dimension]
        kinds: str | list[str] = ["string", "number"] if "" in units.spellings else "string"
        description = f"{units.noun} with its unit".capitalize()
        return {"type": kinds, "examples": list(units.examples), "description": description}


Bytes = Annotated[float, Quantity(Dimension.BYTES)]
NonNegativeBytes = Annotated[float, Quantity(Dimension.BYTES, zero=True)]
Seconds = Annotated[float, Quantity(Dimension.SECONDS)]
NonNegativeSeconds = Annotated[float, Quantity(Dimension.SECONDS, zero=True)]
BytesPerSecond = Annotated[float, Quantity(Dimension.BYTES_PER_SECOND)]
FlopPerSecond = Annotated[float, Quantity(Dimension.FLOP_PER_SECOND)]
Flop = Annotated[float, Quantity(Dimension.FLOP)]
Watts = Annotated[float, Quantity(Dimension.WATTS)]
UsdPerHour = Annotated[float, Quantity(Dimension.USD_PER_HOUR, zero=True)]
GramsPerKwh = Annotated[float, Quantity(Dimension.GRAMS_PER_KWH, zero=True)]
TokensPerSecond = Annotated[float, Quantity(Dimension.TOKENS_PER_SECOND)]
RequestsPerSecond = Annotated[float, Quantity(Dimension.REQUESTS_PER_SECOND)]
Fraction = Annotated[float, Quantity(Dimension.FRACTION)]
