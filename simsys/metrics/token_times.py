"""The gaps between the tokens of every single request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.metrics.engine_notes import EngineNotes

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.serving_log import ServingLog

ROUNDING = 1e-12
"""Relative and absolute (s) tolerance of computed times."""


def gaps_by_request(log: ServingLog) -> list[list[float]] | None:
    """Gaps between the tokens of each request in seconds, empty if not completed.

    Memory and time grow with the tokens, not with the requests.

    Returns:
        A list for each request; None if the log lacks the replica of a request.
    """
    import numpy as np

    pauses: dict[int, list[tuple[float, float]]] = {}
    for request, last_s, again_s in log.gaps.resumed:
        pauses.setdefault(request, []).append((last_s, again_s))
    replicas = _replicas(log)
    found: list[list[float]] = []
    for request, finished_s in enumerate(log.finished_s):
        if finished_s < 0.0:
            found.append([])
            continue
        times_s = _times(log, request, replicas, pauses.get(request, []))
        if times_s is None:
            return None
        found.append(np.diff(times_s).tolist())
    return found


def _replicas(log: ServingLog) -> list[tuple[np.ndarray, np.ndarray]]:
    """By engine, when its runs of steps began or it rested, and when its steps with decoding sequences ended."""
    import numpy as np

    replicas = []
    for rank, engine_log in log.engine_logs.items():
        begun_s = EngineNotes(engine_log).times_s
        runs = log.steps.of(rank)
        decoding = np.flatnonzero(runs.decode_tokens > 0)
        count = runs.count[decoding]
        which = np.repeat(decoding, count)
        place = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count) + 1
        replicas.append((begun_s, np.sort(runs.ends_s(place, which))))
    return replicas


def _times(
    log: ServingLog,
    request: int,
    replicas: list[tuple[np.ndarray, np.ndarray]],
    pauses: list[tuple[float, float]],
) -> np.ndarray | None:
    """When a request's tokens came: on the engine that ended runs when the log says so, and made as many tokens."""
    import numpy as np

    first_s, finished_s = log.first_token_s[request], log.finished_s[request]
    _, begins_s = log.joined.get(request, (0, first_s))  # where it decodes
    if pauses and pauses[0][0] == first_s:  # it lost its cache before it had another token
        begins_s = pauses[0][1]
    told_s = np.array([begins_s, finished_s, *(again_s for _, again_s in pauses)])
    for runs_s, ends_s in replicas:
        if not runs_s.size:
            continue
        place = np.minimum(np.searchsorted(runs_s, told_s), runs_s.size - 1)
        if (runs_s[place] != told_s).any():
            continue
        start, stop = np.searchsorted(ends_s, np.array([begins_s, finished_s]) * (1 + ROUNDING) + ROUNDING)
        times_s = ends_s[start:stop]
        for last_s, again_s in pauses:
            until_s, from_s = (time_s * (1 + ROUNDING) + ROUNDING for time_s in (last_s, again_s))
            times_s = np.concatenate([times_s[times_s <= until_s], [again_s], times_s[times_s > from_s]])
        if times_s.size == log.requests.output_tokens[request] - 1:
            return np.concatenate([[first_s], times_s])
    return None
