"""Measures this machine in processes of its own, and writes its profiles."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from simsys.config.engine_schema import EngineProfile
from simsys.config.hardware import load_engine, load_gpu, load_node
from simsys.errors import OutputError, UsageError
from simsys.lab.launch import Launch
from simsys.lab.measure.profiles import Measured, profiles
from simsys.lab.measure.shapes import Shapes
from simsys.lab.scenario import cores
from simsys.lab.torch_needed import require_torch
from simsys.report.files import write_files
from simsys.report.yaml_text import yaml_text

WORKER = "simsys.lab.measure.worker"


@dataclass(frozen=True)
class Measurement:
    """A finished measurement.

    Args:
        measured: What was measured.
        files: The profiles that were written.
        raw: Folder with all samples.
        seconds: How long it took.
    """

    measured: Measured
    files: Sequence[Path]
    raw: Path
    seconds: float


def measure(
    name: str,
    folder: Path,
    raw: Path,
    *,
    shapes: Shapes | None = None,
    ranks: int | None = None,
    threads: int = 1,
    device: str = "auto",
    say: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """Measure this machine and write its profiles.

    Args:
        name: Name of the profiles.
        folder: Folder of profiles to write to.
        raw: Folder for all samples and logs.
        shapes: Shapes of a model; by default of a small transformer.
        ranks: Ranks of the node; by default one for each device.
        threads: Threads of each rank.
        device: ``auto``, ``cpu`` or ``cuda``.
        say: Called with notes.

    Raises:
        UsageError: PyTorch or SciPy is not installed, or the name is no name of a profile.
        OutputError: A file cannot be written.
        TrainingError: A measuring process is lost.
    """
    require_torch()
    started_s, shapes, ranks = time.perf_counter(), shapes or Shapes(), ranks or default_ranks(threads, device)
    _prepare(name, raw, shapes)
    arguments = [str(raw), "--device", device]
    say(f"measuring kernels with {threads} threads")
    Launch(arguments, 1, threads, raw, module=WORKER).run()
    if ranks > 1:
        say(f"measuring collectives of {ranks} ranks")
        Launch(arguments, ranks, threads, raw, module=WORKER).run()
    measured = Measured(
        name,
        _read(raw / "device.json"),
        _read(raw / "exchanges.json") if ranks > 1 else None,
        shapes,
        ranks,
        threads,
        memory_bytes(),
        datetime.now(UTC).date(),
    )
    files = _write(folder, profiles(measured))
    check(name, folder)
    return Measurement(measured, files, raw, time.perf_counter() - started_s)


def _prepare(name: str, raw: Path, shapes: Shapes) -> None:
    """Check the name of the profiles, make the folder of samples and leave the shapes there."""
    if not name or name != Path(name).name:
        raise UsageError(f"{name!r} is no name of a profile; write letters, digits, dots and dashes")
    try:
        raw.mkdir(parents=True, exist_ok=True)
        for file in ("device.json", "exchanges.json"):
            (raw / file).unlink(missing_ok=True)
        (raw / "shapes.json").write_text(json.dumps(shapes.as_dict()), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {raw}: {error.strerror}") from error


def default_ranks(threads: int, device: str) -> int:
    """The ranks that there are devices for."""
    import torch

    if device != "cpu" and torch.cuda.is_available():
        return torch.cuda.device_count()
    return max(1, cores() // threads)


def memory_bytes() -> float:
    """Memory of the machine."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def check(name: str, folder: Path) -> EngineProfile:
    """Load the profiles as a scenario does.

    Raises:
        ConfigError: One of them does not fit the schema.
    """
    load_gpu(name, [folder])
    load_node(name, [folder])
    return load_engine(name, [folder])


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def _write(folder: Path, contents: dict[str, dict[str, Any]]) -> list[Path]:
    files: list[Path] = []
    for path, content in contents.items():
        kind, _, name = path.partition("/")
        files += write_files(folder / kind, {f"{name}.yaml": partial(_write_text, yaml_text(content))})
    return files


def _write_text(text: str, file: TextIO) -> None:
    file.write(text)
