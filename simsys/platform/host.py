"""Work of a GPU's host: copies over PCIe in both directions, and updates in host memory."""

from __future__ import annotations

from simsys.errors import InfeasibleError
from simsys.ops import HostChannel
from simsys.platform.device_spec import DeviceSpec
from simsys.platform.server import CalendarServer


class HostLane(CalendarServer):
    """One channel of a GPU to its host, not shared: work is executed in order.

    Args:
        latency_s: Latency of each piece of work.
        bytes_per_s: Bandwidth; 0 if unknown.
        name: Name for messages.
    """

    __slots__ = ("bytes_per_s", "latency_s", "name", "nbytes")

    def __init__(self, latency_s: float, bytes_per_s: float, name: str) -> None:
        super().__init__()
        self.latency_s = latency_s
        self.bytes_per_s = bytes_per_s
        self.name = name
        self.nbytes = 0.0
        """Bytes carried so far."""

    def seconds(self, nbytes: float) -> float:
        """The duration of a number of bytes.

        Raises:
            InfeasibleError: If the bandwidth is not known.
        """
        if not self.bytes_per_s:
            message = f"{self.name}: its bandwidth is not known; write it into the hardware profile"
            raise InfeasibleError(message, "hardware")
        return self.latency_s + nbytes / self.bytes_per_s

    def carry(self, ready_s: float, nbytes: float) -> tuple[float, float]:
        """Queue work that can begin at `ready_s`; return its start and end (s). Raises as `seconds`."""
        service_s = self.seconds(nbytes)
        self.nbytes += nbytes
        end_s = self.reserve(ready_s, service_s)
        return end_s - service_s, end_s


def host_lanes(spec: DeviceSpec, name: str) -> dict[HostChannel, HostLane]:
    """The channels between one GPU and its host.

    Args:
        spec: The GPU, with its share of the host.
        name: The GPU's name in messages.
    """
    pcie = spec.pcie_latency_s, spec.pcie_bytes_per_s
    return {
        HostChannel.TO_HOST: HostLane(*pcie, f"{name} to its host"),
        HostChannel.FROM_HOST: HostLane(*pcie, f"{name} from its host"),
        HostChannel.UPDATE: HostLane(0.0, spec.host_update_bytes_per_s, f"updates on the host of {name}"),
    }
