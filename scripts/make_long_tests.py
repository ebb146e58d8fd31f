"""Write tests/helpers/long_tests.txt anew: the test functions that `-m quick` leaves out, since a case takes long.

Usage: python scripts/make_long_tests.py

The first and the last case of every test function run here one by one, which takes a few minutes. What counts is the
CPU time of this process and of those that it started, with the fixtures that tests share, whichever made them. Tests
that are not in the file are quick until it is written anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.quick import LONG, function_of, representatives  # noqa: E402

LIMIT_S = 0.01
HEADER = f"""\
# Test functions that `-m quick` leaves out: a case takes more than {LIMIT_S} s of CPU.
# Written by scripts/make_long_tests.py.
"""


class Stopwatch:
    """Notes the CPU time of the longest case of every test function."""

    def __init__(self) -> None:
        self.longest_s: dict[str, float] = {}
        self.fixtures_s: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the cases that may be quick."""
        items[:] = representatives(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Time a case, or the longest of its fixtures where another case has made that already."""
        before_s = _cpu_seconds()
        result = yield
        shared_s = (self.fixtures_s.get(name, 0.0) for name in getattr(item, "fixturenames", ()))
        taken_s, name = max(_cpu_seconds() - before_s, *shared_s, 0.0), function_of(item)
        self.longest_s[name] = max(taken_s, self.longest_s.get(name, 0.0))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Time a fixture; the last one of its name counts, which is that of the module whose tests run."""
        before_s = _cpu_seconds()
        result = yield
        self.fixtures_s[fixturedef.argname] = _cpu_seconds() - before_s
        return result


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def main() -> int:
    """Measure and write the file; return the exit code of the tests."""
    os.chdir(ROOT)
    stopwatch = Stopwatch()
    code = pytest.main(["-q", "-p", "no:cacheprovider"], plugins=[stopwatch])
    if code == pytest.ExitCode.OK:
        long = sorted(name for name, seconds in stopwatch.longest_s.items() if seconds > LIMIT_S)
        LONG.write_text(HEADER + "\n".join(long) + "\n", encoding="utf-8", newline="\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
