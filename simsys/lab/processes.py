"""One rank of a real run: its device, its process group, and when all ranks stop together."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist

from simsys.config.lab import LabConfig
from simsys.errors import InfeasibleError
from simsys.interrupts import INTERRUPTED
from simsys.lab.launch import PARENT

SET_PARENT_DEATH_SIGNAL = 1
"""Linux, prctl(2): PR_SET_PDEATHSIG."""
REQUESTED, LAST = "lab/stop requested", "lab/last iteration"
"""Keys of the store: some rank wants to stop; the iteration after which all ranks do."""


def device_of(lab: LabConfig, local_rank: int = 0) -> torch.device:
    """The device of a rank.

    Raises:
        InfeasibleError: There is no such GPU.
    """
    cuda = torch.cuda.is_available()
    if lab.device == "cpu" or (lab.device == "auto" and not cuda):
        return torch.device("cpu")
    count = torch.cuda.device_count() if cuda else 0
    if local_rank >= count:
        raise InfeasibleError(f"rank {local_rank} needs a CUDA device of its own; there are {count}", "lab.device")
    return torch.device("cuda", local_rank)


class Ranks:
    """The ranks of a run, as one of them sees it; they meet as the environment says, as torchrun and the lab set it.

    Args:
        lab: Settings of devices and timeouts.
    """

    def __init__(self, lab: LabConfig) -> None:
        self.rank, self.world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.device = device_of(lab, int(os.environ.get("LOCAL_RANK", "0")))
        self._wants_to_stop, self._store = False, None
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self.world_size > 1:
            timeout = timedelta(seconds=lab.timeout)
            self._store, _, _ = next(dist.rendezvous("env://", timeout=timeout))
            dist.init_process_group(
                "nccl" if self.device.type == "cuda" else "gloo",
                store=self._store,
                rank=self.rank,
                world_size=self.world_size,
                timeout=timeout,
            )

    def stop_on_signal(self) -> None:
        """Let SIGTERM stop all ranks after one of the next iterations; interrupts from the keyboard are ignored."""
        signal.signal(signal.SIGTERM, self._signalled)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._wants_to_stop = True

    def begins(self, iteration: int) -> None:
        """Call before an iteration: the first rank decides whether it is the last one.

        It decides before it takes part in any collective of the iteration, so all ranks know when the iteration ends.
        """
        if self._store is None:
            return
        if self._wants_to_stop:
            self._store.set(REQUESTED, "1")
        if self.rank == 0 and self._store.check([REQUESTED]) and not self._store.check([LAST]):
            self._store.set(LAST, str(iteration))

    def stops_after(self, iteration: int) -> bool:
        """Whether all ranks stop after an iteration that has just ended."""
        if self._store is None:
            return self._wants_to_stop
        return bool(self._store.check([LAST])) and iteration >= int(self._store.get(LAST))

    def leave(self) -> None:
        """Wait until all ranks have come here; the end of the process then ends its process group.

        Destroying the group can wait forever for one of its threads.
        """
        if self.world_size > 1:
            dist.barrier()


def end_with_launcher() -> None:
    """End this process if the one that launched it ends."""
    launcher = int(os.environ.get(PARENT, "0"))
    if launcher:
        if sys.platform == "linux":  # also where a library waits and lets no thread of Python run
            ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        threading.Thread(target=_watch, args=(launcher,), daemon=True).start()


def _watch(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(0.5)
    os._exit(INTERRUPTED)
