"""What the collectives of serving teams need of links, known before a run.

Which algorithm carries a collective out depends on its size, and algorithms use different links. So all algorithms
count that a step of any size can choose, from one token to the largest step of the engine.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from simsys.build.serving import ServingJob
from simsys.build.serving_setup import ServingSetup
from simsys.collectives.base import Algorithm, CollectiveKind
from simsys.executors.communicator import Communicator
from simsys.executors.meets import Meets
from simsys.executors.uses import Needs
from simsys.model.batch import Batch
from simsys.parallel.passes import ForwardPass
from simsys.platform.environment import Environment
from simsys.platform.network import Network

Algorithms = dict[tuple[str, CollectiveKind], Algorithm]
"""The algorithms of collectives, by label and kind."""


def team_needs(job: ServingJob, network: Network[Any, Any]) -> Iterator[Needs]:
    """For each team of several ranks, the largest share of every link that one of its collectives needs.

    Args:
        job: The scenario.
        network: Its links.
    """
    meets = Meets(network, lambda: 0.0)
    chosen: dict[tuple[Hashable, ...], Algorithms] = {}
    for place, pool in enumerate(job.pools):
        choose = pool.execution_model().algorithm
        for replica in range(pool.layout.data):
            for stage, team in enumerate(pool.teams(replica)):
                if team.size == 1:
                    continue
                communicator = Communicator(team, team.size, network, choose, Environment())
                key = place, stage, network.signature(team.ranks)
                if key not in chosen:
                    chosen[key] = _algorithms(pool, stage, communicator)
                yield _needs(communicator, chosen[key], meets)


def _needs(communicator: Communicator, algorithms: Algorithms, meets: Meets) -> Needs:
    most: Needs = {}
    for (_, kind), algorithm in algorithms.items():
        needs, _ = meets.needs_of_steps(communicator.links.transfers(algorithm, kind))
        most.update({link: max(need, most.get(link, 0.0)) for link, need in needs.items()})
    return most


def _algorithms(pool: ServingSetup, stage: int, communicator: Communicator) -> Algorithms:
    """The algorithms that the collectives of a team can choose."""
    passes = [pool.stages[stage], *([pool.draft] if pool.draft is not None else [])]
    found: Algorithms = {}
    for kind, nbytes in dict.fromkeys(each for plan in passes for each in _collectives(pool, plan)):
        algorithm = communicator.algorithm(kind, nbytes)
        found[algorithm.label, kind] = algorithm
    return found


def _collectives(pool: ServingSetup, plan: ForwardPass) -> Iterator[tuple[CollectiveKind, float]]:
    """Kind and bytes of the collectives of steps whose sizes are powers of two, up to the largest."""
    exchanges = {segment.exchange: None for stretch in plan.stretches for segment in stretch.segments}
    for batch in _batches(pool):
        for exchange in exchanges:
            if exchange is not None:
                yield exchange.kind, exchange.nbytes(batch, pool.precision.activation_bytes)


def _batches(pool: ServingSetup) -> Iterator[Batch]:
    settings = pool.settings
    most, sequences = settings.max_num_batched_tokens, settings.max_num_seqs * (1 + settings.drafted)
    for power in range((most - 1).bit_length() + 1):
        tokens = float(min(2**power, most))
        yield Batch(tokens=tokens, logits=min(tokens, float(sequences)))
