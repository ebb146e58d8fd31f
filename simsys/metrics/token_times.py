"""The gaps between the tokens of every single request, for those who want each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.serving_log import ServingLog


def gaps_by_request(log: ServingLog) -> list[list[float]] | None:
    """Gaps between the tokens of each request, in seconds, none for those that were not completed.

    Memory and time grow with the tokens, not with the requests.

    Returns:
        A list for each request; None if the log does not say of every one on which replica it was served.
    """
    import numpy as np

    pauses: dict[int, list[tuple[float, float]]] = {}
    resumed = iter(log.resumed)
    lost: dict[int, float] = {}
    events = [*((time_s, 0, request) for request, time_s in log.preempted), *((t, 1, r) for r, t in resumed)]
    for time_s, again, request in sorted(events):
        if again:
            pauses.setdefault(request, []).append((lost.pop(request), time_s))
        elif log.first_token_s[request] >= 0.0 and time_s >= log.first_token_s[request]:
            lost.setdefault(request, time_s)
    ends_s = _decode_ends(log)
    found: list[list[float]] = []
    for request, finished_s in enumerate(log.finished_s):
        if finished_s < 0.0:
            found.append([])
            continue
        times_s = _times(log, request, list(ends_s.values()), pauses.get(request, []))
        if times_s is None:
            return None
        found.append(np.diff(times_s).tolist())
    return found


def _decode_ends(log: ServingLog) -> dict[int, np.ndarray]:
    """By replica, when its steps with decoding sequences ended, in order."""
    import numpy as np

    rank = np.asarray(log.steps.rank)
    decoding = np.asarray(log.steps.decode_tokens) > 0
    ends_s = {}
    for each in np.unique(rank).tolist():
        parts = []
        for runs in log.steps.blocks(np.flatnonzero(decoding & (rank == each))):
            which = np.repeat(np.arange(runs.count.size), runs.count)
            place = np.arange(which.size) - np.repeat(np.cumsum(runs.count) - runs.count, runs.count) + 1
            parts.append(runs.ends_s(place, which))
        ends_s[each] = np.concatenate([np.empty(0), *parts])
    return ends_s


def _times(
    log: ServingLog, request: int, replicas_s: list[np.ndarray], pauses: list[tuple[float, float]]
) -> np.ndarray | None:
    """When a request's tokens came, on the replica where as many did, of which the last one when it ended."""
    import numpy as np

    first_s, finished_s = log.first_token_s[request], log.finished_s[request]
    for ends_s in replicas_s:
        start, stop = np.searchsorted(ends_s, [first_s, finished_s], side="right")
        times_s = ends_s[start:stop]
        for lost_s, again_s in pauses:
            times_s = np.concatenate([times_s[times_s <= lost_s], [again_s], times_s[times_s > again_s]])
        times_s = np.concatenate([[first_s], times_s])
        if times_s.size == log.requests.output_tokens[request] and times_s[-1] == finished_s:
            return times_s
    return None
