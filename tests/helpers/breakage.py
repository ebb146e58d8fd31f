"""Input that was broken on purpose: whatever it is, a command ends soon, with an answer or with an error of the input.

Broken values, broken bytes, broken JSON, and what a command may do with them. Settings that fit the schema are broken
too: they get past the first checks, and deeper into the simulation.
"""

from __future__ import annotations

import csv
import json
import math
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from hypothesis import strategies as st

from simsys.cli import cli

LIMIT_S = 20
"""Of processor time, for one command."""
_PLACED = re.compile(r"^[^\s:][^:]*:\d+(:\d+)?: ", re.MULTILINE)
_NOT_FINITE = re.compile(r"(?<![\w./-])(nan|-?inf) ?(%|[mun]?s\b|[kMGT]?i?B|req/s|tok|samples|GPU)")
_TEXTS = ("id", "group", "reason")
"""Columns whose texts are those of the input."""

_EXTREMES = [10**9, 10**30, 10**310, 0.5, -0.5, 1e-9, 1e-300, 5e-324, 1e308, -0.0, math.inf, -math.inf, math.nan]
NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 20), st.integers(0, 70).map(lambda power: 2**power), st.sampled_from(_EXTREMES), st.floats()
)
_UNITS = ["s", "ms", "us", "d", "GB", "GiB", "B", "GB/s", "Gb/s", "B/s", "TFLOP/s", "W", "$/h", "req/s", "tok/s", "%"]
QUANTITIES = st.builds(lambda number, unit: f"{number} {unit}", NUMBERS, st.sampled_from([*_UNITS, ""]))
_WORDS = "null 1e9 .nan 0x10 1_000 H100 A100-SXM-80GB GPT2-Small vllm torus_3d FSDP /dev/zero ../.. / a:b os:path os:"
_ODD = [
    "",
    " ",
    "=1+1",
    "%s{0}",
    "x" * 5000,
    "é\u202e",
    "\x1b[31m",
    "\n",
    "\t",
    "\ufeff",
    "2024-01-01",
    "'",
    '"',
    "#",
    "*a",
]
TEXTS = st.sampled_from([*_WORDS.split(" "), *_ODD, "simsys:SimulationConfig", "!!python/name:os.system"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | QUANTITIES | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=2),
    max_leaves=4,
)


class HangError(BaseException):
    """A command took too long; nothing in simsys catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise HangError after `LIMIT_S` of this process's processor time."""

    def alarm(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, alarm)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answer(*arguments: str) -> Result:
    """Run a command whose input may be broken.

    Raises:
        AssertionError: It ended with anything but an answer or an error of its input, or says NaN or infinity.
        HangError: It did not end in time.
    """
    with limited():
        result = CliRunner().invoke(cli, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 2, 3), result.output
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\x9b]", result.output), repr(result.output)
    if result.exit_code == 0:
        assert not _NOT_FINITE.search(result.stdout), result.stdout
    return result


def says_where(result: Result) -> bool:
    """Whether an error names a line of a file, if there is an error."""
    return result.exit_code in (0, 3) or bool(_PLACED.search(result.stderr))


def results_are_finite(folder: Path) -> None:
    """Check the JSON files and tables that a command wrote."""
    for file in folder.rglob("*.json"):
        json.loads(file.read_text(encoding="utf-8"), parse_constant=_not_finite)
    for file in folder.rglob("*.csv"):
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                odd = [name for name, cell in row.items() if name not in _TEXTS and cell in ("nan", "inf", "-inf")]
                assert not odd, (file.name, row)


def _not_finite(text: str) -> Any:
    raise AssertionError(f"a result holds {text}")


def places(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything below the root of nested mappings and lists."""
    found = [at] if at else []
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return found + [path for key, value in inner for path in places(value, (*at, key))]


def around(data: Any, path: tuple[Any, ...]) -> Any:
    """The mapping or list that holds a place."""
    for part in path[:-1]:
        data = data[part]
    return data


def change(draw: st.DrawFn, data: Any) -> None:
    """Change one value: replace, remove, multiply, wrap or move it."""
    path = draw(st.sampled_from(places(data)))
    holder, key = around(data, path), path[-1]
    kind = draw(st.sampled_from(["set", "set", "remove", "scale", "scale", "wrap", "move"]))
    if kind == "set":
        holder[key] = draw(VALUES)
    elif kind == "remove":
        del holder[key]
    elif kind == "scale":
        holder[key] = _scaled(holder[key], draw(st.sampled_from([0, -1, 0.5, 2, 3, 1e-9, 1e3, 1e9, 1e30, 1e-30])))
    elif kind == "wrap":
        holder[key] = draw(st.sampled_from([[holder[key]], {"x": holder[key]}, str(holder[key])]))
    else:
        other = draw(st.sampled_from(places(data)))
        holder[key] = json.loads(json.dumps(around(data, other)[other[-1]]))


def _scaled(value: Any, factor: float) -> Any:
    """A number, or one with a unit, times a factor; whole numbers stay whole where they can."""
    if isinstance(value, str) and (found := re.fullmatch(r"([\d.]+) (.*)", value)):
        return f"{float(found[1]) * factor} {found[2]}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        scaled = float(value * factor)
    except OverflowError:  # a whole number beyond all floats
        return value
    return int(scaled) if isinstance(value, int) and scaled.is_integer() else scaled


@st.composite
def broken_json(draw: st.DrawFn, texts: list[str]) -> bytes:
    """One of some JSON documents, or of some lines of JSON, with values changed."""
    documents = [json.loads(line) for line in draw(st.sampled_from(texts)).splitlines() if line]
    for _ in range(draw(st.integers(1, 3))):
        if documents:
            change(draw, documents)
    return "\n".join(map(json.dumps, documents)).encode("utf-8", "surrogatepass")


_PRINTABLE = (
    "0 -1 1.5 -0 1e308 1e400 1e-320 1e18 999999999 1_000 0x10 nan NaN inf Infinity null true [] {} , =1+1 ../ *a &a é "
    "9999-12-31T23:59:59.999999999 2026-13-45"
)
_TOKENS = [
    b"",
    b'"',
    b"\n",
    b"\r",
    b"\t",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\x1b[31m",
]
_TOKENS += [
    b"\xe2\x80\xae",
    b"\xe2\x80\xa8",
    b"\x85",
    b"9" * 30,
    b"9" * 5000,
    b"[" * 2000,
    b'{"a":' * 2000,
    b"a" * 200_000,
]
_TOKENS += _PRINTABLE.encode().split()


@st.composite
def broken_bytes(draw: st.DrawFn, texts: list[str]) -> bytes:
    """One of some files with tokens put in, cells and words replaced, lines repeated, and ends cut off."""
    data = draw(st.sampled_from(texts)).encode()
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["insert", "replace", "replace", "number", "number", "line", "cut", "flip"]))
        token, where = draw(st.sampled_from(_TOKENS)), draw(st.integers(0, len(data)))
        words = list(re.finditer(rb"-?\d[\d.eE+-]*" if kind == "number" else rb"[^,\s]+", data))
        if kind in ("replace", "number") and words:
            word = draw(st.sampled_from(words))
            data = data[: word.start()] + token + data[word.end() :]
        elif kind == "line":
            lines = data.split(b"\n")
            at = draw(st.integers(0, len(lines) - 1))
            lines[at : at + 1] = draw(st.sampled_from([[], [lines[at]] * 2, [lines[at][::-1]], [lines[0], lines[at]]]))
            data = b"\n".join(lines)
        elif kind == "cut":
            data = data[:where]
        elif kind == "flip":
            data = data[:where] + draw(st.binary(min_size=1, max_size=1)) + data[where + 1 :]
        else:
            data = data[:where] + token + data[where:]
    return data
