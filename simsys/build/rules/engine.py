"""Checks whether the engine of a scenario runs on its GPUs, and proposes engines that do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from simsys.build.engine_support import alternatives, unsupported
from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.config.hardware import EngineProfile, load_engine, profile_names
from simsys.errors import SimsysError


@rule("hardware.gpu")
def engine_runs(parts: Parts, found: Findings) -> None:
    """The engine runs on every GPU of the cluster."""
    if parts.cluster is None or parts.engine is None:
        return
    kind, gpus = parts.config.kind, parts.cluster.gpu_profiles
    reason = next(filter(None, (unsupported(parts.engine, gpu) for gpu in gpus)), "")
    if reason:
        others = alternatives(parts.engine, gpus, engines(parts.config.profile_folders))
        suggestion = Suggestion([[{f"{kind}.engine": name}] for name in others], "write {}", most=8)
        found.error((kind, "engine"), reason, suggestion=suggestion)


def engines(folders: Iterable[Path] = ()) -> Iterator[EngineProfile]:
    """All valid engine profiles, in order of name.

    Args:
        folders: Folders with the user's own profiles.
    """
    places = tuple(folders)
    for name in profile_names("engine", places):
        with suppress(SimsysError):  # a broken file that the scenario does not use
            yield load_engine(name, places)
