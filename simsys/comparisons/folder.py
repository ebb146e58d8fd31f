"""A folder that `simsys run` has written, as a side of a comparison."""

from __future__ import annotations

from pathlib import Path

from simsys.comparisons.side import Side
from simsys.config.experiment import SimulationConfig
from simsys.contents.result_file import CONFIG, RESULTS, result_content, results_file
from simsys.errors import UsageError
from simsys.version import __version__


def read_folder(folder: Path) -> Side:
    """Read the results of a run.

    Raises:
        UsageError: The folder has no results of a run, those of several, damaged ones, or ones of another format.
        ConfigError: Its settings cannot be read.
    """
    results = results_file(folder)
    found = result_content(results)
    config = folder / f"{results.name.removesuffix(RESULTS)}{CONFIG}"
    if not config.is_file():
        raise UsageError(f"{folder}: {config.name} is missing, which simsys run writes next to {results.name}")
    warnings = [str(text) for text in found.get("warnings", [])]
    version = found.get("simsys_version")
    if version != __version__:
        warnings.append(f"written by simsys {version}, this is {__version__}; to run it again: simsys run {config}")
    return Side(
        folder.name,
        found["kind"],
        "results",
        str(folder),
        SimulationConfig.from_yaml(config),
        [found["metrics"]],
        warnings=warnings,
    )
