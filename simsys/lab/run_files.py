"""The files of a run of the lab: metrics by rank as JSON lines, checkpoints, logs and errors of ranks."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from simsys.errors import OutputError, SimsysError, UsageError


def metrics_file(folder: Path, rank: int) -> Path:
    """The metrics of a rank, a JSON object for each iteration."""
    return folder / f"metrics-of-rank-{rank}.jsonl"


def read_metrics(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    """The metrics of the iterations of a rank; of an iteration that was done twice, the later ones."""
    by_iteration: dict[int, dict[str, Any]] = {}
    try:
        lines = metrics_file(folder, rank).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:  # cut off when its rank was ended
            continue
        by_iteration[row["iteration"]] = row
    return [by_iteration[iteration] for iteration in sorted(by_iteration)]


def write_error(folder: Path, rank: int, error: BaseException) -> None:
    """Leave the error of a rank for the launcher."""
    report = {
        "rank": rank,
        "time_s": time.time(),
        "kind": type(error).__name__,
        "message": (str(error) or type(error).__name__).splitlines()[0],
        "exit_code": error.exit_code if isinstance(error, SimsysError) else 4,
    }
    (folder / f"error-of-rank-{rank}.json").write_text(json.dumps(report), encoding="utf-8")


class MetricsWriter:
    """Appends metrics to the file of a rank, and to TensorBoard's if wanted.

    Args:
        folder: Folder of the run.
        rank: The rank.
        tensorboard: Whether to write for TensorBoard, too.
    """

    def __init__(self, folder: Path, rank: int, *, tensorboard: bool = False) -> None:
        self._path = metrics_file(folder, rank)
        self._board = _board(folder) if tensorboard and rank == 0 else None
        try:
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror}") from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row.

        Raises:
            OutputError: If it cannot be written.
        """
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror}") from error
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, int | float) and name != "iteration":
                    self._board.add_scalar(name, value, row["iteration"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError("lab.tensorboard needs TensorBoard: pip install tensorboard") from None
    return SummaryWriter(str(folder / "tensorboard"))
