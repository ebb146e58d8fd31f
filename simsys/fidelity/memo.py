"""Outcomes of simulations on disk, so that an interrupted calibration can continue."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from simsys.config.hardware import Named, own_folders
from simsys.data import data_folders, shipped_folder
from simsys.errors import OutputError
from simsys.fidelity.case import Figures, Outcome
from simsys.version import __version__

FILENAME = ".calibration.sqlite"
"""The file in the folder of a calibration, which is removed when the fits are written."""
SHIPPED = ("simsys", "frameworks")
DATA = ("hardware_profiles", "model_db", "frameworks")
READ = (".py", ".yaml", ".json")
"""Suffixes of the files that decide the outcome of a simulation."""
ANEW = """
delete from inputs;
drop table if exists profiles;
drop table if exists outcomes;
create table profiles (run text primary key, names text);
create table outcomes (run text primary key, figures text, reason text);
"""
PATIENCE_S = 60.0
"""How long a process waits while another one writes."""


@dataclass(frozen=True)
class Memo:
    """The outcomes that are known, in a database that several processes read and write.

    Args:
        path: The file.
    """

    path: Path

    @classmethod
    def of(cls, folder: Path) -> Memo:
        """The memo of a calibration that is written to a folder, which is made if there is none.

        It is empty if the code, a profile or a model has changed since.

        Raises:
            OutputError: If the file cannot be written, or is not a memo.
        """
        path, inputs = folder / FILENAME, digest_of_inputs()
        with _kept_in(path):
            folder.mkdir(parents=True, exist_ok=True)
            with closing(_open(path)) as database:
                database.execute("create table if not exists inputs (digest text)")
                if database.execute("select digest from inputs").fetchall() != [(inputs,)]:
                    database.executescript(ANEW)
                    database.execute("insert into inputs values (?)", (inputs,))
        return cls(path)

    def __len__(self) -> int:
        """The number of outcomes."""
        (found,) = _connection(self.path).execute("select count(*) from outcomes").fetchone()
        return int(found)

    def outcome(
        self, run: object, overlay: Mapping[Named, Mapping[str, Any]], simulate: Callable[[], Outcome]
    ) -> Outcome:
        """Return the outcome of a run with changed profiles, which is simulated unless it is known.

        Args:
            run: The run; equal runs have equal texts (`repr`).
            overlay: Settings that replace settings of profiles. Those of profiles that it does not read do not count.
            simulate: Simulates it.

        Raises:
            OutputError: If the file cannot be read or written.
        """
        name = _digest(repr(run))
        with _kept_in(self.path):
            database = _connection(self.path)
            read = _profiles(database, name)
            known = None if read is None else _known(database, _key(name, overlay, read))
        if read is not None and known is not None:
            return Outcome(*known, read)
        found = simulate()
        with _kept_in(self.path):
            if read is None:
                profiles = json.dumps(sorted(map(list, found.profiles)))
                database.execute("insert or ignore into profiles values (?, ?)", (name, profiles))
            if read in (None, found.profiles):
                row = _key(name, overlay, found.profiles), json.dumps(found.figures), found.reason
                database.execute("insert or ignore into outcomes values (?, ?, ?)", row)
        return found

    def remove(self) -> None:
        """Remove the file, which other processes must have closed.

        Raises:
            OutputError: If that fails.
        """
        with _kept_in(self.path):
            _connection.cache_clear()
            self.path.unlink()


@contextmanager
def _kept_in(path: Path) -> Iterator[None]:
    """Raise `OutputError` where the file cannot be read or written."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise OutputError(f"{path}: the outcomes of simulations cannot be kept: {error}") from None


def digest_of_inputs() -> str:
    """A digest of the code and of the files of profiles and models, by their sizes and times of change."""
    folders = [shipped_folder(kind) for kind in SHIPPED] + [path for kind in DATA for path in data_folders(kind)]
    folders += own_folders(Path("."))
    files = sorted({entry for folder in folders for entry in _files(folder)})
    return _digest(__version__, sys.version, np.__version__, *(f"{file}" for file in files))


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """The files below a folder that are read, with their sizes and times of change."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(READ):
                path = os.path.join(place, name)
                status = os.lstat(path)  # a link may lead nowhere
                yield path, status.st_size, status.st_mtime_ns


def _profiles(database: sqlite3.Connection, name: str) -> frozenset[Named] | None:
    """The profiles that a run has read; None if that is not known."""
    row = database.execute("select names from profiles where run = ?", (name,)).fetchone()
    return None if row is None else frozenset((kind, profile) for kind, profile in json.loads(row[0]))


def _known(database: sqlite3.Connection, key: str) -> tuple[Figures, str] | None:
    """The figures of a run, and why there are none; None if they are not known."""
    row = database.execute("select figures, reason from outcomes where run = ?", (key,)).fetchone()
    return None if row is None else (json.loads(row[0]), row[1])


def _key(name: str, overlay: Mapping[Named, Mapping[str, Any]], read: frozenset[Named]) -> str:
    kept = sorted((list(named), own) for named, own in overlay.items() if named in read)
    return _digest(name, json.dumps(kept, sort_keys=True))


def _digest(*texts: str) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()


@cache
def _connection(path: Path) -> sqlite3.Connection:
    """The connection of this process, which keeps it open."""
    return _open(path)


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
    database.execute("pragma synchronous = off")  # a power failure may cost the file, nothing else
    return database
