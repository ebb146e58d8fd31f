"""Reads the output of ``nvidia-smi topo -m`` in any text, such as one that begins with that of ``nvidia-smi -L``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from simsys.errors import ConfigError, Problem, did_you_mean
from simsys.machines.machine import NEAR, Machine, MachineGpu, MachineNic

KIND = "output of nvidia-smi topo -m"
OLDER = {"SOC": "SYS"}
"""Older names of distances."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d{1,4})")
_NVLINKS = re.compile(r"NV([1-9]\d{0,2})")
_MODEL = re.compile(r"GPU (\d{1,4}): (.+?) \(UUID")
_LEGEND = re.compile(r"\s*(NIC\d+): (\S+)\s*")
_AFFINITY = ("CPU", "NUMA", "GPU")
"""What the columns after the devices begin with."""


def read_matrix(text: str, source: str) -> Machine:
    """Read a topology matrix.

    Args:
        text: The text of a file.
        source: The file, for messages.

    Raises:
        ConfigError: If there is no matrix, or it is incomplete or inconsistent, with line, row and column.
    """
    return _Matrix(text, source).machine()


class _Matrix:
    """A topology matrix.

    Args:
        text: The text of a file.
        source: The file, for messages.
    """

    def __init__(self, text: str, source: str) -> None:
        self._source, self._lines = source, [_STYLE.sub("", line) for line in text.splitlines()]
        self._devices: list[str] = []
        self._header = 0
        self._rows: dict[str, tuple[int, list[str]]] = {}
        self._cells: dict[str, list[str]] = {}

    def machine(self) -> Machine:
        """The machine that the matrix describes."""
        self._find_header()
        self._read_rows()
        gpus = [name for name in self._devices if _GPU.fullmatch(name)]
        nics = [name for name in self._devices if name not in gpus]
        for name in gpus:
            if name not in self._rows:
                self._refuse(self._header, f"the row of {name} is missing")
        self._check_symmetry()
        models = {int(found[1]): found[2] for line in self._lines if (found := _MODEL.search(line))}
        legend = {found[1]: found[2] for line in self._lines if (found := _LEGEND.fullmatch(line))}
        column = {name: place for place, name in enumerate(self._devices)}
        cells = {
            (one, other): self._cells[gpus[one]][column[gpus[other]]]
            for one in range(len(gpus))
            for other in range(one + 1, len(gpus))
        }
        return Machine(
            self._source,
            KIND,
            [MachineGpu(name, models.get(int(name[3:]), ""), self._numa(name)) for name in gpus],
            [MachineNic(legend.get(name, name)) for name in nics],
            nvlinks={pair: int(found[1]) for pair, cell in cells.items() if (found := _NVLINKS.fullmatch(cell))},
            gpu_distance=self._distances(cells, [self._numa(name) for name in gpus]),
            nic_distance={
                (one, card): self._cells[name][column[nic]]
                for one, name in enumerate(gpus)
                for card, nic in enumerate(nics)
            },
        )

    def _find_header(self) -> None:
        """Find the line that names the columns."""
        for number, line in enumerate(self._lines):
            words = line.split()
            if words[:1] == ["GPU0"] and words[1:2] != ["X"]:
                end = next((place for place, word in enumerate(words) if word in _AFFINITY), len(words))
                self._devices, self._header = words[:end], number
                twice = next((word for word in self._devices if self._devices.count(word) > 1), None)
                if twice is not None:
                    self._refuse(number, f"two columns are called {twice}")
                return
        message = "there is no matrix of nvidia-smi topo -m here: no line begins with GPU0 and names the columns"
        raise ConfigError([Problem(message, file=self._source)])

    def _read_rows(self) -> None:
        for number, line in enumerate(self._lines[self._header + 1 :], start=self._header + 1):
            words = line.split()
            if not words or words[0] not in self._devices:
                if words and _GPU.fullmatch(words[0]):
                    self._refuse(number, f"the row of {words[0]} has no column{did_you_mean(words[0], self._devices)}")
                if self._rows and words:
                    return
                continue
            name = words[0]
            if name in self._rows:
                self._refuse(number, f"a second row of {name}; give one machine at a time")
            cells = words[1 : len(self._devices) + 1]
            if len(cells) < len(self._devices):
                self._refuse(number, f"the row of {name} has {len(cells)} of {len(self._devices)} columns")
            self._rows[name] = number, words[len(self._devices) + 1 :]
            self._cells[name] = [self._cell(number, name, *each) for each in zip(self._devices, cells, strict=True)]

    def _cell(self, number: int, row: str, column: str, text: str) -> str:
        found = OLDER.get(text, text)
        known = found in NEAR or (_NVLINKS.fullmatch(found) and _GPU.fullmatch(row) and _GPU.fullmatch(column))
        if not known or (found == "X") != (row == column):
            allowed = "X" if row == column else f"one of {', '.join(NEAR[1:])}"
            links = ", NV1, NV2, …" if row != column and _GPU.fullmatch(row) and _GPU.fullmatch(column) else ""
            self._refuse(number, f"row {row}, column {column}: {text!r} is not {allowed}{links}")
        return found

    def _check_symmetry(self) -> None:
        for row, cells in self._cells.items():
            for column, cell in zip(self._devices, cells, strict=True):
                other = self._cells.get(column)
                back = cell if other is None else other[self._devices.index(row)]
                if back != cell:
                    message = f"row {row}, column {column} is {cell}, but row {column}, column {row} is {back}"
                    self._refuse(self._rows[row][0], message)

    def _numa(self, name: str) -> int | None:
        """The NUMA domain of a GPU: the second word after the matrix."""
        after = self._rows[name][1]
        return int(after[1]) if len(after) > 1 and after[1].isdecimal() else None

    @staticmethod
    def _distances(cells: Mapping[tuple[int, int], str], numa: Sequence[int | None]) -> dict[tuple[int, int], str]:
        """Distances over PCIe; NVLinks hide them, so that only the NUMA domain is known."""
        found = {}
        for (one, other), cell in cells.items():
            hidden = "NODE" if numa[one] == numa[other] else "SYS"
            found[one, other] = cell if cell in NEAR else hidden
        return found

    def _refuse(self, number: int, message: str) -> NoReturn:
        raise ConfigError([Problem(message, file=self._source, line=number + 1)])
