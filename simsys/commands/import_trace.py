"""`simsys import-trace`: summary and conversion of a request trace, summary of a trace of PyTorch's profiler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands.options import FILE, JSON, answer_json, common
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.report.kineto import KinetoAnswer
    from simsys.report.trace import TraceAnswer


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from simsys.units import Dimension, parse

    return None if text is None else parse(text, Dimension.SECONDS)


def _check_unused(ctx: click.Context) -> None:
    """Raise UsageError if an option for requests is used with another trace."""
    from click.core import ParameterSource

    from simsys.errors import UsageError

    for name in ("rate_scale", "start", "duration", "max_requests", "multi_turn", "hash_block_size"):
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for traces of requests; this is a trace of a profiler")


def _summarise(file: Path, out: Path | None, ranks: Path | None, *, as_json: bool) -> None:
    """Print the summary of a trace of PyTorch's profiler."""
    from simsys.report.files import write_files
    from simsys.report.kineto import KinetoAnswer
    from simsys.traces.kineto_file import read_kineto
    from simsys.traces.rank_files import rank_files

    found = KinetoAnswer(read_kineto(file))
    files = found.write(out) if out is not None else []
    if ranks is not None:
        files += write_files(ranks, rank_files(file))
    _print(found, files, as_json=as_json)


def _print(found: KinetoAnswer | TraceAnswer, files: Sequence[Path], *, as_json: bool) -> None:
    if as_json:
        answer_json({"trace": found.as_dict(), "files": [str(path) for path in files]})
    else:
        answer(found.text())
        for path in files:
            say(f"wrote {path}")


@click.command("import-trace")
@FILE
@click.option("--out", type=click.Path(path_type=Path), help="Write the requests, or the steps, as a CSV file.")
@click.option(
    "--ranks",
    type=click.Path(path_type=Path),
    help="Folder for one file per rank of a trace of simsys, for tools that need them.",
)
@click.option("--rate-scale", type=float, default=1.0, show_default=True, help="Factor by which the replay is faster.")
@click.option("--start", metavar="TIME", callback=_seconds, help="Skip requests before this time, such as '10 min'.")
@click.option("--duration", metavar="TIME", callback=_seconds, help="Skip requests later than this after the start.")
@click.option("--max-requests", type=int, help="Keep at most this number of requests, the first ones.")
@click.option("--multi-turn", is_flag=True, help="Read whole conversations from a trace with texts.")
@click.option("--hash-block-size", type=int, help="Tokens of a block of hash_ids of JSON lines; 512 by default.")
@JSON
@common
def import_trace(
    file: Path,
    out: Path | None,
    ranks: Path | None,
    rate_scale: float,
    start: float | None,
    duration: float | None,
    max_requests: int | None,
    multi_turn: bool,
    hash_block_size: int | None,
    as_json: bool,
) -> None:
    """Summarise the trace FILE: of requests, or of PyTorch's profiler.

    Of requests: format, rate, burstiness, tokens, sessions, shared prefixes. Supported formats: CSV files of Azure,
    BurstGPT, Vidur, splitwise-sim and simsys, JSON lines of Mooncake (with sessions and agents, as of Dynamo and
    AIPerf), of AIPerf's inputs and LLMServingSim, ShareGPT's conversations and vLLM's --save-detailed results. Rows
    without a request are counted by reason; a wrong line among sessions is refused.

    Of PyTorch's profiler (Kineto, .json or .json.gz): computation, exposed communication by collective, overlap and
    gaps of each step, and the kernels with the longest times; --out writes a row for each step.
    """
    from simsys.traces.kineto_file import is_kineto

    if is_kineto(file):
        _check_unused(click.get_current_context())
        return _summarise(file, out, ranks, as_json=as_json)
    from simsys.errors import UsageError
    from simsys.report.trace import TraceAnswer
    from simsys.serving.traces import read_trace

    if ranks is not None:
        raise UsageError("--ranks is for traces of simsys run --trace; this is no such trace")
    trace = read_trace(
        file,
        max_requests=max_requests,
        rate_scale=rate_scale,
        start_s=start or 0.0,
        duration_s=math.inf if duration is None else duration,
        multi_turn=multi_turn,
        block_tokens=hash_block_size,
    )
    found = TraceAnswer(str(file), trace)
    _print(found, found.write(out) if out is not None else [], as_json=as_json)
