"""`simsys import-topology`: a node profile of a real machine."""

from __future__ import annotations

from pathlib import Path

import click

from simsys.commands.options import FILE, JSON, answer_json, common
from simsys.report.console import answer, say


def _bytes_per_s(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    from simsys.units import Dimension, parse

    return None if text is None else parse(text, Dimension.BYTES_PER_SECOND)


@click.command("import-topology")
@FILE
@click.option("--name", help="Name of the profile; by default that of FILE.")
@click.option("--gpu", help="GPU profile (simsys list gpus), if FILE does not name the GPU.")
@click.option(
    "--nic", metavar="RATE", callback=_bytes_per_s, help="Bandwidth of each network card, such as '400 Gb/s'."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of your experiments: the profile is written to nodes/NAME.yaml there.",
)
@JSON
@common
def import_topology(
    file: Path, name: str | None, gpu: str | None, nic: float | None, out: Path | None, as_json: bool
) -> None:
    """Make a node profile from FILE: the output of nvidia-smi topo -m, or the XML of NCCL_TOPO_DUMP_FILE.

    Without --out it is printed. The name of the GPU is found in the output of nvidia-smi -L, which may stand in the
    same file. Experiments in the folder use the profile with hardware: {profile: NAME}.
    """
    from simsys.machines.profile import node_profile
    from simsys.machines.reading import read_machine
    from simsys.machines.writing import profile_name, write_profile

    found = node_profile(read_machine(file), profile_name(name, file), gpu, nic)
    files = [] if out is None else [write_profile(found, out)]
    if as_json:
        paths = [str(path) for path in files]
        answer_json({"profile": found.data, "notes": list(found.notes), "files": paths})
        return
    if out is None:
        answer(found.text().rstrip("\n"))
    else:
        answer(f"{files[0]}: use it with hardware: {{profile: {found.name}}}")
    for note in found.notes:
        say(f"note: {note}")
