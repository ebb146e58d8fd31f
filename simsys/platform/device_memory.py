"""Device memory: named allocations, use, peak, and errors if it runs out."""

from __future__ import annotations

import math

from simsys.errors import InternalError, OutOfMemoryError, UsageError
from simsys.units import Dimension, pretty


class DeviceMemory:
    """The memory of one device.

    Args:
        capacity_bytes: Bytes that can be allocated.
        name: Named in errors, such as ``GPU 3``.
    """

    def __init__(self, capacity_bytes: float, name: str = "device") -> None:
        self.capacity_bytes = capacity_bytes
        self.name = name
        self.in_use_bytes = 0
        self.peak_bytes = 0
        self.most_bytes = 0
        """The peak over all jobs on the device."""
        self._held: dict[str, int] = {}
        self._held_at_peak: dict[str, int] = {}

    @property
    def held(self) -> dict[str, int]:
        """Bytes in use by name, in order of allocation."""
        return dict(self._held)

    @property
    def held_at_peak(self) -> dict[str, int]:
        """Bytes in use by name when the peak was first reached."""
        return dict(self._held_at_peak)

    def allocate(self, name: str, nbytes: float) -> None:
        """Allocate memory; bytes of the same name add up. Fractions of a byte are rounded up.

        Raises:
            OutOfMemoryError: If they do not fit; the message lists the largest allocations.
            UsageError: If `nbytes` is negative or not finite.
        """
        if not 0.0 <= nbytes < math.inf:
            raise UsageError(f"{self.name}: {name} needs a size that is finite and not negative, not {nbytes!r}")
        whole = math.ceil(nbytes)  # so that sums are exact
        in_use_bytes = self.in_use_bytes + whole
        if in_use_bytes > self.capacity_bytes:
            raise OutOfMemoryError(self._shortage(name, whole))
        self._held[name] = self._held.get(name, 0) + whole
        self.in_use_bytes = in_use_bytes
        if in_use_bytes > self.peak_bytes:
            self.peak_bytes = in_use_bytes
            self.most_bytes = max(self.most_bytes, in_use_bytes)
            self._held_at_peak = dict(self._held)

    def clear(self) -> None:
        """Empty it for the next job."""
        self.in_use_bytes = self.peak_bytes = 0
        self._held, self._held_at_peak = {}, {}

    def free(self, name: str, nbytes: float | None = None) -> int:
        """Free `nbytes`, or all bytes, of a name; return their number.

        Raises:
            InternalError: If the name holds fewer bytes.
        """
        held = self._held.get(name)
        if held is None:
            raise InternalError(f"{self.name}: there is no allocation {name!r}")
        whole = held if nbytes is None else math.ceil(nbytes)
        if whole > held:
            raise InternalError(f"{self.name}: {whole} bytes of {name!r} cannot be given back, it holds {held}")
        if whole == held:
            del self._held[name]
        else:
            self._held[name] = held - whole
        self.in_use_bytes -= whole
        return whole

    def _shortage(self, allocation_id: str, nbytes: float) -> str:
        def size(value: float) -> str:
            return pretty(value, Dimension.BYTES)

        largest = sorted(self._held.items(), key=lambda item: -item[1])[:4]
        held = ", ".join(f"{name} {size(held)}" for name, held in largest) or "nothing"
        return (
            f"{self.name} is out of memory: {allocation_id} needs {size(nbytes)}, "
            f"{size(self.capacity_bytes - self.in_use_bytes)} of {size(self.capacity_bytes)} are free (held: {held})"
        )
