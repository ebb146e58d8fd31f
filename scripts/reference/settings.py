"""The page of all settings of an experiment file, from the schema that editors use."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.reference.markdown import MADE, prose, table
from simsys.config.json_schema import Schema
from simsys.report.prose import wrapped
from simsys.report.setting_facts import default_of, definitions, places, type_of

INTRODUCTION = f"""\
# Settings

{MADE}

All keys of an experiment file, section by section, from `experiments/experiment.schema.json`. `simsys run FILE --set
hardware.num_nodes=4` changes any of them; `simsys show settings hardware.num_nodes` says everything about one. A
quantity is a text with its unit (`"400 Gb/s"`, `"5 ms"`); a value of a list or mapping is written as in YAML. A key
without default is required, unless the section says otherwise.
"""


def page_text() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION]
    for name, paths in places().items():
        lines += _section(paths, definitions()[name])
    return wrapped("\n".join(lines)).rstrip("\n") + "\n"


def _section(paths: list[str], schema: Schema) -> Iterator[str]:
    shown = [path for path in paths if path]
    kind = schema.get("properties", {}).get("kind", {}).get("const")
    yield f"## {_title(shown, kind)}"
    yield ""
    yield from [prose(schema.get("description", "")), ""]
    if len(shown) > 1:
        yield from ["At " + ", ".join(f"`{path}`" for path in shown) + ".", ""]
    required = schema.get("required", [])
    yield from table(
        ("key", "type", "default", "meaning"),
        (
            (f"`{key}`", type_of(value, "`"), _default(key, value, required), prose(value.get("description", "")))
            for key, value in schema.get("properties", {}).items()
        ),
    )


def _title(paths: list[str], kind: str | None) -> str:
    if not paths:
        return "The file"
    shared = f"`{paths[0]}`"
    return f"{shared} of kind `{kind}`" if kind else shared


def _default(key: str, value: Schema, required: list[str]) -> str:
    if key in required:
        return "required"
    default = default_of(value)
    return default if default in ("", "see there") else f"`{default}`"
