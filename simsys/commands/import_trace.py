"""`simsys import-trace`: summary and conversion of a request trace."""

from __future__ import annotations

import math
from pathlib import Path

import click

from simsys.commands.options import FILE, JSON, answer_json, common
from simsys.report.console import answer, say


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from simsys.units import Dimension, parse

    return None if text is None else parse(text, Dimension.SECONDS)


@click.command("import-trace")
@FILE
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the requests as a CSV file in the format of simsys."
)
@click.option("--rate-scale", type=float, default=1.0, show_default=True, help="Factor by which the replay is faster.")
@click.option("--start", metavar="TIME", callback=_seconds, help="Skip requests before this time, such as '10 min'.")
@click.option("--duration", metavar="TIME", callback=_seconds, help="Skip requests later than this after the start.")
@click.option("--max-requests", type=int, help="Keep at most this number of requests, the first ones.")
@click.option("--multi-turn", is_flag=True, help="Read whole conversations from a trace with texts.")
@JSON
@common
def import_trace(
    file: Path,
    out: Path | None,
    rate_scale: float,
    start: float | None,
    duration: float | None,
    max_requests: int | None,
    multi_turn: bool,
    as_json: bool,
) -> None:
    """Summarise the request trace FILE: format, rate, burstiness, tokens, sessions, shared prefixes.

    Supported formats: CSV files of Azure, BurstGPT, Vidur, splitwise-sim and simsys, JSON lines of Mooncake and
    LLMServingSim, ShareGPT's conversations and vLLM's --save-detailed results. Rows without a request are counted by
    reason.
    """
    from simsys.report.trace import TraceAnswer
    from simsys.serving.traces import read_trace

    trace = read_trace(
        file,
        max_requests=max_requests,
        rate_scale=rate_scale,
        start_s=start or 0.0,
        duration_s=math.inf if duration is None else duration,
        multi_turn=multi_turn,
    )
    found = TraceAnswer(str(file), trace)
    files = found.write(out) if out is not None else []
    if as_json:
        answer_json({"trace": found.as_dict(), "files": [str(path) for path in files]})
    else:
        answer(found.text())
        for path in files:
            say(f"wrote {path}")
