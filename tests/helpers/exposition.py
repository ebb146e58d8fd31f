"""A strict reader of Prometheus' text exposition format, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?,?\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


@dataclass
class Family:
    """A metric: its type and its samples, by the suffix of the name and the labels."""

    kind: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def value(self, suffix: str = "", **labels: str) -> float:
        """The only sample with these labels among its own."""
        (found,) = [
            value
            for (end, own), value in self.samples.items()
            if end == suffix and labels.items() <= dict(own).items()
        ]
        return found

    @property
    def buckets(self) -> list[tuple[float, float]]:
        """Limits and how much is not above each."""
        return [(float(dict(own)["le"]), value) for (end, own), value in self.samples.items() if end == "_bucket"]


def read_exposition(text: str) -> dict[str, Family]:
    """Read and check a whole text; what the format does not allow fails an assertion."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    name, helped = "", set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert re.fullmatch(NAME, name)
            assert name not in families, f"{name} is told twice"
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            assert typed == name, "the type follows the help of the same metric"
            assert kind in ("counter", "gauge", "histogram")
            families[name] = Family(kind)
        else:
            _sample(line, name, families[name])
    assert helped == set(families)
    for family in families.values():
        _check(family)
    return families


def _sample(line: str, name: str, family: Family) -> None:
    match = SAMPLE.fullmatch(line)
    assert match, line
    suffix = match[1].removeprefix(name)
    assert match[1].startswith(name)
    assert suffix in SUFFIXES.get(family.kind, ("",)), f"all samples of {name} are together"
    labels = tuple((part.split("=", 1)[0], part.split("=", 1)[1][1:-1]) for part in re.findall(LABEL, match[2] or ""))
    assert len({label for label, _ in labels}) == len(labels)
    assert (suffix, labels) not in family.samples, f"{line} is told twice"
    family.samples[suffix, labels] = float(match[3])


def _check(family: Family) -> None:
    assert all(value >= 0.0 for value in family.samples.values())
    if family.kind == "histogram":
        limits, counts = zip(*family.buckets, strict=True)
        assert list(limits) == sorted(set(limits))
        assert limits[-1] == math.inf
        assert list(counts) == sorted(counts)
        assert counts[-1] == family.value("_count")
        assert family.value("_sum") >= 0.0
