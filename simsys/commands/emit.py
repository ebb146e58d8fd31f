"""`simsys emit`: write the files with which a real tool runs a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from simsys.commands.options import JSON, SCENARIO, SET, answer_json, common, no_modules, with_modules
from simsys.report.console import answer

if TYPE_CHECKING:
    from simsys.config.experiment import SimulationConfig
    from simsys.deployments import EmittedFile


@click.command()
@click.argument("file", metavar="FILE_OR_RESULT", type=click.Path(path_type=Path), callback=with_modules)
@click.option(
    "--for",
    "targets",
    metavar="TARGET",
    multiple=True,
    required=True,
    help="Tool to write for (docs/how-to/emit.md). Repeatable.",
)
@SCENARIO
@SET
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write to, instead of printing the files.")
@click.option("--release", help="Release of the tool; refused if the target was written for another one.")
@click.option("--checkpoint", help="Path or Hugging Face id of the weights, instead of those of the model.")
@JSON
@no_modules
@common
def emit(
    file: Path,
    targets: Sequence[str],
    names: Sequence[str],
    assignments: Sequence[str],
    out: Path | None,
    release: str | None,
    checkpoint: str | None,
    as_json: bool,
) -> int:
    """Write the files with which real tools run the scenarios in FILE_OR_RESULT, an experiment or a folder of results.

    A setting that a tool cannot express is an error that names it. With --out, each scenario has a folder of its own.
    """
    from simsys.deployments import target_of
    from simsys.deployments.sources import emitted_scenarios

    for target in targets:
        target_of(target)
    found = emitted_scenarios(file, targets, assignments, names, release=release, checkpoint=checkpoint)
    written: list[dict[str, Any]] = []
    for scenario, target, files in found:
        places = [] if out is None else write_emitted(out / scenario.name / target, files)
        written.append(_described(scenario, target, files, places))
        if not as_json:
            _answer(scenario, target, files, places)
    if as_json:
        answer_json({"emitted": written})
    return 0


def write_emitted(folder: Path, files: Sequence[EmittedFile]) -> list[Path]:
    """Write the files of a target into a folder."""
    from simsys.report.files import write_files

    return write_files(folder, {file.name: partial(_write, text=file.text) for file in files})


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)


def _described(
    scenario: SimulationConfig, target: str, files: Sequence[EmittedFile], places: Sequence[Path]
) -> dict[str, Any]:
    texts = [{"name": file.name, "text": file.text} for file in files]
    paths = [str(place) for place in places]
    return {"scenario": scenario.name, "target": target, "files": texts, "paths": paths}


def _answer(scenario: SimulationConfig, target: str, files: Sequence[EmittedFile], places: Sequence[Path]) -> None:
    if places:
        answer(f"{scenario.name}, {target}: {', '.join(map(str, places))}")
        return
    for file in files:
        answer(f"--- {scenario.name}, {target}: {file.name}\n{file.text}")
