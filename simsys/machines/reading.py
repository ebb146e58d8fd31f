"""Reads the description of a machine, whichever kind of file it is."""

from __future__ import annotations

from pathlib import Path

from simsys.errors import ConfigError, Problem
from simsys.input_files import read_text, unreadable
from simsys.machines.machine import Machine
from simsys.machines.nccl_xml import read_xml
from simsys.machines.smi_matrix import read_matrix

MOST_BYTES = 16 * 2**20
MOST_GPUS = 1024


def read_machine(path: Path) -> Machine:
    """Read the output of ``nvidia-smi topo -m`` or a topology file of NCCL.

    Raises:
        ConfigError: If it is neither, or incomplete, with the place.
    """
    try:
        text = read_text(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigError([Problem(unreadable(path, error))]) from None
    read = read_xml if text.lstrip().startswith("<") else read_matrix
    machine = read(text, str(path))
    if len(machine.gpus) > MOST_GPUS:
        raise ConfigError([Problem(f"{len(machine.gpus)} GPUs; at most {MOST_GPUS} are read", file=str(path))])
    return machine
