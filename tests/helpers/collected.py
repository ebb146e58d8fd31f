"""A collected test, for tests of what marks and selects tests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Case:
    """A case of a test function: its name and its marks."""

    nodeid: str
    slow: bool = False
    marks: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.nodeid.rpartition("::")[2]

    def get_closest_marker(self, name: str) -> str | None:
        return name if self.slow and name == "slow" else None

    def add_marker(self, name: str) -> None:
        self.marks.append(name)
