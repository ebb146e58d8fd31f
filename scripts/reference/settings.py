"""The page of all settings of an experiment file, from the schema that editors use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scripts.reference.markdown import MADE, prose, table
from simsys.config.json_schema import PARTIAL, experiment_schema
from simsys.report.prose import wrapped

INTRODUCTION = f"""\
# Settings

{MADE}

All keys of an experiment file, section by section, from `experiments/experiment.schema.json`. `simsys run FILE --set
hardware.num_nodes=4` changes any of them. A quantity is a text with its unit (`"400 Gb/s"`, `"5 ms"`); a value of a
list or mapping is written as in YAML. A key without default is required, unless the section says otherwise.
"""
_ROOT = "SimulationConfig"
_REFERENCE = "#/$defs/"
Schema = dict[str, Any]


def page_text() -> str:
    """Return the page as Markdown."""
    definitions: dict[str, Schema] = experiment_schema()["$defs"]
    whole = {name: value for name, value in definitions.items() if not name.startswith(PARTIAL)}
    lines = [INTRODUCTION]
    for name, paths in _places(whole).items():
        lines += _section(name, paths, whole[name])
    return wrapped("\n".join(lines)).rstrip("\n") + "\n"


def _places(definitions: dict[str, Schema]) -> dict[str, list[str]]:
    """Each definition with the paths at which a file may have it, in the order of the file."""
    places: dict[str, list[str]] = {_ROOT: [""]}
    _walk(_ROOT, "", definitions, places)
    return places


def _walk(name: str, path: str, definitions: dict[str, Schema], places: dict[str, list[str]]) -> None:
    for key, value in definitions[name].get("properties", {}).items():
        below = f"{path}.{key}" if path else key
        for found, is_item in _references(value):
            at = f"{below}[]" if is_item else below
            known = found in places
            places.setdefault(found, []).append(at)
            if not known:
                _walk(found, at, definitions, places)


def _references(schema: Any, is_item: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item, is_item)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE), is_item
        for key, value in schema.items():
            if key in {"anyOf", "oneOf", "allOf", "items", "additionalProperties"}:
                yield from _references(value, is_item or key in {"items", "additionalProperties"})


def _section(name: str, paths: list[str], schema: Schema) -> Iterator[str]:
    shown = [path for path in paths if path]
    kind = schema.get("properties", {}).get("kind", {}).get("const")
    yield f"## {_title(name, shown, kind)}"
    yield ""
    yield from [prose(schema.get("description", "")), ""]
    if len(shown) > 1:
        yield from ["At " + ", ".join(f"`{path}`" for path in shown) + ".", ""]
    required = schema.get("required", [])
    yield from table(
        ("key", "type", "default", "meaning"),
        (
            (f"`{key}`", _type(value), _default(key, value, required), _meaning(key, value))
            for key, value in schema.get("properties", {}).items()
        ),
    )


def _title(name: str, paths: list[str], kind: str | None) -> str:
    if not paths:
        return "The file"
    shared = f"`{paths[0]}`"
    return f"{shared} of kind `{kind}`" if kind else shared


def _meaning(key: str, value: Schema) -> str:
    return prose(value.get("description", "") or ("Selects this kind" if key == "kind" else ""))


def _default(key: str, value: Schema, required: list[str]) -> str:
    if key in required:
        return "required"
    default = value.get("default")
    if isinstance(default, dict):
        return "see there"
    return "" if default in (None, "") else f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _type(schema: Schema) -> str:
    kinds = [kind for kind in dict.fromkeys(_kinds(schema)) if kind != "null"]
    return ", or ".join(kinds)


def _kinds(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield "section"
    elif "const" in schema:
        yield f"`{schema['const']}`"
    elif "enum" in schema:
        yield ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    elif options := schema.get("anyOf") or schema.get("oneOf"):
        for option in options:
            yield from _kinds(option)
    elif schema.get("type") == "array":
        items = " or ".join(dict.fromkeys(_kinds(schema.get("items", {}))))
        yield f"list of {items or 'values'}"
    elif examples := schema.get("examples"):
        yield "quantity such as " + ", ".join(f"`{each}`" for each in examples[:1])
    else:
        yield _plain(schema)


def _plain(schema: Schema) -> str:
    kind = schema.get("type", "value")
    if isinstance(kind, list):
        return " or ".join(kind)
    names = {"object": "mapping", "string": "text", "boolean": "true or false"}
    bounds = [
        f"{sign} {schema[key]:g}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
        if key in schema and abs(schema[key]) < 1e9
    ]
    return " ".join([names.get(kind, kind), *([", ".join(bounds)] if bounds else [])])
