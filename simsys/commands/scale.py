"""`simsys scale`: training on increasing numbers of nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simsys.commands.options import JSON, NO_FILES, OUT, SET, answer_json, common, limited
from simsys.commands.shipped import experiment_or_preset
from simsys.errors import UsageError
from simsys.report.console import answer, say

if TYPE_CHECKING:
    from simsys.analysis.scaling import ScalingStudyRunner
    from simsys.analysis.scaling_result import Mode, ScalingResult

BOTH = "both"


def _nodes(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    from simsys.config.ranges import is_range, values_of

    parts = [part.strip() for part in text.split(",")]
    values = values_of([part if is_range(part) or not part.isdecimal() else int(part) for part in parts])
    for value in values:
        if not isinstance(value, int) or value < 1:
            raise click.BadParameter(f"{value!r} is not a number of nodes; write 1..64x2, 1..8 or 1,2,4,8")
    return list(dict.fromkeys(values))


class ScaleCommand(click.Command):
    """The command, whose numbers of nodes may also be words of their own: ``--nodes 1 2 4``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the numbers that follow ``--nodes``."""
        joined: list[str] = []
        for word in args:
            if word.isdecimal() and len(joined) > 1 and joined[-2] == "--nodes" and joined[-1][-1:].isdecimal():
                joined[-1] += f",{word}"
            else:
                joined.append(word)
        return super().parse_args(ctx, joined)


@click.command(cls=ScaleCommand)
@experiment_or_preset
@SET
@click.option(
    "--nodes",
    "num_nodes",
    metavar="SIZES",
    default="1..8x2",
    show_default=True,
    callback=_nodes,
    help="Numbers of nodes: 1..64x2 (1, 2, 4 ... 64), 1..8, or 1,2,4,8 (also with blanks).",
)
@click.option(
    "--mode",
    type=click.Choice(["weak", "strong", BOTH]),
    default=BOTH,
    show_default=True,
    help="weak keeps the batch per GPU, strong the global batch.",
)
@OUT
@NO_FILES
@limited("sizes", "a size")
@JSON
@common
def scale(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    num_nodes: Sequence[int],
    mode: str,
    out: Path,
    no_files: bool,
    limit_s: float,
    yes: bool,
    as_json: bool,
) -> int:
    """Simulate the training scenarios in FILE on several numbers of nodes.

    Prints throughput, efficiency, where scaling breaks down, the serial fraction (Amdahl for strong, Gustafson for
    weak scaling), and the best sizes for time and for cost. The number of nodes in the file gives the global batch
    of strong scaling; the data-parallel degree follows the GPUs.
    """
    from simsys.analysis.scaling import MODES, ScalingStudyRunner
    from simsys.config.scenarios import read_scenarios
    from simsys.report.scaling import scaling_content, scaling_text, write_scaling

    modes: Sequence[Mode] = MODES if mode == BOTH else [each for each in MODES if each == mode]
    contents, texts, files = [], [], list[Path]()
    runners = [(config.name, ScalingStudyRunner(config)) for config in read_scenarios(file, assignments, names)]
    for name, runner in runners:
        studies = _studies(runner, num_nodes, modes, math.inf if yes else limit_s)
        contents.append(scaling_content(name, studies))
        texts.append(scaling_text(studies))
        files += [] if no_files else write_scaling(name, studies, out)
    if as_json:
        answer_json({"scenarios": contents, "files": [str(path) for path in files]})
    else:
        listed = "\n".join(["", "", "files", *(f"  {path}" for path in files)]) if files else ""
        answer("\n\n\n".join(texts) + listed, headline=True)
    return 0


def _studies(
    runner: ScalingStudyRunner, num_nodes: Sequence[int], modes: Sequence[Mode], limit_s: float
) -> list[ScalingResult]:
    """The studies of a scenario; a mode that is impossible is a note if the other one is possible."""
    found, problems = list["ScalingResult"](), list[UsageError]()
    for mode in modes:
        try:
            found.append(runner.run_scaling_study(num_nodes, mode, limit_s))
        except UsageError as error:
            problems.append(error)
    if not found:
        raise problems[0]
    for problem in problems:
        say(f"note: {problem}")
    return found
