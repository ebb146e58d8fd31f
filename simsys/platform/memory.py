"""Device memory: named allocations, what is in use, the peak, and running out."""

from __future__ import annotations

import math

from simsys.errors import InternalError, OutOfMemoryError, UsageError
from simsys.units import Dimension, pretty


class DeviceMemory:
    """The memory of one device.

    Args:
        capacity_bytes: What can be allocated.
        name: Named in errors, such as ``GPU 3``.
    """

    def __init__(self, capacity_bytes: float, name: str = "device") -> None:
        self.capacity_bytes = capacity_bytes
        self.name = name
        self.in_use_bytes = 0.0
        self.peak_bytes = 0.0
        self._allocations: dict[str, float] = {}

    @property
    def allocations(self) -> dict[str, float]:
        """Bytes by allocation id, in order of allocation."""
        return dict(self._allocations)

    def allocate(self, allocation_id: str, nbytes: float) -> None:
        """Reserve `nbytes` under a name.

        Raises:
            OutOfMemoryError: If they do not fit; the message lists the largest allocations.
            InternalError: If the name is in use.
            UsageError: If `nbytes` is negative or not finite.
        """
        if not 0.0 <= nbytes < math.inf:
            raise UsageError(
                f"{self.name}: {allocation_id} needs a size that is finite and not negative, not {nbytes!r}"
            )
        if allocation_id in self._allocations:
            raise InternalError(f"{self.name}: allocation {allocation_id!r} exists already")
        # Summed anew at every change: adding and subtracting would leave rounding behind.
        needed_bytes = math.fsum((*self._allocations.values(), nbytes))
        if needed_bytes > self.capacity_bytes:
            raise OutOfMemoryError(self._shortage(allocation_id, nbytes))
        self._allocations[allocation_id] = nbytes
        self.in_use_bytes = needed_bytes
        self.peak_bytes = max(self.peak_bytes, self.in_use_bytes)

    def free(self, allocation_id: str) -> float:
        """Release an allocation and return its size in bytes.

        Raises:
            InternalError: If there is no such allocation.
        """
        if allocation_id not in self._allocations:
            raise InternalError(f"{self.name}: there is no allocation {allocation_id!r}")
        nbytes = self._allocations.pop(allocation_id)
        self.in_use_bytes = math.fsum(self._allocations.values())
        return nbytes

    def _shortage(self, allocation_id: str, nbytes: float) -> str:
        def size(value: float) -> str:
            return pretty(value, Dimension.BYTES)

        largest = sorted(self._allocations.items(), key=lambda item: -item[1])[:4]
        held = ", ".join(f"{name} {size(held)}" for name, held in largest) or "nothing"
        return (
            f"{self.name} is out of memory: {allocation_id} needs {size(nbytes)}, "
            f"{size(self.capacity_bytes - self.in_use_bytes)} of {size(self.capacity_bytes)} are free (held: {held})"
        )
