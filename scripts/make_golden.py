"""Write the golden traces of the tests, or check that they are up to date.

Usage: python scripts/make_golden.py [--check]

They are small runs on toy hardware, event by event, with every time as Python writes it exactly. A change that
should not move a figure leaves them as they are; one that should is reviewed as their diff.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from simsys.framework import FRAMEWORKS, DataParallel, Scheduler  # noqa: E402
from simsys.metrics.history import EventHistory  # noqa: E402
from simsys.testing import record  # noqa: E402
from simsys.testing.runs import cases  # noqa: E402

FOLDER = ROOT / "tests" / "agreement" / "golden"
LENGTH = 80
BUCKETS = {"bucket_size": "200 kB", "first_bucket_size": "50 kB"}


def golden_texts() -> dict[str, str]:
    """The text of every golden file, by name."""
    ddp, scheduler = FRAMEWORKS.get("ddp", DataParallel), FRAMEWORKS.get("chunked_prefill", Scheduler)
    history = EventHistory()
    cases(ddp, BUCKETS)[0].run("high", [history])
    events = ([repr(event.timestamp), event.node_id, event.event_type, event.name] for event in history.event_history)
    crowded = cases(scheduler, {})[-1]  # the small KV cache, with preemptions
    served = ([repr(time_s), request, event] for event, request, time_s in crowded.run("medium").history)
    return {
        "ddp_operations.json": _text(record(ddp, **BUCKETS)),
        "ddp_events_high.json": _text(events),
        "serving_steps.json": _text(record(scheduler)),
        "serving_events_medium.json": _text(served),
    }


def _text(rows: Iterable[object]) -> str:
    """The first rows as JSON, one to a line, so that a diff shows what has changed."""
    lines = [json.dumps(row) for row in list(rows)[:LENGTH]]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files; return the exit code."""
    return write_or_check("the golden traces of the tests", golden_texts(), FOLDER, arguments)


if __name__ == "__main__":
    sys.exit(main())
