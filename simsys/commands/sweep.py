"""`simsys sweep`: simulate many variants of a scenario; status, tables and merging of sweeps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simsys import interrupts
from simsys.commands.options import (
    JSON,
    REPORT,
    SCENARIO,
    SET,
    answer_json,
    common,
    experiment,
    repeated,
    write_report,
)
from simsys.errors import UsageError, did_you_mean
from simsys.interrupts import INTERRUPTED
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.sweeps.plan import SweepPlan
    from simsys.sweeps.run import Summary
    from simsys.sweeps.table import Columns

POINT_TIMEOUT_S = 600.0
ROWS = 40
"""Default number of printed rows."""
DIR = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


class _SweepGroup(click.Group):
    """A group whose first argument may be a file instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the command `run` before a file or an option of it."""
        if args and args[0] not in self.commands and args[0] != "--help":
            if not args[0].startswith("-") and not Path(args[0]).exists() and "." not in args[0]:
                raise click.UsageError(
                    f"no such file or command {args[0]!r}{did_you_mean(args[0], self.commands)}", ctx
                )
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the form without `run`."""
        formatter.write_usage(ctx.command_path, "FILE [OPTIONS]  |  status|export|merge DIR [OPTIONS]")


def _part(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, int]:
    """Read ``K/N``."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text or "1/1")
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"{text!r} is not K/N with 1 <= K <= N, such as 2/8")
    return int(found[1]), int(found[2])


@click.group(cls=_SweepGroup)
def sweep() -> None:
    """Simulate the points of the section 'sweep' of FILE; 'simsys sweep run --help' lists the options.

    A sweep that was interrupted continues where it ended.
    """


@sweep.command()
@experiment
@SCENARIO
@SET
@click.option(
    "--out", type=click.Path(path_type=Path), default="results", show_default=True, help="Parent of the folders."
)
@click.option("--jobs", type=click.IntRange(1), help="Number of worker processes; default: one per processor.")
@click.option(
    "--cluster", metavar="ADDRESS", help="Dask cluster: tcp://HOST:PORT, or local:N for N workers on this machine."
)
@click.option(
    "--point-timeout",
    "timeout_s",
    type=click.FloatRange(0.0, min_open=True),
    default=POINT_TIMEOUT_S,
    show_default=True,
    help="Longest time of a point, in seconds.",
)
@click.option(
    "--part", metavar="K/N", callback=_part, help="Run only the K-th of N parts; 'merge' joins their stores."
)
@click.option("--retry", is_flag=True, help="Run points again that crashed or timed out.")
@click.option("--sort", metavar="COLUMN", default="", help="Sort printed rows by a column; -COLUMN: largest first.")
@click.option(
    "--rows", type=click.IntRange(0), default=ROWS, show_default=True, help="Most printed rows; files have all rows."
)
@REPORT
@JSON
@common
def run(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    out: Path,
    jobs: int | None,
    cluster: str | None,
    timeout_s: float,
    part: tuple[int, int],
    retry: bool,
    sort: str,
    rows: int,
    report: Path | None,
    as_json: bool,
) -> int:
    """Simulate the points of the section 'sweep' of FILE that are not in the store yet."""
    from simsys.report.sweep import check_order, sweep_text
    from simsys.sweeps.plan import read_plans
    from simsys.sweeps.run import local, on_cluster

    if cluster is not None and jobs is not None:
        raise click.UsageError("give either --jobs or --cluster; local:N has N workers")
    plans = read_plans(file, assignments, names)
    if report is not None and len(plans) > 1:
        raise UsageError(f"--report is of one sweep, and {file} has {len(plans)}: choose one with --scenario")
    for plan in plans:
        check_order(sort, plan.paths)
    start = local(jobs, timeout_s) if cluster is None else on_cluster(cluster, timeout_s)
    found: list[dict[str, Any]] = []
    codes: list[int] = []
    try:
        with interrupts.raised():
            for plan in plans:
                summary, files, table = _run_one(plan, out / plan.name, start, part, retry=retry, sort=sort)
                codes.append(summary.exit_code)
                found.append({"name": plan.name, **_as_dict(summary), "files": [str(path) for path in files]})
                if not as_json:
                    _say_summary(plan.name, summary, files)
                    answer(sweep_text(table, plan.paths, plan.config.metrics, sort=sort, rows=rows) + "\n")
    except KeyboardInterrupt:
        options = [*repeated("--set", assignments), *repeated("--scenario", names)]
        options += ["--cluster", cluster] if cluster is not None else []
        command = ["simsys", "sweep", str(file), *options, "--out", str(out)]
        say(f"interrupted; to run the rest: {shlex.join(command)}")
        codes.append(INTERRUPTED)
    if INTERRUPTED not in codes and report is not None:
        found[0]["files"] += map(str, _write_report(out / plans[0].name, report))
    if as_json:
        answer_json({"sweeps": found})
    return max(codes)


def _write_report(folder: Path, path: Path) -> list[Path]:
    """Write the page of a finished sweep; return the file."""
    from simsys.contents.read import read_contents

    pages = write_report(read_contents([folder]), path)
    say(f"wrote {path}")
    return pages


def _run_one(
    plan: SweepPlan, folder: Path, start: Any, part: tuple[int, int], *, retry: bool, sort: str
) -> tuple[Summary, list[Path], Columns]:
    """Run one sweep and write its files."""
    from simsys.report.counted_progress import CountedProgress
    from simsys.report.sweep import sorted_by
    from simsys.sweeps.export import write_all
    from simsys.sweeps.run import run_sweep
    from simsys.sweeps.store import Store
    from simsys.sweeps.table import table_of

    with CountedProgress(plan.name, "points") as progress:
        summary = run_sweep(plan, folder, start, retry=retry, part=part, progress=progress)
    with Store(folder) as store:
        table, column = table_of(store), sorted_by(sort)
        if column and column not in table:
            table[column] = table_of(store, [column])[column]
        return summary, write_all(store, plan.name), table


@sweep.command()
@DIR
@JSON
@common
def status(folder: Path, as_json: bool) -> int:
    """Print the numbers of points of the sweep in DIR by state."""
    from simsys.sweeps.run import summary_of
    from simsys.sweeps.store import Store

    with Store(folder) as store:
        summary, name = summary_of(store), store.meta().get("name", "")
    if as_json:
        answer_json({"name": name, **_as_dict(summary)})
    else:
        answer(f"{name}: {summary.text()}")
    return 0


@sweep.command()
@DIR
@click.option("--to", "path", type=click.Path(path_type=Path), help="File, .csv or .parquet; default: DIR/NAME.csv.")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="Metric of a column, or 'all'. Repeatable.")
@click.option("--each-seed", is_flag=True, help="Write one row per seed instead of means.")
@common
def export(folder: Path, path: Path | None, metrics: Sequence[str], each_seed: bool) -> int:
    """Write the table of the sweep in DIR."""
    from simsys.sweeps.export import write_table
    from simsys.sweeps.store import Store
    from simsys.sweeps.table import table_of

    with Store(folder) as store:
        table = table_of(store, metrics, each_seed=each_seed)
        target = path if path is not None else folder / f"{store.meta()['name']}_sweep.csv"
    say(f"wrote {write_table(table, target)}")
    return 0


@sweep.command()
@DIR
@click.argument("others", metavar="OTHER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@JSON
@common
def merge(folder: Path, others: Sequence[Path], as_json: bool) -> int:
    """Add the rows of the sweeps in OTHER... to DIR, which may be new, and write the table."""
    from simsys.sweeps.export import write_all
    from simsys.sweeps.run import merge as merge_stores
    from simsys.sweeps.store import Store

    summary = merge_stores(folder, others)
    with Store(folder) as store:
        name = store.meta()["name"]
        files = write_all(store, name)
    if as_json:
        answer_json({"name": name, **_as_dict(summary), "files": [str(path) for path in files]})
    else:
        _say_summary(name, summary, files)
    return 0


def _say_summary(name: str, summary: Summary, files: Sequence[Path]) -> None:
    answer(f"{name}: {summary.text()}")
    for path in files:
        answer(f"  {path}")


def _as_dict(summary: Summary) -> dict[str, Any]:
    return {
        "folder": str(summary.folder),
        "points": summary.total,
        "states": dict(summary.states),
        "missing": summary.missing,
        "simulated": summary.simulated,
    }
