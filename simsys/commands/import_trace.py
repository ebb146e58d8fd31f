"""`simsys import-trace`: what a request trace holds."""

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
@click.option("--out", type=click.Path(path_type=Path), help="Write the requests as a CSV file of simsys' own.")
@click.option("--rate-scale", type=float, default=1.0, show_default=True, help="Replay this many times as fast.")
@click.option("--start", metavar="TIME", callback=_seconds, help="Leave out what is before, such as '10 min'.")
@click.option("--duration", metavar="TIME", callback=_seconds, help="Leave out what comes so long after the start.")
@click.option("--max-requests", type=int, help="Keep only so many, the first ones.")
@click.option("--multi-turn", is_flag=True, help="Read whole conversations of a trace that holds texts.")
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
    """Say what the request trace FILE holds: format, rate, burstiness, tokens, sessions, shared prefixes.

    Known are the CSV files of Azure, BurstGPT, Vidur, splitwise-sim and simsys, JSON lines of Mooncake and
    LLMServingSim, ShareGPT's conversations and vLLM's --save-detailed results. Rows that hold no request are counted
    with the reason.
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
