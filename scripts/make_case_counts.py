"""Write tests/helpers/case_counts.txt anew: how many cases of a test function run by default.

Usage: python scripts/make_case_counts.py

All tests but the slow ones run here on all processors, which takes ten minutes on two. Functions with cases that take
more than half a second together have as many cases as fit into it, and two at least. Functions run whole whose cases
are modules, pages, files or messages of the project, since each case checks another thing.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.case_counts import COUNTS  # noqa: E402

BUDGET_S = 0.5
FEWEST = 2
WHOLE = re.compile(
    "^tests/(agreement/test_(hooks|level)|frameworks/test_frameworks|house/(?!test_experiments)|commands|check/test_check|test_cli)"
    "|test_interrupts|shipped|that_come_with_simsys|refused_at_its_line|few_files"
)
"""Functions of which all cases run."""
HEADER = f"""\
# Test functions of which not all cases run by default, and how many do: as many as fit into {BUDGET_S:g} s.
# Written by scripts/make_case_counts.py. `make test-all` runs all cases.
"""


class Stopwatch:
    """Notes the time of every case."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a case; fixtures that others share count for the first case."""
        self.seconds[report.nodeid] += report.duration

    def counts(self) -> dict[str, int]:
        """The number of cases of each function that has too many."""
        cases: defaultdict[str, list[float]] = defaultdict(list)
        for name, seconds in self.seconds.items():
            cases[name.partition("[")[0]].append(seconds)
        found = {}
        for name, each in cases.items():
            count = max(FEWEST, int(BUDGET_S * len(each) / sum(each)))
            if count < len(each) and not WHOLE.search(name):
                found[name] = count
        return found


def main() -> int:
    """Measure and write the file; return the exit code of the tests."""
    os.chdir(ROOT)
    COUNTS.write_text(HEADER, encoding="utf-8", newline="\n")
    stopwatch = Stopwatch()
    code = pytest.main(["-q", "-n", "auto", "-p", "no:cacheprovider"], plugins=[stopwatch])
    lines = [f"{name} {count}\n" for name, count in sorted(stopwatch.counts().items())]
    COUNTS.write_text(HEADER + "".join(lines), encoding="utf-8", newline="\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
