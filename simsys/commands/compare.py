"""`simsys compare`: scenarios, results and measurements against the first of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands import completed
from simsys.commands.options import (
    JSON,
    REPORT,
    answer_json,
    common,
    limited,
    look_for_modules,
    no_modules,
    write_report,
)
from simsys.commands.run import THRESHOLD_FAILED
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.report.threshold import Threshold

EXAMPLE = "p99_ttft_ms ratio > 1.05"


def _thresholds(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> list[Threshold]:
    from simsys.report.threshold import Threshold

    return [Threshold.parse(text, "ratio", EXAMPLE) for text in texts]


def _with_modules(ctx: click.Context, _: click.Parameter, sources: Sequence[str]) -> Sequence[str]:
    look_for_modules(ctx, [Path(source) for source in sources])
    return sources


@click.command()
@click.argument("sources", metavar="A B ...", nargs=-1, required=True, callback=_with_modules)
@no_modules
@click.option(
    "--change",
    "changes",
    metavar="PATH=VALUE[;PATH=VALUE]",
    multiple=True,
    help="Also compare the first scenario with these settings changed. Repeatable.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Runs of each scenario, with common random numbers; ratios have confidence intervals.",
)
@click.option("--all", "everything", is_flag=True, help="List all metrics, not only headline metrics.")
@click.option(
    "--fail-on",
    "thresholds",
    metavar="CONDITION",
    multiple=True,
    callback=_thresholds,
    shell_complete=completed.metrics,
    help=f"Exit with 1 if this condition holds, such as '{EXAMPLE}'; metrics: 'simsys list metrics'. Repeatable.",
)
@limited()
@REPORT
@JSON
@common
def compare(
    sources: Sequence[str],
    changes: Sequence[str],
    seeds: int,
    everything: bool,
    thresholds: Sequence[Threshold],
    limit_s: float,
    yes: bool,
    report: Path | None,
    as_json: bool,
) -> int:
    """Compare scenarios, results and measurements with the first of them.

    Each of A B ... is a scenario file (FILE, or FILE:SCENARIO for one of its scenarios), a folder that 'simsys run'
    has written, or a result of 'vllm bench serve'. For each metric, the ratio to the first is printed, and whether
    the difference exceeds the error of measured pairs of runs that differ in the same settings.

    Would another GPU help?  simsys compare FILE:SCENARIO --change hardware.gpu=H200-SXM
    """
    from simsys.comparisons.comparison import compare as compared
    from simsys.comparisons.sources import Change
    from simsys.comparisons.text import comparison_text
    from simsys.contents.printed import printed

    changed = [Change(sources[0], text.split(";")) for text in changes]
    found = compared(*sources, *changed, seeds=seeds, limit_s=math.inf if yes else limit_s, thresholds=thresholds)
    failed = found.failures(thresholds)
    if as_json:
        answer_json({"comparison": found.as_dict(), "failed": failed})
    else:
        answer(comparison_text(found, everything=everything), headline=True)
    for path in write_report(printed("compare", {"comparison": found.as_dict()}), report):
        say(f"wrote {path}")
    for text in failed:
        say(f"failed: {text}")
    return THRESHOLD_FAILED if failed else 0
