"""Contention between transfers of a job at medium detail: detection and treatment.

Uncontended transfers have the time of idle links, which is exact and cheap. So training is first simulated in this
way, and every collective and message is recorded with its links and times. If transfers contend, training is simulated
again with its transfers on the links. Serving teams communicate in every one of millions of steps, and KV caches are
sent at any time. So their contention is determined in advance from routes; shared links are loaded evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any

from simsys.build.serving import ServingJob
from simsys.executors import Links
from simsys.executors.meets import Meets
from simsys.executors.uses import FULL, Needs
from simsys.ops import Transfer
from simsys.platform.network import Network, Pairs
from simsys.team_needs import team_needs

SLIGHT = 0.002
"""Of the time of a run: if transfers that hinder each other are together for less, figures change by less."""
SHIFTED = 1.03
"""Slow-down relative to idle links from which further transfers may be concurrent."""
SLIGHT_MESSAGES = 0.01
"""Of the time of a run: if stages of a pipeline hand something on for less, latencies change by about as little."""
MOST_APART = 512
"""Limit of processes for distinguished ranks, if mirrors get out of step."""
MIRRORS_DOUBT = 0.1
"""By how much iteration times are off at most where mirrors out of step are simulated as one; random scenarios of up
to 32 GPUs simulated so were off by 5.5 % at most (`tests/agreement/test_agreement.py`)."""
UNEVEN_DOUBT = 0.15
"""By how much iteration times are off at most where other jobs meet mirrors unevenly that are simulated as one, and
single iterations where links serve in turn; random shared clusters were off by 13 and 14 % at most."""
MOST_HANDED_OVER = 4096
"""Limit of pairs of replicas with transfers of requests whose links are checked."""


def hindered(meets: Meets) -> bool:
    """True if concurrent transfers make the times of idle links wrong for the job."""
    return meets.out_of_step is not None or meets.together_s > SLIGHT * meets.noted_s


def left_out(meets: Meets) -> str:
    """The warning about concurrent transfers with the time of idle links; empty if none."""
    if not hindered(meets):
        return ""
    worst = sorted(meets.pairs, key=lambda names: -meets.pairs[names])[:3]
    named = [f"{one} with {other}" if one != other else f"{one} with each other" for one, other in worst]
    if meets.out_of_step is not None:
        named.append(f"groups of {meets.out_of_step.name} with each other")
    doubt = max(MIRRORS_DOUBT, min(1.0, meets.together_s / meets.noted_s))
    return (
        f"occupy_links: false neglects contention on links, most of all {meets.narrowest()} "
        f"({'; '.join(dict.fromkeys(named))}); iterations may take up to {doubt:.0%} longer; "
        "occupy_links: auto counts it"
    )


def out_of_step(meets: Meets) -> str:
    """The warning that groups are simulated as one although they have different shares of links."""
    assert meets.out_of_step is not None
    return (
        f"groups of {meets.out_of_step.name} have unequal shares of links, most of all {meets.narrowest()}; there are "
        f"more than {MOST_APART} kinds of ranks, so lod: medium simulates one group for all, and iteration times may "
        f"be off by up to {MIRRORS_DOUBT:.0%}; lod: high simulates every rank"
    )


def left_out_in_serving(job: ServingJob, network: Network[Any, Any], *, messages: bool = False) -> str:
    """The warning about transfers that can contend but have the time of idle links; empty if none can.

    Args:
        job: The scenario.
        network: Its links.
        messages: True if messages between pipeline stages can contend and are large.
    """
    links = links_of_serving(job, network)
    if links is Links.IDLE and not messages:
        return ""
    teams = "teams of ranks, and KV caches that are handed over,"
    stages = "hidden states that stages of pipelines hand on"
    who = {Links.LOADS: teams, Links.STEPS: "KV caches that meet", Links.IDLE: stages}[links]
    return (
        f"occupy_links: false leaves out that {who} slow each other on links that they share; latencies may be higher "
        "by an unknown amount; occupy_links: auto counts it"
    )


def links_of_serving(job: ServingJob, network: Network[Any, Any]) -> Links:
    """What becomes of transfers in serving, from the links that teams and KV caches need.

    Teams that can meet on links too narrow for them load these evenly, and so do KV caches that can meet teams there.
    Where KV caches can meet each other only, they are carried out on the links.
    """
    teams = list(team_needs(job, network))
    if _meet_each_other(network, teams):
        return Links.LOADS
    if len(job.pools) == 1:
        return Links.IDLE
    if not teams:
        return Links.STEPS
    needs = Meets(network, lambda: 0.0).needs
    many = _pairs_of_replicas(job) > MOST_HANDED_OVER
    return Links.LOADS if many or _meet(network, teams, map(needs, _handed_over(job))) else Links.STEPS


def messages_can_meet(job: ServingJob, network: Network[Any, Any]) -> bool:
    """Whether hidden states that stages hand on, with what teams send, need more of a link than there is."""
    meets = Meets(network, lambda: 0.0)
    boundaries = (
        list(zip(here.ranks, there.ranks, strict=True))
        for pool in job.pools
        for replica in range(pool.layout.data)
        for here, there in pairwise(pool.teams(replica))
    )
    return _meet_each_other(network, [*team_needs(job, network), *(meets.needs(pairs) for pairs in boundaries)])


def _pairs_of_replicas(job: ServingJob) -> int:
    return sum(one.layout.data * other.layout.data for one, other in pairwise(job.pools))


def _handed_over(job: ServingJob) -> Iterator[Pairs]:
    """Bytes sent when a replica of one pool transfers a request to the next pool, by stage."""
    for one, other in pairwise(job.pools):
        for source, target in product(range(one.layout.data), range(other.layout.data)):
            for here, there in zip(one.teams(source), other.teams(target), strict=True):
                yield Transfer(here, there, 1.0, "").pairs


def _meet_each_other(network: Network[Any, Any], some: Iterable[Needs]) -> bool:
    """Whether some together need more of a link than there is, or two of them the same one that serves in turn."""
    in_all = Needs()
    for needs in some:
        if _exceeds(network, in_all, needs):
            return True
        _add(in_all, needs)
    return False


def _meet(network: Network[Any, Any], some: Sequence[Needs], others: Iterable[Needs]) -> bool:
    """Whether one of others needs more of a link than some together leave."""
    in_all = Needs()
    for needs in some:
        _add(in_all, needs)
    return any(_exceeds(network, in_all, needs) for needs in others)


def _exceeds(network: Network[Any, Any], in_all: Needs, needs: Needs) -> bool:
    return any(link in in_all and (network.in_turn or in_all[link] + need > FULL) for link, need in needs.items())


def _add(in_all: Needs, needs: Needs) -> None:
    for link, need in needs.items():
        in_all[link] = in_all.get(link, 0.0) + need
