"""The public platform: virtual hardware from a profile, for SimPy processes of one's own."""

from __future__ import annotations

from typing import Any, Self

import simpy

from simsys.build.cluster import build_cluster
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.config.validation import validate
from simsys.platform.platform import Platform


class VirtualHardwarePlatform(Platform):
    """A `Platform` that can be built from a hardware profile; same arguments.

    Examples:
        >>> import simpy
        >>> from simsys import VirtualHardwarePlatform
        >>> env = simpy.Environment()
        >>> platform = VirtualHardwarePlatform.from_profile("dgx-h100", nodes=2, env=env)
        >>> len(platform.devices)
        16
        >>> env.run(platform.submit_computation_task(0, seconds=lambda start_s: 0.25))
        >>> env.now
        0.25
    """

    @classmethod
    def from_profile(
        cls,
        profile: str | dict[str, Any],
        nodes: int = 1,
        env: simpy.Environment | None = None,
        network: dict[str, Any] | None = None,
    ) -> Self:
        """Build equal nodes and what joins them.

        Args:
            profile: Name of a node profile, such as ``dgx-h100`` (`simsys list nodes` prints them), or its settings.
            nodes: How many nodes.
            env: The environment, which may be a plain one; a new one of simsys if left out.
            network: Settings as in the section ``network`` of an experiment file. Other than there, ``contention`` is
                ``fifo`` if left out, so that links have turns to request.

        Raises:
            ConfigError: If the settings do not fit the schema.
            UnknownNameError: If there is no such profile.
            UsageError: If the topology cannot be built.
        """
        hardware = validate({"profile": profile, "num_nodes": nodes}, HardwareConfig)
        settings = validate({"contention": "fifo", **(network or {})}, NetworkConfig)
        cluster = build_cluster(hardware, settings)
        return cls(cluster.specs, cluster.topology, env, cluster.network, speeds=cluster.speeds, links=cluster.links)
