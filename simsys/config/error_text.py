"""Turns an error of pydantic into a sentence for people: the given value and the allowed values, in YAML's terms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from simsys.errors import did_you_mean

Error = Mapping[str, Any]
"""One error in the list that `pydantic.ValidationError.errors` returns."""


def joined(errors: list[Error]) -> Error:
    """Merge several literal errors into one that lists the allowed values of all."""
    expected = " or ".join(error["ctx"]["expected"] for error in errors)
    return {**errors[0], "ctx": {"expected": expected}}


def any_of(errors: list[Error]) -> str:
    """List the types that a value may have, if no branch of a union accepts its type."""
    fixed = ("literal_error", "enum")
    literals = [error for error in errors if error["type"] in fixed]
    others = list(dict.fromkeys(sentence(error) for error in errors if error["type"] not in fixed))
    if not literals:
        return "; or: ".join(others)
    literal = joined(literals)
    values = quoted(literal["ctx"]["expected"])
    near = isinstance(literal["input"], str) and did_you_mean(literal["input"], values).startswith(", did")
    return sentence(literal) if near or not others else f"{'; or: '.join(others)}; or write {' or '.join(values)}"


def quoted(expected: str) -> list[str]:
    """Return the values that pydantic lists as ``'a', 'b' or 'c'``."""
    return re.findall(r"'([^']*)'", expected) or re.split(r", | or ", expected)


def not_one_of(value: object, allowed: Iterable[str]) -> str:
    """The message for a value that is not allowed, with the allowed values and the nearest one."""
    values = list(dict.fromkeys(allowed))
    near = did_you_mean(value, values)
    suggestion = near if near.startswith(", did") else ""
    return f"{shown(value)} is not one of {', '.join(values)}{suggestion}"


def shown(value: object) -> str:
    """A short text for a value, in YAML's terms."""
    if value is None or isinstance(value, bool):
        return {None: "an empty value", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple | set):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_NEEDED = {
    "model": "a mapping ('key: value' lines)",
    "dict": "a mapping ('key: value' lines)",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
}
_COMPARED = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def sentence(error: Error) -> str:
    """Write an error of pydantic as a sentence with the given value and the required one."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    needed = _NEEDED.get(re.sub(r"_(type|attributes_type|parsing|from_float|parsing_size)$", "", kind))
    if needed:
        return f"{needed} is needed, not {shown(value)}"
    if kind in _COMPARED:
        limit, words = _COMPARED[kind]
        bound = f"{context[limit]:g}" if isinstance(context[limit], float) else context[limit]
        return f"must be {words} {bound}, not {shown(value)}"
    if kind in ("literal_error", "enum"):
        return not_one_of(value, quoted(context["expected"]))
    if kind in ("too_short", "too_long"):
        least = kind == "too_short"
        limit = context["min_length" if least else "max_length"]
        entries = "entry" if limit == 1 else "entries"
        return f"needs at {'least' if least else 'most'} {limit} {entries}, not {context['actual_length']}"
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text.replace("Input should be ", "must be ", 1)
