"""Small serving workloads and engines by chance, in which blocks, sequences and tokens all run out."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

from frameworks.central_queue import CentralQueue
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.orca import Orca
from frameworks.prefill_first import PrefillFirst
from frameworks.priority import Priority
from frameworks.random import Random
from frameworks.round_robin import RoundRobin
from frameworks.shortest_job_first import ShortestJobFirst
from frameworks.static_batching import StaticBatching
from frameworks.vllm_v0 import VLLMv0
from simsys.serving.requests import RequestTable
from simsys.serving.selection import with_attempts
from tests.helpers.reference_serving import Limits
from tests.helpers.weighted_fair_queueing import WeightedFairQueueing

POLICIES = (
    *(ChunkedPrefill, Orca, PrefillFirst, Priority, ShortestJobFirst, StaticBatching),
    *(VLLMv0, WeightedFairQueueing),
)
ROUTERS = (CentralQueue, LeastKV, LeastOutstanding, Random, RoundRobin)


def workload(rng: random.Random) -> RequestTable:
    """Up to 40 requests of three tenants and priorities; some after others have ended, or only so many at once."""
    count = rng.randint(1, 40)
    gap_s = rng.choice([1e-6, 1e-5, 1e-4, 1e-3])
    longest = rng.choice([1, 4, 60])
    table = RequestTable(
        sorted(rng.choice([0.0, rng.random() * count * gap_s]) for _ in range(count)),
        [rng.randint(1, rng.choice([2, 40, 90])) for _ in range(count)],
        [rng.randint(1, longest) for _ in range(count)],
        priority=[rng.randint(0, 2) for _ in range(count)],
        tenant=[rng.randint(0, 2) for _ in range(count)],
    )
    kind = rng.choice(["open", "sessions", "closed"])
    if kind == "sessions":
        after = [rng.choice([-1, rng.randrange(place)]) if place else -1 for place in range(count)]
        return replace(table, after=after, think_s=[rng.choice([0.0, rng.random() * gap_s]) for _ in range(count)])
    return replace(table, concurrency=rng.randint(1, 6)) if kind == "closed" else table


def impatient(rng: random.Random, requests: RequestTable) -> RequestTable:
    """The requests, of clients that give up: after time-outs of their own or of all, with enough tokens, and again."""
    short_s = rng.choice([1e-5, 1e-4, 1e-3])
    requests = replace(
        requests,
        ttft_timeout_s=rng.choice([inf, short_s * rng.uniform(0.5, 2.0)]),
        timeout_s=rng.choice([inf, 10 * short_s * rng.uniform(0.5, 2.0)]),
        cancel_s=[rng.choice([inf, rng.expovariate(0.2 / short_s)]) for _ in requests.arrival_s],
        cancel_tokens=[rng.choice([0, rng.randint(1, 20)]) for _ in requests.arrival_s],
    )
    if requests.after:
        joins = [rng.sample(range(place), min(place, rng.choice([0, 0, 1, 2]))) for place in range(len(requests))]
        pairs = zip(joins, requests.after, strict=True)
        requests = replace(
            requests, joins=[tuple(set(others) - {before}) if before >= 0 else () for others, before in pairs]
        )
    retries = rng.choice([0, 0, 1, 3])
    if not retries:
        return requests
    return with_attempts(requests, retries, [rng.random() * short_s for _ in range(retries * len(requests))])


def limits(rng: random.Random) -> Limits:
    """Small caches and batches, so that blocks, sequences and tokens all run out."""
    block_size, seqs = rng.choice([1, 2, 4, 16]), rng.randint(1, 12)
    return Limits(
        num_blocks=rng.randint(1, max(2, rng.choice([120, 1200]) // block_size)),
        block_size=block_size,
        max_num_seqs=seqs,
        max_num_batched_tokens=seqs + rng.choice([0, 1, 7, 30, 100]),
        long_prefill_token_threshold=rng.choice([0, 0, 1, 3, 8]),
        max_context_tokens=rng.choice([0, 50]),
        reserves_prompts=seqs % 2 == 0,
    )


def shared(rng: random.Random, requests: RequestTable) -> RequestTable:
    """The requests with prompts that begin alike, by blocks of 4 tokens."""
    ids = [tuple(range(rng.randint(0, tokens // 4))) for tokens in requests.prompt_tokens]
    return replace(requests, hash_ids=ids, hash_block_tokens=4)
