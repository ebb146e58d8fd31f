"""A scenario as plain data with relative paths from another folder, so that it can be run from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simsys.build.profiles import profiles_of
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import profile_files


def relocated(config: SimulationConfig, folder: Path, *, with_defaults: bool = True) -> dict[str, Any]:
    """The settings of a scenario, ready for JSON or YAML, with paths relative to `folder`.

    For a scenario that uses the user's own profiles next to it, they name this folder (`hardware.profile_folder`).

    Args:
        config: The scenario.
        folder: The new folder from which relative paths start.
        with_defaults: Whether to also write settings that were not given and have a value.

    Raises:
        SimsysError: If a profile that the scenario names does not exist.
    """
    old, new = config.folder.resolve(), folder.resolve()
    given = config.hardware.profile_folder
    if given is not None or uses_own_profiles(config):
        hardware = config.hardware.model_copy(update={"profile_folder": _moved(given or ".", old, new)})
        config = config.model_copy(update={"hardware": hardware})
    data = config.model_dump(mode="json", exclude_unset=not with_defaults, exclude_none=with_defaults, by_alias=True)
    for section, key in _paths(data):
        section[key] = _moved(section[key], old, new)
    for training in (part.get("training") or {} for part in (data, *(data.get("jobs") or ()))):
        if training.get("global_batch_size") is not None:
            training.pop("gradient_accumulation_steps", None)  # it follows from the layout
    return data


def uses_own_profiles(config: SimulationConfig) -> bool:
    """Whether a profile of the scenario, or a fit, is read from the folder of the experiment."""
    own = config.profile_folders
    read = (file for kind, given in profiles_of(config) for file in profile_files(kind, given, own))
    return bool(own) and any(file.is_relative_to(place) for file in read for place in own)


def _paths(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The settings of the scenario and its jobs that are paths."""
    for part in (data, *(data.get("jobs") or ())):
        trace = (part.get("workload") or {}).get("trace")
        for section, key in ((trace, "path"), (part.get("model"), "huggingface"), (part.get("network"), "edges_file")):
            if section and section.get(key) is not None:
                yield section, key


def _moved(path: str, old: Path, new: Path) -> str:
    """Convert a path relative to `old` to a path relative to `new`."""
    absolute = Path(os.path.expanduser(path))
    return path if absolute.is_absolute() else Path(os.path.relpath(old / absolute, new)).as_posix()
