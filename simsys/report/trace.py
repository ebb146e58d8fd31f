"""Summary of a request trace, and conversion to CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from simsys.errors import UsageError
from simsys.report.csv_table import write_csv
from simsys.report.files import write_files
from simsys.report.listing import description
from simsys.serving.requests import OPTIONAL_COLUMNS, RequestTable
from simsys.serving.traces import Trace
from simsys.units import Dimension, pretty


@dataclass(frozen=True)
class TraceAnswer:
    """A trace that was read.

    Args:
        file: Path as given by the user.
        trace: Its contents.
    """

    file: str
    trace: Trace

    def as_dict(self) -> dict[str, Any]:
        """The answer for programs, with requests per second and vLLM's burstiness; missing values are left out."""
        table, trace = self.trace.table, self.trace
        return {
            "file": self.file,
            "format": trace.format,
            "requests": len(table),
            **(_arrivals(table) if trace.timed else {}),
            "prompt_tokens": _spread(table.prompt_tokens),
            "output_tokens": _spread(table.output_tokens),
            **({"sessions": _sessions(table)} if table.session else {}),
            **({"prefix_sharing": _sharing(table)} if any(table.hash_ids) else {}),
            **({"tenants": len(set(table.tenant))} if table.tenant else {}),
            "unsorted_rows": trace.unsorted,
            "skipped_rows": sum(each.rows for each in trace.skipped),
            "skipped": [
                {"reason": each.reason, "rows": each.rows, "first_row": each.first_row, "example": each.example}
                for each in trace.skipped
            ],
            "notes": list(trace.remarks),
        }

    def text(self) -> str:
        """The answer for people."""
        facts = self.as_dict()
        if facts.get("request_rate"):
            facts["request_rate"] = pretty(facts["request_rate"], Dimension.REQUESTS_PER_SECOND)
        if not facts["unsorted_rows"]:
            del facts["unsorted_rows"]
        return description({key: _rounded(value) for key, value in facts.items() if value not in (None, [], {})})

    def write(self, out: Path) -> list[Path]:
        """Write the requests as a CSV file that simsys reads again, whole or not at all; return the file.

        Raises:
            UsageError: If it is the trace itself, or lengths of outputs are unknown.
            OutputError: If it cannot be written.
        """
        if out.resolve() == Path(self.file).resolve():
            raise UsageError(f"{out} is the trace itself; write to another file")
        if not self.trace.answered:
            raise UsageError(f"{self.file}: some lines have no length of their output, so that {out} would lack it")
        return write_files(out.parent, {out.name: lambda file: write_table(self.trace.table, file)})


def write_table(table: RequestTable, file: TextIO) -> None:
    """Write requests as CSV: one column per column of the table, and the block size next to block ids."""
    used = [name for name in OPTIONAL_COLUMNS if getattr(table, name)]
    names = ["arrival_s", "prompt_tokens", "output_tokens", *used]
    columns: list[Sequence[Any]] = [getattr(table, name) for name in names]
    if table.joins:
        columns[names.index("joins")] = [" ".join(map(str, others)) for others in table.joins]
    if table.hash_ids:
        columns[names.index("hash_ids")] = [" ".join(map(str, ids)) for ids in table.hash_ids]
        names.append("hash_block_tokens")
        columns.append([table.hash_block_tokens] * len(table))
    write_csv(file, names, zip(*columns, strict=True))


def _arrivals(table: RequestTable) -> dict[str, Any]:
    """Arrival times of requests that depend on no other."""
    waits = table.after or [-1] * len(table)
    times = [time_s for time_s, before in zip(table.arrival_s, waits, strict=True) if before < 0]
    ones = [1] * len(times)
    first = RequestTable(times, ones, ones)
    cv = first.gap_cv
    return {
        "span_s": table.span_s,
        "request_rate": first.mean_rate_per_s,
        "gap_cv": cv,
        "burstiness": 1 / cv**2 if cv else None,
        "same_time_as_before": len(times) - len(set(times)),
    }


def _spread(tokens: Sequence[int]) -> dict[str, float]:
    import numpy as np

    p50, p99 = np.percentile(tokens, (50, 99)).tolist()
    return {"mean": sum(tokens) / len(tokens), "p50": p50, "p99": p99, "max": max(tokens)}


def _sessions(table: RequestTable) -> dict[str, float]:
    count = len(set(table.session))
    return {"count": count, "mean_turns": len(table) / count}


def _sharing(table: RequestTable) -> dict[str, float]:
    """The hit rate of an unlimited prefix cache."""
    seen: set[int] = set()
    hits = 0
    for ids in table.hash_ids:
        for each in ids:
            if each not in seen:
                break
            hits += 1
        seen.update(ids)
    tokens = hits * table.hash_block_tokens
    return {"block_tokens": table.hash_block_tokens, "shared_of_prompt_tokens": tokens / sum(table.prompt_tokens)}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value
