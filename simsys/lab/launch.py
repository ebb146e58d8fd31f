"""The lab's own launcher: a process for each rank on this machine, watched until all have ended.

Ranks meet on the loopback. If one is lost, the others are ended too, and the run starts again from the last
checkpoint as often as allowed. An interrupt lets the ranks save a checkpoint and end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys import interrupts
from simsys.errors import InfeasibleError, OutputError, SimsysError, TrainingError, UsageError

LOOPBACK = "127.0.0.1"
POLL_S = 0.05
GRACE_S = 5.0
"""Time for further ranks to report their own errors after the first one has ended."""
ENDING_S = 60.0
"""Time for all ranks to end after the first has ended well."""
SAVING_S = 120.0
"""Time for ranks to save a checkpoint after an interrupt."""
PARENT = "SIMSYS_LAB_PARENT"
"""Environment variable: the process that launched this rank, with which it ends."""


@dataclass(frozen=True)
class Rank:
    """A started rank.

    Args:
        index: Its number.
        process: Its process.
    """

    index: int
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class Launch:
    """How ranks are started.

    Args:
        arguments: Arguments of the module.
        ranks: Number of ranks.
        threads: Threads of each.
        folder: Folder of the run, for logs and errors.
        port: TCP port of the meeting point; None for a free one.
        module: What each rank runs.
    """

    arguments: Sequence[str]
    ranks: int
    threads: int
    folder: Path
    port: int | None = None
    module: str = "simsys.lab.worker"

    def run(self) -> None:
        """Run all ranks to their end.

        Raises:
            TrainingError: If a rank is lost.
            SimsysError: What a rank reported.
            KeyboardInterrupt: After an interrupt, when all ranks have saved and ended.
            OutputError: If the folder cannot be written.
        """
        for file in self.folder.glob("error-of-rank-*.json"):
            file.unlink(missing_ok=True)
        port = free_port(self.port)
        with ExitStack() as files:
            started: list[Rank] = []
            try:
                with interrupts.raised():
                    for index in range(self.ranks):
                        started.append(self._start(index, port, files))
                    lost = _first_lost(started)
            except KeyboardInterrupt:
                _let_save(started)
                raise
            finally:
                end_all(started)
        if lost is not None:
            raise self._error_of(lost)

    def _start(self, index: int, port: int, files: ExitStack) -> Rank:
        environment = {
            **os.environ,
            "RANK": str(index),
            "LOCAL_RANK": str(index),
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.ranks),
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": loopback_interface(),
            "OMP_NUM_THREADS": str(self.threads),
            PARENT: str(os.getpid()),
        }
        try:
            log = files.enter_context((self.folder / f"rank-{index}.log").open("ab"))
        except OSError as error:
            raise OutputError(f"cannot write {error.filename}: {error.strerror}") from error
        command = [sys.executable, "-m", self.module, *self.arguments]
        return Rank(index, subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))

    def _error_of(self, lost: Rank) -> SimsysError:
        """What ended a run: the first error that a rank reported, or how the first rank was lost."""
        code = lost.process.returncode
        if code < 0:
            name = signal.Signals(-code).name
            return TrainingError(f"rank {lost.index} was ended by {name}; its output is in {self._log(lost.index)}")
        reports = sorted(self._reports(), key=lambda each: each["time_s"])
        if not reports:
            return TrainingError(f"rank {lost.index} ended with exit code {code}; see {self._log(lost.index)}")
        first = reports[0]
        kinds: dict[int, type[SimsysError]] = {2: UsageError, 3: InfeasibleError, 1: TrainingError}
        if first["kind"] == "OutputError":
            return OutputError(str(first["message"]))
        if first["exit_code"] in kinds:
            return kinds[first["exit_code"]](str(first["message"]))
        return TrainingError(f"rank {first['rank']}: {first['message']}; see {self._log(first['rank'])}")

    def _reports(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for file in self.folder.glob("error-of-rank-*.json"):
            with suppress(OSError, ValueError):
                found.append(json.loads(file.read_text(encoding="utf-8")))
        return found

    def _log(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}.log"


def free_port(wanted: int | None = None) -> int:
    """A TCP port of the loopback: the wanted one, if nothing uses it, or any.

    Raises:
        UsageError: The wanted port is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted or 0))
        except OSError as error:
            raise UsageError(
                f"lab.port: port {wanted} of {LOOPBACK} cannot be used ({error.strerror}); leave it out for a free one"
            ) from error
        return int(probe.getsockname()[1])


def loopback_interface() -> str:
    """Name of the network interface of the loopback."""
    names = [name for _, name in socket.if_nameindex()]
    return "lo" if "lo" in names else "lo0"


def end_all(ranks: Sequence[Rank]) -> None:
    """End the processes of these ranks that still run, and only these."""
    for rank in ranks:
        if rank.process.poll() is None:
            rank.process.kill()
    for rank in ranks:
        rank.process.wait()


def _first_lost(ranks: Sequence[Rank]) -> Rank | None:
    """Wait until all ranks have ended well, or some have not for a while; the first of these."""
    ending_s: float | None = None
    while True:
        codes = [rank.process.poll() for rank in ranks]
        if ending_s is None and 0 in codes:
            ending_s = time.monotonic() + ENDING_S
        if ending_s is not None and time.monotonic() > ending_s:
            end_all(ranks)
            continue
        if any(codes):
            signalled = [rank for rank, code in zip(ranks, codes, strict=True) if (code or 0) < 0]
            lost = (signalled or [rank for rank, code in zip(ranks, codes, strict=True) if code])[0]
            _wait_for(ranks, GRACE_S)
            return lost
        if all(code == 0 for code in codes):
            return None
        time.sleep(POLL_S)


def _wait_for(ranks: Sequence[Rank], seconds: float) -> bool:
    """Wait until all have ended; False if they have not in time."""
    until_s = time.monotonic() + seconds
    while any(rank.process.poll() is None for rank in ranks):
        if time.monotonic() > until_s:
            return False
        time.sleep(POLL_S)
    return True


def _let_save(ranks: Sequence[Rank]) -> None:
    """Let ranks save a checkpoint and end."""
    for rank in ranks:
        if rank.process.poll() is None:
            rank.process.terminate()
    with suppress(KeyboardInterrupt):
        _wait_for(ranks, SAVING_S)
