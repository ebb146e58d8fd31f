"""How long whole sessions take: from the first request of a session to the last answer, sub-agents included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.metrics.serving_log import ServingLog

if TYPE_CHECKING:
    import numpy as np


def session_times_s(log: ServingLog) -> np.ndarray | None:
    """Times of the sessions all of whose requests were completed, at any attempt (s); None without conversations."""
    import numpy as np

    requests = log.requests
    if not any(requests.turn):
        return None
    session = np.asarray(requests.session)
    count = int(session.max()) + 1
    first = np.asarray(requests.attempt) == 0 if requests.attempt else np.ones(session.size, dtype=bool)
    asked, answered = (np.bincount(session[each], minlength=count) for each in (first, log.completed))
    whole = (asked == answered) & (asked > 0)
    begins_s, ends_s = np.full(count, np.inf), np.zeros(count)
    sent = log.arrived_s >= 0.0
    np.minimum.at(begins_s, session[sent], log.arrived_s[sent])
    np.maximum.at(ends_s, session, np.asarray(log.finished_s, dtype=float))
    times_s: np.ndarray = ends_s[whole] - begins_s[whole]
    return times_s
