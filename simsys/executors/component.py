"""Common parts of all components of an executor."""

from __future__ import annotations

from simsys.executors.core import Core


class Component:
    """A component of an executor: a way to compute, to communicate, to pass batches through models or to run programs.

    Args:
        core: The services that all components share.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.platform, self.env, self.probes, self.own = core.platform, core.env, core.probes, core.own
        self.model, self.compute_speed, self.images, self.mail = core.model, core.compute_speed, core.images, core.mail
        self.idle = core.idle
        # Bound once, since they are called for every operation.
        self.now, self.start, self.members = core.now, core.start, core.members
        self.communicator, self.pass_cost = core.communicator, core.pass_cost
