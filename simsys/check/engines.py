"""Whether the engine of a scenario exists and runs on its GPUs, and which others do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from simsys.build.cluster import Cluster
from simsys.build.engine_support import alternatives, unsupported
from simsys.check.findings import Findings, Suggestion
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import EngineProfile, load_engine, profile_names
from simsys.errors import SimsysError


def check_engine(config: SimulationConfig, found: Findings) -> EngineProfile | None:
    """Load the engine profile."""
    settings = config.training or config.serving
    assert settings is not None
    name, folders = settings.engine, config.profile_folders
    return found.attempt((config.kind, "engine"), lambda: load_engine(name, folders))


def check_support(config: SimulationConfig, cluster: Cluster, engine: EngineProfile, found: Findings) -> None:
    """The engine must run on every GPU of the cluster."""
    gpus = cluster.gpu_profiles
    reason = next(filter(None, (unsupported(engine, gpu) for gpu in gpus)), "")
    if reason:
        others = alternatives(engine, gpus, engines(config.profile_folders))
        suggestion = Suggestion([[{f"{config.kind}.engine": name}] for name in others], "write {}", most=8)
        found.error((config.kind, "engine"), reason, suggestion=suggestion)


def engines(folders: Iterable[Path] = ()) -> Iterator[EngineProfile]:
    """All engine profiles that are sound, in order of name.

    Args:
        folders: Folders with profiles of the user's own.
    """
    places = tuple(folders)
    for name in profile_names("engine", places):
        with suppress(SimsysError):  # a broken file that the scenario does not use
            yield load_engine(name, places)
