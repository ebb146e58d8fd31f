"""`simsys validate`: how wrong are predictions of measured runs?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from simsys.commands.options import JSON, answer_json, common
from simsys.report.console import answer, say


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="Write a row for each measured value, as CSV.")
@click.option("--on", type=click.Path(path_type=Path), help="The experiment that FILES were measured on.")
@click.option("--scenario", metavar="NAME", help="Which of its scenarios.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes that simulate.")
@JSON
@common
def validate(
    files: Sequence[Path], out: Path | None, on: Path | None, scenario: str | None, jobs: int, as_json: bool
) -> None:
    """Predict the measured runs of FILES and say how wrong that is; without FILES, published figures.

    Known are tables of training, serving and nccl-tests results, by their headers; results of 'vllm bench serve' (with
    --save-detailed request by request); and what nccl-tests print, as text or JSON. The last two can be compared with
    an experiment of yours: --on FILE. A run is simulated as 'simsys run' does at medium detail; what was measured
    serves for comparison only. Rows that cannot be predicted are counted with the reason.
    """
    from simsys.build.relocation import relocated
    from simsys.config.experiment import SimulationConfig
    from simsys.fidelity.predict import predict
    from simsys.fidelity.readers import read_cases, shipped_tables
    from simsys.report.counting import counting
    from simsys.report.validation import Validation

    config = SimulationConfig.from_yaml(on, scenario) if on is not None else None
    where = relocated(config, Path(), with_defaults=False) if config is not None else None
    cases = [case for file in files or shipped_tables() for case in read_cases(file, where)]
    with counting("runs") as progress:
        found = Validation(predict(cases, jobs=jobs, progress=progress))
    written = found.write(out) if out is not None else []
    if as_json:
        answer_json({"validation": found.as_dict(), "files": [str(path) for path in written]})
    else:
        answer(found.text())
        for path in written:
            say(f"wrote {path}")
