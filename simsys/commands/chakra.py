"""`simsys chakra`: execution traces of MLCommons Chakra."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import JSON, SCENARIO, SET, answer_json, common, experiment, limited
from simsys.report.console import CommandGroup, answer


@click.group(cls=CommandGroup)
def chakra() -> None:
    """Write, summarise and replay Chakra execution traces (docs/how-to/traces.md); needs protobuf."""


@chakra.command()
@experiment
@SCENARIO
@SET
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the files of all ranks.")
@click.option(
    "--iteration", type=click.IntRange(0), help="Iteration to export, counted from 0; by default 1, or the only one."
)
@click.option("--gzip", "compressed", is_flag=True, help="Compress the files.")
@limited()
@JSON
@common
def export(
    file: Path,
    names: Sequence[str],
    assignments: Sequence[str],
    out: Path,
    iteration: int | None,
    compressed: bool,
    limit_s: float,
    yes: bool,
    as_json: bool,
) -> None:
    """Simulate the training scenarios in FILE at high detail and write one iteration as Chakra traces.

    Each rank has a file NAME.RANK.et; NAME.comm_groups.json has the process groups for ASTRA-sim.
    """
    from simsys.chakra.answers import ExportAnswer
    from simsys.chakra.export import export_scenarios

    found = []
    for traces in export_scenarios(file, assignments, names, iteration, math.inf if yes else limit_s):
        found.append(ExportAnswer(traces, traces.write(out, compressed=compressed)))
        if not as_json:
            answer(found[-1].text(), headline=True)
    if as_json:
        answer_json({"exports": [each.as_dict() for each in found]})


@chakra.command()
@click.argument("prefix", metavar="TRACES", type=click.Path(path_type=Path))
@click.option("--groups", type=click.Path(path_type=Path), help="File with process groups.")
@JSON
@common
def show(prefix: Path, groups: Path | None, as_json: bool) -> None:
    """Check and summarise traces; TRACES is what the names of all files begin with, such as runs/gpt2."""
    from simsys.chakra.answers import WorkloadAnswer
    from simsys.chakra.reading import read_workload

    found = WorkloadAnswer(read_workload(prefix, groups))
    if as_json:
        answer_json({"traces": found.as_dict()})
    else:
        answer(found.text(), headline=True)


@chakra.command()
@experiment
@SCENARIO
@SET
@click.option("--out", type=click.Path(path_type=Path), help="Folder for output files; none are written by default.")
@JSON
@common
def replay(file: Path, names: Sequence[str], assignments: Sequence[str], out: Path | None, as_json: bool) -> None:
    """Replay traces on a cluster: FILE has hardware, network, and the traces under `chakra`."""
    from simsys.chakra.answers import replayed
    from simsys.chakra.config import read_replays

    found = []
    for config in read_replays(file, assignments, names):
        found.append(replayed(config, out))
        if not as_json:
            answer(("\n" if len(found) > 1 else "") + found[-1].text(), headline=len(found) == 1)
    if as_json:
        answer_json({"replays": [each.as_dict() for each in found]})
