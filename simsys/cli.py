"""The command line: thin commands, each of which calls a function or two and prints what they return."""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simsys import __version__
from simsys.report.console import DEBUG, INTERRUPTED, Group, answer, say

if TYPE_CHECKING:
    from simsys.errors import Problem
    from simsys.report.outcome import Outcome
    from simsys.report.threshold import Threshold

THRESHOLD_FAILED = 1
START = """\
simsys simulates distributed AI training and LLM serving. For example:

  simsys run experiments/experiment_config.yaml
  simsys run FILE --set parallelism.tp_degree=4 --fail-on 'p99_ttft_ms>200'
  simsys list models

Commands: run, check, memory, topology, collectives, import-trace, list, show. 'simsys COMMAND --help' says more."""
SCHEMA_VERSION = 1
"""Of the JSON written here; a change that could break a reader raises it."""

Function = TypeVar("Function", bound=Callable[..., Any])


def main() -> None:
    """Run the command line of this process, as ``simsys`` or ``python -m simsys``."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the terminal cannot show is not worth failing for
            stream.reconfigure(errors="backslashreplace")
    cli.main(prog_name="simsys")


def _terminate(number: int, frame: object) -> None:
    """End as after Ctrl-C: files whole, and a word on what was finished."""
    raise KeyboardInterrupt


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[DEBUG] = value


def _no_color(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value or os.environ.get("NO_COLOR"):
        ctx.color = ctx.find_root().color = False


def _thresholds(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> list[Threshold]:
    from simsys.report.threshold import Threshold

    return [Threshold.parse(text) for text in texts]


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from simsys.units import Dimension, parse

    return None if text is None else parse(text, Dimension.SECONDS)


def _common(function: Function) -> Function:
    """The options that every command has."""
    debug = _flag("--debug", _debug, "Show where an error comes from.")
    return _flag("--no-color", _no_color, "Plain text; also with NO_COLOR.")(debug(function))


def _flag(name: str, callback: Callable[..., None], text: str) -> Callable[[Function], Function]:
    return click.option(name, is_flag=True, expose_value=False, is_eager=True, callback=callback, help=text)


_FILE = click.argument("file", type=click.Path(path_type=Path))
_SET = click.option("--set", "assignments", metavar="PATH=VALUE", multiple=True, help="Change a setting. Repeatable.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")


@click.group(cls=Group, invoke_without_command=True)
@click.version_option(__version__, prog_name="simsys")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Simulate distributed AI training and LLM serving.

    Exit codes: 0 success; 1 a --fail-on condition holds; 2 wrong usage, configuration or output; 3 a scenario does
    not fit its hardware; 4 internal error; 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        answer(START)


@cli.command()
@_FILE
@click.option("--scenario", "names", metavar="NAME", multiple=True, help="Only this scenario. Repeatable.")
@click.option("--lod", type=click.Choice(["high", "medium"]), help="Level of detail, in place of the file's.")
@_SET
@click.option("--out", type=click.Path(path_type=Path), default="results", show_default=True, help="Folder for files.")
@click.option("--no-files", is_flag=True, help="Write no files.")
@_JSON
@click.option("--quiet", is_flag=True, help="Print one line for each scenario.")
@click.option(
    "--fail-on",
    "thresholds",
    metavar="CONDITION",
    multiple=True,
    callback=_thresholds,
    help="Exit with 1 if it holds, such as 'p99_ttft_ms>200'. Repeatable.",
)
@_common
def run(
    file: Path,
    names: Sequence[str],
    lod: str | None,
    assignments: Sequence[str],
    out: Path,
    no_files: bool,
    as_json: bool,
    quiet: bool,
    thresholds: Sequence[Threshold],
) -> int:
    """Simulate the scenarios of FILE; print the answers and write the results."""
    from simsys.report.outcome import plan_scenarios, run_scenario
    from simsys.report.threshold import failures

    assignments = [*assignments, *([f"simulation.lod={lod}"] if lod else [])]
    plans = plan_scenarios(file, assignments, names)
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for plan in plans:
            outcome = run_scenario(plan, None if no_files else out)
            outcomes.append(outcome)
            _print(outcome, as_json=as_json, quiet=quiet, last=plan is plans[-1])
    except KeyboardInterrupt:
        interrupted = True
        options = [*_repeated("--set", assignments), *(["--no-files"] if no_files else ["--out", str(out)])]
        _say_what_is_left(file, options, [done.name for done in outcomes], [plan.name for plan in plans])
    if as_json:
        paths = [str(path) for outcome in outcomes for path in outcome.files]
        _answer_json({"scenarios": [outcome.as_dict() for outcome in outcomes], "files": paths})
    if interrupted:
        return INTERRUPTED
    failed = failures(thresholds, [outcome.result for outcome in outcomes if outcome.result is not None])
    for text in failed:
        say(f"failed: {text}")
    return max([THRESHOLD_FAILED if failed else 0, *(outcome.exit_code for outcome in outcomes)])


def _print(outcome: Outcome, *, as_json: bool, quiet: bool, last: bool) -> None:
    """Print an answer, its headline bold where that is possible; scenarios are set apart by empty lines."""
    if not as_json:
        headline, newline, rest = outcome.text(brief=quiet).partition("\n")
        answer(click.style(headline, bold=True) + newline + rest + ("" if quiet or last else "\n"))
    if outcome.result is not None and outcome.error is not None:
        say(f"error: {outcome.error}")


def _repeated(option: str, values: Sequence[str]) -> list[str]:
    return [text for value in values for text in (option, value)]


def _say_what_is_left(file: Path, options: Sequence[str], done: Sequence[str], names: Sequence[str]) -> None:
    rest = [name for name in names if name not in done]
    command = ["simsys", "run", str(file), *_repeated("--scenario", rest), *options]
    say(f"interrupted; finished: {', '.join(done) or 'none'}")
    if rest:
        say(f"to run the rest: {shlex.join(command)}")


def _answer_json(content: dict[str, Any]) -> None:
    from simsys.report.export import json_text

    answer(json_text({"schema_version": SCHEMA_VERSION, **content}).rstrip("\n"))


@cli.command()
@_FILE
@_SET
@_JSON
@_common
def check(file: Path, assignments: Sequence[str], as_json: bool) -> int:
    """Say whether the scenarios of FILE can be simulated, with all problems at once."""
    from simsys.check import check_file
    from simsys.errors import ConfigError, InfeasibleConfigError

    try:
        names = [config.name for config in check_file(file, assignments)]
    except (ConfigError, InfeasibleConfigError) as error:
        if not as_json:
            raise
        problems = [_problem(problem) for problem in error.problems]
        _answer_json({"file": str(file), "scenarios": [], "problems": problems})
        return error.exit_code
    if as_json:
        _answer_json({"file": str(file), "scenarios": names, "problems": []})
    else:
        answer(f"{file}: ok, {len(names)} scenario{'s' if len(names) > 1 else ''}: {', '.join(names)}")
    return 0


def _problem(problem: Problem) -> dict[str, Any]:
    return {key: getattr(problem, key) for key in ("message", "path", "file", "line", "column")}


@cli.command()
@_FILE
@click.option("--scenario", "names", metavar="NAME", multiple=True, help="Only this scenario. Repeatable.")
@_SET
@click.option("--levers/--no-levers", default=None, help="Whether to say what saves memory; if it does not fit.")
@_JSON
@_common
def memory(file: Path, names: Sequence[str], assignments: Sequence[str], levers: bool | None, as_json: bool) -> int:
    """Say what the scenarios of FILE hold in device memory; exit with 3 if one does not fit.

    Of training that does not fit, and with --levers of any, it says what would save memory and at what cost, and of
    data-parallel training which strategy suits it. With --no-levers nothing is compared by simulation.
    """
    from simsys.errors import InfeasibleError
    from simsys.report.memory import memory_answers

    answers = memory_answers(file, assignments, names, levers=levers)
    if as_json:
        _answer_json({"scenarios": [each.as_dict() for each in answers]})
    else:
        answer("\n\n".join(each.text() for each in answers))
    return InfeasibleError.exit_code if any(each.problem for each in answers) else 0


@cli.command()
@_FILE
@click.option("--scenario", "names", metavar="NAME", multiple=True, help="Only this scenario. Repeatable.")
@_SET
@click.option("--op", default="all_reduce", show_default=True, help="Which collective, such as all_gather.")
@click.option("--sizes", metavar="A..B", default="1KiB..1GiB", show_default=True, help="Sizes, each twice the last.")
@click.option("--gpus", type=int, help="How many GPUs take part, the first ones; all if left out.")
@_JSON
@_common
def collectives(
    file: Path, names: Sequence[str], assignments: Sequence[str], op: str, sizes: str, gpus: int | None, as_json: bool
) -> None:
    """Say what collectives take on the clusters of FILE, size by size, as nccl-tests does.

    Sizes are full buffers: of an all-gather the whole output. Nothing else uses the links.
    """
    from simsys.report.collectives import collective_tables

    tables = collective_tables(file, assignments, names, op=op, sizes=sizes, gpus=gpus)
    if as_json:
        _answer_json({"scenarios": [each.as_dict() for each in tables]})
    else:
        answer("\n\n".join(each.text() for each in tables))


@cli.command()
@_FILE
@click.option("--scenario", "names", metavar="NAME", multiple=True, help="Only this scenario. Repeatable.")
@_SET
@click.option("--route", "ends", type=int, nargs=2, metavar="SRC DST", help="Show the way between these GPUs.")
@click.option("--links", "folder", type=click.Path(path_type=Path), help="Folder for the tables of all links, as CSV.")
@_JSON
@_common
def topology(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    ends: tuple[int, int] | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Show the network of the scenarios of FILE: vertices, links, hops between GPUs, bisection bandwidth, a route."""
    from simsys.report.topology import topology_answers, write_link_tables

    answers = topology_answers(file, assignments, names, ends)
    files = write_link_tables(answers, folder) if folder is not None else []
    if as_json:
        _answer_json({"scenarios": [each.as_dict() for each in answers], "files": [str(path) for path in files]})
    else:
        answer("\n\n".join(each.text() for each in answers))


@cli.command("import-trace")
@_FILE
@click.option("--out", type=click.Path(path_type=Path), help="Write the requests as a CSV file of simsys' own.")
@click.option("--rate-scale", type=float, default=1.0, show_default=True, help="Replay this many times as fast.")
@click.option("--start", metavar="TIME", callback=_seconds, help="Leave out what is before, such as '10 min'.")
@click.option("--duration", metavar="TIME", callback=_seconds, help="Leave out what comes so long after the start.")
@click.option("--max-requests", type=int, help="Keep only so many, the first ones.")
@click.option("--multi-turn", is_flag=True, help="Read whole conversations of a trace that holds texts.")
@_JSON
@_common
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
        _answer_json({"trace": found.as_dict(), "files": [str(path) for path in files]})
    else:
        answer(found.text())
        for path in files:
            say(f"wrote {path}")


@cli.command("list")
@click.argument("kind")
@_JSON
@_common
def list_(kind: str, as_json: bool) -> None:
    """List what there is of a KIND.

    KIND is one of: models, gpus, nodes, fabrics, engines, frameworks, collectives, topologies.
    """
    from simsys.report.catalogue import rows
    from simsys.report.listing import table

    found = rows(kind)
    if as_json:
        _answer_json({"kind": kind, "entries": found})
    else:
        answer(table(found))


@cli.command()
@click.argument("kind")
@click.argument("name")
@_JSON
@_common
def show(kind: str, name: str, as_json: bool) -> None:
    """Show all facts of one thing, such as: simsys show gpu H100.

    KIND as in 'simsys list --help'.
    """
    from simsys.report.catalogue import facts
    from simsys.report.listing import description

    found = facts(kind, name)
    if as_json:
        _answer_json({"kind": kind, "facts": found})
    else:
        answer(description(found))
