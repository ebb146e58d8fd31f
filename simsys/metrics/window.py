"""The part of a serving log with the requests that arrive in a time, for metrics without the warm-up."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from simsys.metrics.serving_log import ServingLog
from simsys.serving.selection import select


def completed_until_s(log: ServingLog, now_s: float) -> float:
    """The time until which all requests that arrived have ended by now: the first arrival of the others."""
    import numpy as np

    arrived_s = log.arrived_s
    under_way = (arrived_s >= 0.0) & (arrived_s <= now_s) & (log.left_s < 0.0)
    under_way[list(log.rejected)] = False
    return float(arrived_s[under_way].min()) if np.any(under_way) else now_s


def window(log: ServingLog, since_s: float, until_s: float) -> ServingLog:
    """The requests that arrive in a time, with the steps in it; all of them have to be completed or rejected.

    Rates of its metrics are per second of this time: in a steady state, as many requests end in it as arrive.

    Args:
        log: The log of a run.
        since_s: Start of the time; included.
        until_s: Its end; not included.
    """
    import numpy as np

    arrived_s = log.arrived_s
    rows = np.flatnonzero((arrived_s >= since_s) & (arrived_s < until_s)).tolist()
    rows.sort(key=arrived_s.__getitem__)
    places = {row: place for place, row in enumerate(rows)}
    times_s = arrived_s[rows].tolist()
    part = ServingLog(select(log.requests, rows, arrival_s=times_s), log.api_s, since_s)
    part.arrival_s = times_s
    for name in ("admitted_s", "first_token_s", "finished_s"):
        setattr(part, name, array("d", np.asarray(getattr(log, name))[rows].tobytes()))
    part.preemptions = array("I", np.asarray(log.preemptions)[rows].tobytes())
    part.rejected = {places[row]: reason for row, reason in log.rejected.items() if row in places}
    part.cancelled = {places[row]: each for row, each in log.cancelled.items() if row in places}
    part.steps = log.steps.between(since_s, until_s)
    part.joined = {places[row]: found for row, found in log.joined.items() if row in places}
    part.lost = [each._replace(request=places[each.request]) for each in log.lost if each.request in places]
    for name in ("rejected_s", "preempted_s", "readmitted_s"):
        setattr(part, name, _inside(getattr(log, name), since_s, until_s))
    lookups = np.asarray(log.lookups).reshape(-1, 3)
    part.lookups = array("d", lookups[(lookups[:, 0] >= since_s) & (lookups[:, 0] < until_s)].tobytes())
    part.engine_logs, part.stopped_s = log.engine_logs, until_s
    part.tokens_per_sequence = log.tokens_per_sequence
    return part


def _inside(times_s: Sequence[float], since_s: float, until_s: float) -> list[float]:
    return [time_s for time_s in times_s if since_s <= time_s < until_s]
