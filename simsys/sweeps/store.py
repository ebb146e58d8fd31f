"""The store of a sweep: a SQLite database on a local disk with one writer, from which an interrupted sweep resumes."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from simsys.errors import OutputError, UsageError
from simsys.sweeps.evaluate import CRASHED, TRANSIENT, Row
from simsys.sweeps.points import Point, canonical
from simsys.version import __version__

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

FILENAME = "sweep.sqlite"
LOCK = ".sweep.lock"
FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points
    (position INTEGER PRIMARY KEY, key TEXT NOT NULL, vals TEXT NOT NULL, seed INTEGER);
CREATE TABLE IF NOT EXISTS rows
    (key TEXT PRIMARY KEY, state TEXT NOT NULL, reason TEXT NOT NULL, figures TEXT NOT NULL);
"""


class Store:
    """The database of one sweep, open for reading, or for writing by this process alone.

    Args:
        folder: The folder of the sweep.
        write: Whether to write; the folder and the database are created if missing.

    Raises:
        UsageError: If there is no store to read, or another process writes to it.
        OutputError: If it cannot be opened.
    """

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder, self._opened = folder, ExitStack()
        path = folder / FILENAME
        if not write and not path.is_file():
            raise UsageError(f"{folder} holds no sweep (there is no {FILENAME})")
        try:
            self._open(path, write)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, write: bool) -> None:
        """Connect, and check that the format is known."""
        with self._errors():
            if write:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._take_lock()
            address = f"file:{_quoted(path)}?mode={'rwc' if write else 'ro'}"
            self._base = self._opened.enter_context(closing(sqlite3.connect(address, uri=True, isolation_level=None)))
            if write:
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute("PRAGMA synchronous = NORMAL")
                self._base.executescript(_TABLES)
        if (found := self.meta().get("format", str(FORMAT))) != str(FORMAT):
            raise UsageError(f"{self.folder}: this store has another format ({found}); {_remedy(write)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and let others write."""
        with suppress(sqlite3.Error):
            self._opened.close()

    def begin(self, name: str, description: Mapping[str, Any], paths: Sequence[str], points: Sequence[Point]) -> None:
        """Record the sweep, or check that the store is of the same sweep.

        Args:
            name: The scenario's name.
            description: The scenario and its section ``sweep``, as data.
            paths: The paths of the settings that vary.
            points: All points.

        Raises:
            UsageError: If the store is of another version, format or experiment.
        """
        digest = sha256(canonical(description).encode()).hexdigest()
        own = {"format": str(FORMAT), "version": __version__, "experiment": digest, "name": name}
        found = self.meta()
        if found:
            self._check_same(found, own)
        own |= {"description": canonical(description), "paths": json.dumps(list(paths))}
        with self.transaction():
            self._base.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", own.items())
            self._write_points(points)

    def _write_points(self, points: Iterable[Point]) -> None:
        self._base.execute("DELETE FROM points")
        rows = ((each.position, each.key, canonical(list(each.values)), each.seed) for each in points)
        self._base.executemany("INSERT INTO points VALUES (?, ?, ?, ?)", rows)

    def _write_rows(self, rows: Iterable[Row]) -> None:
        values = ((each.key, each.state, each.reason, each.figures) for each in rows)
        self._base.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", values)

    def _check_same(self, found: Mapping[str, str], own: Mapping[str, str], folder: Path | None = None) -> None:
        """Refuse a store (of this folder by default) that is of another sweep."""
        place, remedy = folder or self.folder, _remedy(folder is None)
        if found["version"] != own["version"]:
            written = f"was written by simsys {found['version']}, this is {own['version']}"
            raise UsageError(f"{place}: this store {written}; {remedy}")
        if found["experiment"] != own["experiment"]:
            what = f"the sweep of another experiment ({found['name']})"
            if found["name"] == own["name"]:
                what = f"a sweep of {own['name']} with other settings"
            raise UsageError(f"{place}: this store is of {what}; {remedy}")

    def meta(self) -> dict[str, str]:
        """Format, version, experiment and name of the sweep; empty if none has begun."""
        with self._errors():
            return dict(self._base.execute("SELECT name, value FROM meta"))

    def add(self, rows: Iterable[Row]) -> None:
        """Write rows in one transaction; a row that is known already is replaced."""
        with self.transaction():
            self._write_rows(rows)

    def add_from(self, other: Store) -> None:
        """Add the rows of another store of the same sweep, except for points that have a row here.

        A row of a point that crashed or timed out is replaced by one with another state.

        Raises:
            UsageError: If it is of another sweep, version or format.
        """
        found, own = other.meta(), self.meta()
        if not found:
            raise UsageError(f"{other.folder}: no sweep has begun here")
        self._check_same(found, own or {**found, "version": __version__}, other.folder)
        states, points = self.states(), [point for point, _ in other.points()]
        rows = [row for _, row in other.points() if row is not None and states.get(row.key, CRASHED) in TRANSIENT]
        with self.transaction():
            self._base.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", found.items())
            self._write_points(points)
            self._write_rows(row for row in rows if row.key not in states or row.state not in TRANSIENT)

    def states(self) -> dict[str, str]:
        """The state of each point that has a row, by key."""
        with self._errors():
            return dict(self._base.execute("SELECT key, state FROM rows"))

    def paths(self) -> list[str]:
        """The paths of the settings that vary."""
        found: list[str] = json.loads(self.meta().get("paths", "[]"))
        return found

    def points(self) -> Iterator[tuple[Point, Row | None]]:
        """All points in order, each with its row if it has one."""
        query = (
            "SELECT position, points.key, vals, seed, state, reason, figures FROM points "
            "LEFT JOIN rows ON rows.key = points.key ORDER BY position"
        )
        with self._errors():
            for position, key, values, seed, state, reason, figures in self._base.execute(query):
                point = Point(position, tuple(json.loads(values)), seed, key)
                yield point, None if state is None else Row(key, state, reason, figures)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in the block, or nothing.

        Raises:
            OutputError: If it cannot be written, for example to a full disk.
        """
        with self._errors():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._base.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._base.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite and of the disk into messages."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if any(words in str(error) for words in ("not a database", "malformed", "no such table")):
                raise UsageError(f"{self.folder / FILENAME} is damaged or no store of a sweep: {error}") from None
            after = "; what was written before stays, and the same command continues the sweep"
            raise OutputError(f"cannot write {self.folder / FILENAME}: {error}{after}") from error
        except OSError as error:
            raise OutputError(f"cannot write {self.folder}: {error.strerror or error}") from error

    def _take_lock(self) -> None:
        """Make this process the only writer, until it ends in whatever way."""
        if fcntl is None:
            return
        lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        self._opened.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{self.folder}: another sweep writes here; give another folder with --out") from None


def _remedy(write: bool) -> str:
    """What to do about a store that does not fit: another folder to write to, or nothing if it was to be read."""
    return "give another folder with --out, or remove this one" if write else "it cannot be used here"


def _quoted(path: Path) -> str:
    """A path in a URI."""
    return path.resolve().as_posix().replace("%", "%25").replace("?", "%3f").replace("#", "%23")
