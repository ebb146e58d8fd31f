"""YAML output that `simsys.config.document` reads back unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from simsys.config.document import plain_value

_LINE_BREAKS = frozenset("\x85\u2028\u2029")


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases that quotes every text that would be read back as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write repeated parts again instead of aliases."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML quotes numbers of YAML 1.1; in YAML 1.2, which simsys reads, "1e9" is a number too.
    style = None if isinstance(plain_value(text), str) else "'"
    if not _LINE_BREAKS.isdisjoint(text):  # YAML 1.1 would fold them
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def yaml_text(data: Any) -> str:
    """Write nested mappings, lists, text and numbers, in the order given."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=80)
    return text


def flow_text(data: Mapping[str, Any]) -> str:
    """Write a mapping with its keys as a line each, what is nested in braces and brackets."""
    lines = [f"{key}: {_flow(value)}" for key, value in data.items()]
    return "\n".join(lines)


def _flow(value: Any) -> str:
    dumped = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1e9, default_flow_style=True)
    return str(dumped).removesuffix("...\n").strip()
