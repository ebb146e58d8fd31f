"""The experiment file's `scheduling`: the batch system of a cluster that several jobs share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from simsys.config.base import FrozenModel

Placement = Literal["packed", "spread", "random"]


class SchedulingConfig(FrozenModel):
    """The batch system: order of the jobs in the `queue`, and `placement` of a job on GPUs.

    ``fifo`` keeps the order of arrival; ``backfill`` lets a short job overtake if it delays no other job; ``priority``
    serves the highest priority first. ``packed`` uses the fewest nodes, ``spread`` the most, ``random`` a random
    choice of GPUs.
    """

    queue: Literal["fifo", "backfill", "priority"] = Field(
        default="fifo",
        description="Order of jobs: fifo, backfill (short jobs overtake if they delay none), or priority",
    )
    placement: Placement = Field(
        default="packed", description="GPUs of a job: on the fewest nodes (packed), on the most (spread), or at random"
    )
