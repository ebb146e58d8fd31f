"""YAML as simsys writes it: read back by `simsys.config.document` it is the same data."""

from __future__ import annotations

from typing import Any

import yaml

from simsys.config.document import plain_value

_LINE_BREAKS = frozenset("\x85\u2028\u2029")


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and quotes every text that would be read back as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a part that occurs twice twice."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML knows what YAML 1.1 would take for a number; simsys reads YAML 1.2, where "1e9" is one too.
    style = None if isinstance(plain_value(text), str) else "'"
    if not _LINE_BREAKS.isdisjoint(text):  # YAML 1.1 would fold them
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def yaml_text(data: Any) -> str:
    """Write nested mappings, lists, text and numbers, in the order given."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=80)
    return text
