"""The settings of an experiment file, from the schema that editors use.

A setting is at a path of keys, such as ``workload.arrivals.rate``. Entries of lists are written as their list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from simsys.config.json_schema import PARTIAL, Schema, experiment_schema
from simsys.errors import UnknownNameError

Facts: TypeAlias = dict[str, Any]
ROOT = "SimulationConfig"
_REFERENCE = "#/$defs/"
_NESTED = {"anyOf", "oneOf", "allOf", "items", "additionalProperties"}
_ITEMS = {"items", "additionalProperties"}


@cache
def definitions() -> Mapping[str, Schema]:
    """The definitions of all sections of a complete scenario, by name."""
    found: dict[str, Schema] = experiment_schema()["$defs"]
    return {name: value for name, value in found.items() if not name.startswith(PARTIAL)}


def places() -> dict[str, list[str]]:
    """Each definition with the paths at which a file may have it, in the order of the file; ``[]`` marks lists."""
    found: dict[str, list[str]] = {ROOT: [""]}
    _walk(ROOT, "", found)
    return found


def _walk(name: str, path: str, found: dict[str, list[str]]) -> None:
    for key, value in definitions()[name].get("properties", {}).items():
        below = f"{path}.{key}" if path else key
        for section, is_item in _references(value):
            at = f"{below}[]" if is_item else below
            known = section in found
            found.setdefault(section, []).append(at)
            if not known:
                _walk(section, at, found)


def _references(schema: Any, is_item: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item, is_item)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE), is_item
        for key, value in schema.items():
            if key in _NESTED:
                yield from _references(value, is_item or key in _ITEMS)


@cache
def setting_names() -> Sequence[str]:
    """The paths of all settings, each section at the first of its places."""
    found: dict[str, None] = {}
    for name, paths in places().items():
        above = paths[0].replace("[]", "")
        found |= {f"{above}.{key}" if above else key: None for key in definitions()[name].get("properties", {})}
    return list(found)


def setting_row(path: str) -> Facts:
    """Section and meaning of a setting, for a table."""
    _, schema, _ = _found(path)[0]
    return {"of": path.rpartition(".")[0] or "the file", "meaning": _meaning(schema)}


def setting_facts(path: str) -> Facts:
    """All facts about a setting.

    Args:
        path: Its path, or the last keys of it if no other one ends so.

    Raises:
        UnknownNameError: If there is none.
    """
    name = _whole(path)
    found = _found(name)
    facts = [_facts(definition, name.rpartition(".")[2], schema, required) for definition, schema, required in found]
    if all(each == facts[0] for each in facts):
        return {"name": name, **facts[0]}
    return {"name": name} | {f"with {_kind(each[0])}": fact for each, fact in zip(found, facts, strict=True)}


def _whole(path: str) -> str:
    """The whole path of a setting that is written without its first keys."""
    plain = ".".join(part for part in path.replace("[]", "").split(".") if not part.isdecimal())
    if _found(plain):
        return plain
    ending = [name for name in setting_names() if name.endswith(f".{plain}")]
    if len(ending) != 1:
        raise UnknownNameError("setting", path, ending or setting_names())
    return ending[0]


def _found(path: str) -> list[tuple[str, Schema, bool]]:
    """The definitions that have a setting, with its schema there, and whether it is required."""
    names, found = [ROOT], list[tuple[str, Schema, bool]]()
    for key in path.split("."):
        having = [(name, definitions()[name]) for name in dict.fromkeys(names)]
        found = [
            (name, each["properties"][key], key in each.get("required", ()))
            for name, each in having
            if key in each.get("properties", ())
        ]
        names = [below for _, schema, _ in found for below, _ in _references(schema)]
    return found


def _facts(definition: str, key: str, schema: Schema, required: bool) -> Facts:
    default = default_of(schema)
    allowed = list(_allowed(schema))
    unit = next((each["examples"] for each in _options(schema) if each.get("examples")), None)
    sections = [name for name, _ in _references(schema)]
    keys = {name: ", ".join(definitions()[name].get("properties", {})) for name in sections}
    shown = keys[sections[0]] if len(sections) == 1 else {_kind(name): listed for name, listed in keys.items()}
    return {
        "meaning": _meaning(schema),
        "type": type_of(schema),
        **({"unit": "write it with the number, such as " + " or ".join(map(str, unit[:2]))} if unit else {}),
        **({"allowed": allowed} if allowed else {}),
        "default": "required" if required else default or "none",
        **({"keys": shown} if shown else {}),
    }


def _kind(definition: str) -> str:
    """The kind of a section, or its name if there are no kinds at its place."""
    kind = definitions()[definition].get("properties", {}).get("kind", {}).get("const")
    return f"kind {kind}" if kind else definition


def _meaning(schema: Schema) -> str:
    return " ".join(str(schema.get("description", "")).replace("`", "").split())


def _options(schema: Schema) -> Iterator[Schema]:
    """A schema, or what it may be."""
    options = schema.get("anyOf") or schema.get("oneOf")
    for option in options or ():
        yield from _options(option)
    if not options:
        yield schema


def _allowed(schema: Schema) -> Iterator[Any]:
    for each in _options(schema):
        yield from (
            value for value in each.get("enum", [each["const"]] if "const" in each else []) if value is not None
        )


def default_of(schema: Schema) -> str:
    """The default as text; empty if there is none, ``see there`` for a section."""
    default = schema.get("default")
    if isinstance(default, dict):
        return "see there"
    return "" if default in (None, "") else default if isinstance(default, str) else json.dumps(default)


def type_of(schema: Schema, mark: str = "") -> str:
    """The type as text.

    Args:
        schema: The setting.
        mark: Put before and after values.
    """
    return ", or ".join(kind for kind in dict.fromkeys(_kinds(schema, mark)) if kind != "null")


def _kinds(schema: Schema, mark: str) -> Iterator[str]:
    if "$ref" in schema:
        yield "section"
    elif "const" in schema:
        yield f"{mark}{schema['const']}{mark}"
    elif "enum" in schema:
        yield ", ".join(f"{mark}{value}{mark}" for value in schema["enum"] if value is not None)
    elif options := schema.get("anyOf") or schema.get("oneOf"):
        for option in options:
            yield from _kinds(option, mark)
    elif schema.get("type") == "array":
        items = " or ".join(dict.fromkeys(_kinds(schema.get("items", {}), mark)))
        yield f"list of {items or 'values'}"
    elif examples := schema.get("examples"):
        yield "quantity such as " + ", ".join(f"{mark}{each}{mark}" for each in examples[:1])
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
    return " ".join([str(names.get(kind, kind)), *([", ".join(bounds)] if bounds else [])])
