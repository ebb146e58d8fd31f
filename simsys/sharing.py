"""Contention between training jobs: transfers on shared links, and distinguished ranks.

One process represents all ranks of a role. Other jobs may contend with only some ranks of a role. Then ranks are
distinguished by contention (`simsys.executors.link_classes`). If this needs too many processes, roles stay as they
are, with a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from simsys.build.training import TrainingJob
from simsys.executors import Executor
from simsys.executors.link_classes import rank_classes
from simsys.executors.meets import Meets
from simsys.executors.other_jobs import Users, able_to_meet, exchanges, mirrored, most_loaded, sharing_mirrors
from simsys.shared_links import MOST_APART, SLIGHT, UNEVEN_DOUBT, hindered


class SharedTransfers(NamedTuple):
    """Transfers of a job on shared links.

    Args:
        carried: Groups with transfers on links (`SelectedSteps.carried`); None for all.
        alone: True if no transfer contends with other jobs.
        rank_classes: As in `TrainingJob`.
        doubt: A warning if other jobs on its links make its times inexact; else empty.
    """

    carried: Users | None
    alone: bool
    rank_classes: tuple[int, ...] = ()
    doubt: str = ""


class IdleJob(NamedTuple):
    """A training job that was simulated on idle links.

    Args:
        job: The job.
        executor: Its executor.
    """

    job: TrainingJob
    executor: Executor

    @property
    def meets(self) -> Meets:
        """What its transfers need of links."""
        return self.executor.idle.meets

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks of the job."""
        return tuple(range(self.job.layout.world_size))

    def roles(self) -> tuple[int, ...]:
        """For each rank, the one that ran a process for it."""
        leader = {rank: first for first, ranks in self.executor.stands_for.items() for rank in ranks}
        return tuple(leader[rank] for rank in self.ranks)


def shared_by(jobs: Mapping[int, IdleJob], near: Mapping[int, Collection[int]]) -> dict[int, SharedTransfers]:
    """Jobs that would lose time to other jobs on links.

    Args:
        jobs: All jobs, by their numbers.
        near: For each job, other jobs that may run at the same time.
    """
    others = {index: [jobs[other].meets for other in near[index]] for index in jobs}
    meeting = {index: able_to_meet(each.meets, others[index]) for index, each in jobs.items()}
    shared = {index: each for index, each in jobs.items() if meeting[index] or hindered(each.meets)}
    carried, apart = _carried_and_apart(shared, meeting)
    found = {}
    for index, each in shared.items():
        users = _with_stand_ins(each.meets, carried[index])
        fits = affordable(each.job, apart[index])
        found[index] = SharedTransfers(
            carried=None if each.meets.in_turn else users,
            alone=not meeting[index],
            rank_classes=apart[index] if fits else (),
            doubt=_doubt(each.meets, others[index], fits=fits) if meeting[index] or not fits else "",
        )
    return found


def _carried_and_apart(
    jobs: Mapping[int, IdleJob], meeting: Mapping[int, set[tuple[int, ...]]]
) -> tuple[dict[int, Users], dict[int, tuple[int, ...]]]:
    """For each job, groups with transfers on shared links, and numbers that distinguish its ranks (`rank_classes`)."""
    carried: dict[int, Users] = {
        index: meeting[index] | each.meets.able(SLIGHT * each.meets.noted_s) for index, each in jobs.items()
    }
    apart = distinguished_ranks(jobs, carried)
    if any(apart.values()):  # distinguished mirrors can slow each other down, too
        for index, each in jobs.items():
            if apart[index]:
                carried[index] = {*carried[index], *sharing_mirrors(each.meets)}
        apart = distinguished_ranks(jobs, carried)
    return carried, apart


def distinguished_ranks(jobs: Mapping[int, IdleJob], carried: Mapping[int, Users]) -> dict[int, tuple[int, ...]]:
    """For each job, numbers that distinguish ranks of one role (`TrainingJob.rank_classes`); none if not needed.

    On FIFO links, one of several equal concurrent transfers is first. So all ranks are distinguished there.

    Args:
        jobs: The jobs, by their numbers.
        carried: Groups with transfers on shared links, mirrors separately.
    """
    if any(each.meets.in_turn for each in jobs.values()):
        return {index: each.ranks if mirrored(each.meets, carried[index]) else () for index, each in jobs.items()}
    if not any(mirrored(each.meets, carried[index]) for index, each in jobs.items()):
        return dict.fromkeys(jobs, ())
    roles = {index: each.roles() for index, each in jobs.items()}
    sent = [found for index, each in jobs.items() for found in exchanges(each.meets, index, carried[index])]
    figures = next(iter(jobs.values())).executor.platform.network.figures
    classes = rank_classes(roles, sent, figures)
    return {index: own if len(set(own)) > len(set(roles[index])) else () for index, own in classes.items()}


def affordable(job: TrainingJob, apart: tuple[int, ...]) -> bool:
    """True if a job may be simulated with distinguished ranks."""
    return not apart or len(replace(job, rank_classes=apart).roles()) <= MOST_APART


def _with_stand_ins(meets: Meets, carried: Users) -> Users:
    """Users, and the simulated one of each that is carried for a mirror."""
    stand_ins = {use.user for use in meets.uses if any(user in carried for _, user in use.mirrored())}
    return {*carried, *stand_ins}


def _doubt(meets: Meets, others: Sequence[Meets], *, fits: bool) -> str:
    """The warning that times on links which other jobs use too are in doubt; empty if they are not."""
    link = most_loaded(meets, others)
    if not fits:
        return (
            f"other jobs share links with some of its groups only, most of all {link}; there are more than "
            f"{MOST_APART} kinds of ranks, so lod: medium simulates one group for all, and iteration times may be off "
            f"by up to {UNEVEN_DOUBT:.0%}; lod: high simulates every rank"
        )
    if meets.in_turn:
        return (
            f"other jobs share links, most of all {link}, which serve whole messages in turn (contention: fifo); "
            f"waits depend on exact times, so single iterations may differ by up to {UNEVEN_DOUBT:.0%}; "
            "lod: high carries out every transfer"
        )
    return ""
