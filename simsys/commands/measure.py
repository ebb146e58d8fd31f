"""`simsys measure`: profiles of this machine."""

from __future__ import annotations

from pathlib import Path

import click

from simsys.commands import completed
from simsys.commands.options import JSON, answer_json, common
from simsys.report.console import answer, say


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--scenario",
    metavar="NAME",
    shell_complete=completed.scenarios,
    help="Scenario in FILE with the model to measure for.",
)
@click.option("--out", "name", default="this-machine", show_default=True, metavar="NAME", help="Name of the profiles.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of profiles to write to; by default hardware_profiles/ beside FILE, or here.",
)
@click.option("--ranks", type=click.IntRange(1, 1024), help="Number of ranks; by default one for each core or GPU.")
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Threads of each rank.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    default="results/measure",
    show_default=True,
    help="Folder for all samples.",
)
@JSON
@common
def measure(
    file: Path | None,
    scenario: str | None,
    name: str,
    folder: Path | None,
    ranks: int | None,
    threads: int,
    device: str,
    samples: Path,
    as_json: bool,
) -> None:
    """Measure this machine with PyTorch, and write profiles of its device, node and software.

    They are used at once: hardware: {profile: NAME} and training: {engine: NAME}. With FILE, kernels are measured at
    the shapes of its model, otherwise at those of a small transformer. It takes one to three minutes.
    """
    from simsys.lab.measure.report import measurement_dict, measurement_text
    from simsys.lab.measure.run import measure as run
    from simsys.lab.measure.shapes import shapes_of
    from simsys.lab.scenario import lab_jobs

    shapes = None if file is None else shapes_of(lab_jobs(file, () if scenario is None else (scenario,))[0])
    folder = folder or (Path() if file is None else file.parent) / "hardware_profiles"
    found = run(name, folder, samples, shapes=shapes, ranks=ranks, threads=threads, device=device, say=say)
    if as_json:
        answer_json({"measurement": measurement_dict(found)})
        return
    answer(measurement_text(found))
    for written in found.files:
        say(f"wrote {written}")
