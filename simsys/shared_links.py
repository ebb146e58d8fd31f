"""Whether the transfers of a job can meet on links at medium detail, and what becomes of them then.

On links that they do not share, transfers take the time of idle links, which is exact and costs least. So a job is
simulated that way first, while every collective and message is noted with its links and its time. If transfers that
hinder each other have been under way together, the job is simulated again: training with its transfers on the links,
serving with links that are loaded evenly. Serving teams exchange in every one of millions of steps, so whether they
share links is found out beforehand.
"""

from __future__ import annotations

from typing import Any

from simsys.build.job import Job
from simsys.build.serving import ServingJob
from simsys.executors import Links
from simsys.executors.meets import Meets
from simsys.platform.network import Network

SLIGHT = 0.002
"""Of the time of a run: if transfers that hinder each other are together for less, figures change by less."""
SLIGHT_IN_SERVING = 0.02
"""Of the time of transfers of KV caches, which is itself a small part of that of a request."""
MOST_APART = 512
"""Ranks of which each is simulated for itself, where mirrors fall out of step."""


def communicates(job: Job) -> bool:
    """Whether a job may have transfers that meet, beside those of serving teams."""
    return len(job.pools) > 1 if isinstance(job, ServingJob) else job.layout.world_size > 1


def hindered(job: Job, meets: Meets) -> bool:
    """Whether transfers have been under way together so long that the times of idle links are not those of the job."""
    if isinstance(job, ServingJob):
        return meets.together_s > SLIGHT_IN_SERVING * meets.busy_s
    return meets.out_of_step or meets.together_s > SLIGHT * meets.noted_s


def where_hindered(meets: Meets) -> str:
    """Which transfers have been under way together, those that were so longest first."""
    worst = sorted(meets.pairs.items(), key=lambda each: -each[1])[:3]
    named = [f"{one} with {other}" if one != other else f"{one} with each other" for (one, other), _ in worst]
    if meets.out_of_step:
        named.append("groups of ranks that work alike, whose shares of links differ")
    return "; ".join(named)


def links_of_teams(job: ServingJob, network: Network[Any, Any]) -> Links:
    """What becomes of transfers in serving: they load links if teams share some that are too narrow for both."""
    meets = Meets(network, lambda: 0.0)
    for pool in job.pools:
        for replica in range(pool.layout.data):
            for group in pool.teams(replica):
                ring = list(zip(group.ranks, (*group.ranks[1:], group.ranks[0]), strict=True))
                if group.size > 1 and any(narrow for _, narrow in meets.use("team", ring, (0,)).near):
                    return Links.LOADS
    return Links.IDLE
