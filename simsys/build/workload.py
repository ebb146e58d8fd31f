"""From the description of a workload to its requests."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, groupby, takewhile
from pathlib import Path
from typing import Any

from simsys.build.cancellation import with_cancellation
from simsys.build.distributions import draw_arrivals, draw_lengths, draw_times, draw_uniform, draw_weighted
from simsys.build.images import draw_images
from simsys.build.session_turns import (
    between_turns,
    lengths_of,
    prefixes_of,
    returned_of,
    thoughts_of,
    with_agents,
    with_shared_contexts,
    with_thoughts,
)
from simsys.config.arrivals import ClosedLoopArrivals
from simsys.config.workload import TraceConfig, WorkloadConfig
from simsys.errors import TraceError, UsageError
from simsys.input_files import path_from
from simsys.serving.conversations import block_ids, turn_columns, whole_prompts
from simsys.serving.requests import RequestTable
from simsys.serving.selection import delayed, repeated, select
from simsys.serving.traces import read_trace
from simsys.units import Dimension, pretty


def build_requests(workload: WorkloadConfig, seed: int, base_folder: Path) -> RequestTable:
    """Draw or read the requests of a workload.

    Each column has its own random stream, so changing one distribution does not change the other columns, and the
    first n requests do not depend on `num_requests`.

    Args:
        workload: The settings of the workload.
        seed: The seed of the scenario.
        base_folder: Folder from which a relative path of a trace starts: the folder of the experiment file.

    Raises:
        TraceError: If the trace cannot be read or has fewer requests than `num_requests`.
        UsageError: If a rate is so low that arrival times overflow or no request arrives in time, or if the number of
            requests is not determined.
    """
    if workload.missing:
        raise UsageError(workload.missing)
    if workload.trace is None:
        table = _drawn(workload, seed, base_folder)
    else:
        table = _traced(workload, workload.trace, seed, base_folder)
    table = _belonging(workload, table, seed)
    if workload.images is not None:
        if table.session:
            raise UsageError("images in conversations are not modelled; use a trace of lone requests, or no images")
        table = replace(table, images=draw_images(workload.images, len(table), seed, base_folder))
    if workload.cancellation is None:
        return table
    return with_cancellation(workload.cancellation, table, seed, base_folder)


def _drawn(workload: WorkloadConfig, seed: int, folder: Path) -> RequestTable:
    """Requests without a trace; later turns have the `arrival_s` of the first turn."""
    most = workload.num_requests or workload.most_requests
    if workload.num_requests is None and workload.expected_requests > most:
        raise _too_many(workload)
    starts = _in_time(workload, draw_arrivals(workload.arrivals, most, workload.duration or math.inf, seed))
    sessions = workload.sessions
    turns = [1] * len(starts)
    if sessions is not None:
        turns = draw_lengths(sessions.turns, len(starts), seed, "sessions.turns", folder)
        if workload.num_requests is None and (all_turns := sum(turns)) > most:
            advice = f"at most {most:,} are simulated, so give fewer turns, or num_requests"
            raise UsageError(f"conversations have {all_turns:,} turns in all; {advice}")
        turns = _cut(turns, most)
    if sessions is not None and sessions.branches is not None:
        return with_agents(workload, sessions, starts, turns, seed, folder)
    count = sum(turns)
    first = [True] * count
    if sessions is not None:
        first = [place == 0 for size in turns for place in range(size)]
    prompts, outputs = lengths_of(workload, first, seed, folder)
    thoughts = thoughts_of(workload, count, seed, folder)
    if sessions is None and workload.prefixes is None:
        return with_thoughts(workload, RequestTable(starts, prompts, outputs), thoughts)
    groups, group_tokens = prefixes_of(workload, len(turns), seed, folder)
    returned = returned_of(workload, outputs, thoughts)
    prompts = whole_prompts(prompts, returned, turns, [group_tokens[group] for group in groups])
    ids = block_ids(prompts, turns, groups, group_tokens, workload.hash_block_size)
    columns: dict[str, Any] = {"hash_ids": ids, "hash_block_tokens": workload.hash_block_size}
    if sessions is not None:
        session, turn, after = turn_columns(turns)
        starts = [starts[number] for number in session]
        think_s = between_turns(draw_times(sessions.think_time, count, seed, "sessions.think_time"), after)
        columns |= {"session": session, "turn": turn, "after": after, "think_s": think_s}
    return with_thoughts(workload, RequestTable(starts, prompts, outputs, **columns), thoughts)


def _in_time(workload: WorkloadConfig, starts: list[float]) -> list[float]:
    """Arrivals within the duration; an error if there are none or too many."""
    if workload.duration is None:
        return starts
    if not starts:
        raise UsageError(f"no request arrives within {pretty(workload.duration, Dimension.SECONDS)}")
    if workload.num_requests is None and len(starts) >= workload.most_requests:
        raise _too_many(workload)
    return starts


def _too_many(workload: WorkloadConfig) -> UsageError:
    assert workload.duration is not None
    within = f"within {pretty(workload.duration, Dimension.SECONDS)}"
    advice = "that is the most that can be simulated, so lower the rate or the duration, or give num_requests"
    return UsageError(f"{workload.most_requests} requests or more arrive {within}; {advice}")


def _cut(turns: list[int], most: int) -> list[int]:
    """The turns of the first conversations, `most` in all."""
    whole = sum(1 for _ in takewhile(lambda total: total <= most, accumulate(turns)))
    rest = most - sum(turns[:whole])
    return [*turns[:whole], *([rest] if rest and whole < len(turns) else [])]


def _traced(workload: WorkloadConfig, trace: TraceConfig, seed: int, folder: Path) -> RequestTable:
    """Requests with some columns from a trace; columns of conversations need a trace with the prompts."""
    path = path_from(folder, trace.path)
    read = read_trace(
        path,
        max_requests=trace.max_requests if trace.repeat else workload.num_requests or trace.max_requests,
        rate_scale=trace.rate_scale,
        start_s=trace.start,
        duration_s=trace.duration or math.inf,
        multi_turn=trace.multi_turn,
        block_tokens=trace.hash_block_size,
    )
    table, until_s = read.table, workload.duration or math.inf
    if workload.arrivals.kind == "trace" and not read.timed:
        example = "arrivals: {kind: poisson, rate: 8 req/s}"
        raise TraceError(f"{path}: a trace of format {read.format} holds no times; give others, such as {example}")
    if workload.output_tokens.kind == "trace" and not read.answered:
        example = "output_tokens: {kind: lognormal, mean: 256}"
        raise TraceError(f"{path}: some lines have no length of their output; give lengths, such as {example}")
    if workload.prompt_tokens.kind != "trace":
        table = RequestTable(table.arrival_s, table.prompt_tokens, table.output_tokens, notes=table.notes)
    if table.after and workload.arrivals.kind == "closed_loop":
        raise TraceError(f"{path}: has conversations, which cannot arrive in a closed loop; give other arrivals")
    if workload.arrivals.kind == "trace":
        if trace.repeat:
            table = repeated(table, count=workload.num_requests, until_s=until_s, most=workload.most_requests)
        if trace.spread:
            table = delayed(table, draw_uniform(trace.spread / trace.rate_scale, len(table), seed, "trace.spread"))
        table = select(table, [row for row, time_s in enumerate(table.arrival_s) if time_s < until_s])
        _in_time(workload, table.arrival_s)
    else:
        table = _rearranged(workload, trace, table, seed)
    if workload.num_requests is not None and workload.duration is None and len(table) < workload.num_requests:
        why = f"; {table.notes[-1]}" if read.skipped else ""
        raise TraceError(
            f"{path}: holds {len(table)} requests, but num_requests asks for {workload.num_requests}{why}"
        )
    table = _with_drawn_columns(workload, trace, table, seed, folder)
    if read.continues and table.after and not table.hash_ids:
        return with_shared_contexts(table, workload.hash_block_size)
    return table


def _rearranged(workload: WorkloadConfig, trace: TraceConfig, table: RequestTable, seed: int) -> RequestTable:
    """The trace's requests at drawn times; all turns of a conversation have the time of the first turn."""
    most = workload.num_requests or workload.most_requests
    opened = _openings(table)
    if not trace.repeat:
        most = min(most, opened[-1] + 1)
    starts = _in_time(workload, draw_arrivals(workload.arrivals, most, workload.duration or math.inf, seed))
    if trace.repeat:
        table = repeated(table, count=len(table) * math.ceil(len(starts) / (opened[-1] + 1)))
        opened = _openings(table)
    rows = sorted((row for row, number in enumerate(opened) if number < len(starts)), key=opened.__getitem__)
    rows = rows[: workload.num_requests]
    return select(table, rows, arrival_s=[starts[opened[row]] for row in rows])


def _openings(table: RequestTable) -> list[int]:
    """The number of the conversation of each request, counted as they begin."""
    opened: list[int] = []
    count = 0
    for before in table.after or [-1] * len(table):
        opened.append(count if before < 0 else opened[before])
        count += before < 0
    return opened


def _with_drawn_columns(
    workload: WorkloadConfig, trace: TraceConfig, table: RequestTable, seed: int, folder: Path
) -> RequestTable:
    """A trace's requests with their drawn columns."""
    count = len(table)
    if workload.prompt_tokens.kind != "trace":
        prompts = draw_lengths(workload.prompt_tokens, count, seed, "prompt_tokens", folder)
        table = replace(table, prompt_tokens=prompts)
    if workload.output_tokens.kind != "trace":
        table = replace(
            table, output_tokens=draw_lengths(workload.output_tokens, count, seed, "output_tokens", folder)
        )
        table = with_thoughts(workload, table, thoughts_of(workload, count, seed, folder))
    if not trace.multi_turn:
        return table
    if not table.session:
        raise TraceError(f"{path_from(folder, trace.path)}: has no conversations; leave multi_turn out")
    turns = [len(list(requests)) for _, requests in groupby(table.session)]
    think_s = between_turns(draw_times(trace.think_time, count, seed, "trace.think_time"), table.after)
    ids = block_ids(table.prompt_tokens, turns, [0] * len(turns), [0], workload.hash_block_size)
    return replace(table, think_s=think_s, hash_ids=ids, hash_block_tokens=workload.hash_block_size)


def _belonging(workload: WorkloadConfig, table: RequestTable, seed: int) -> RequestTable:
    """The requests with priorities and tenants (equal within a conversation), and the clients of a closed loop."""
    if isinstance(workload.arrivals, ClosedLoopArrivals):
        table = replace(table, concurrency=workload.arrivals.concurrency)
    if workload.priorities is None and workload.tenants is None:
        return table
    numbers: dict[int, int] = {}
    owners = [numbers.setdefault(each, len(numbers)) for each in table.session or range(len(table))]
    if workload.priorities is not None:
        levels, weights = list(workload.priorities), list(workload.priorities.values())
        drawn = draw_weighted(weights, len(numbers), seed, "priorities")
        table = replace(table, priority=[levels[drawn[owner]] for owner in owners])
    if workload.tenants is not None:
        drawn = draw_weighted(list(workload.tenants.values()), len(numbers), seed, "tenants")
        table = replace(table, tenant=[drawn[owner] for owner in owners], tenant_names=tuple(workload.tenants))
    return table
