"""Write docs/reference/metrics.md from the table of metrics, or check that it is up to date.

Usage: python scripts/make_metrics_page.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from simsys.metrics.definitions import metrics_by_name  # noqa: E402
from simsys.metrics.metric import JOBS, SERVING, TRAINING, Metric  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "metrics.md"
INTRODUCTION = """\
# Metrics

Made by `scripts/make_metrics_page.py` from `simsys/metrics/*definitions.py`; not to be edited.

What `<name>_results.json` holds under `metrics`, `simsys list metrics` lists, and `simsys run --fail-on` compares:
`--fail-on 'rejected>0' --fail-on 'p99_ttft_ms>200'`. A condition names a metric of the kind of scenario that the file
has; one that a scenario has no value for counts as failed.
"""
TITLES = {TRAINING: "Training", SERVING: "Serving", JOBS: "Several jobs on one cluster"}


def page_text() -> str:
    """Return the page as Markdown."""
    return "\n".join([INTRODUCTION, *(line for kind in TITLES for line in _section(kind))])


def _section(kind: str) -> Iterator[str]:
    yield from (f"## {TITLES[kind]}", "", "| metric | unit | meaning |", "| --- | --- | --- |")
    for metric in metrics_by_name().values():
        if kind in metric.kinds:
            yield f"| `{metric.name}` | {metric.unit} | {_meaning(metric)} |"
    yield ""


def _meaning(metric: Metric) -> str:
    return metric.meaning + (f" ({metric.only})" if metric.only else "")


def main() -> int:
    """Write or check the file; return the exit code."""
    return write_or_check("the page of metrics", {PAGE.name: page_text().rstrip("\n") + "\n"}, PAGE.parent)


if __name__ == "__main__":
    sys.exit(main())
