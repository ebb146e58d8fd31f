"""The log of steps: entries of several replicas in one batch are those of each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simsys.metrics.step_log import StepLog

entries = st.tuples(
    st.floats(0.0, 100.0),
    st.integers(1, 50),
    st.integers(0, 9),
    st.integers(0, 99),
    st.floats(0.01, 1.0),
    st.floats(0.0, 0.1),
)
FIELDS = ("started_s", "count", "decode_tokens", "prompt_tokens", "first_s", "growth_s", "last_s", "ended_s")


@given(st.dictionaries(st.integers(0, 5), st.lists(entries, min_size=1, max_size=4), max_size=4))
def test_all_replicas_together_have_the_entries_of_each(runs: dict[int, list[tuple[float, ...]]]) -> None:
    log = StepLog()
    for rank, each in runs.items():
        log.add(rank, [number for entry in each for number in entry])
    together = list(log.together())
    assert len(together) <= 1
    assert sum(len(batch) for batch in together) == len(log)
    for name in FIELDS:
        expected = [getattr(log.of(rank), name) for rank in sorted(runs)]
        found = [getattr(batch, name) for batch in together]
        assert np.array_equal(np.concatenate(found or [[]]), np.concatenate(expected or [[]]))
    assert log.ended_s == max((log.of(rank).ended_s.max() for rank in runs), default=0.0)


def test_a_later_entry_is_among_them() -> None:
    log = StepLog()
    for rank in (0, 1, 0):
        log.add(rank, [float(len(log)), 2, 1, 0, 0.5, 0.0])
        assert sum(len(batch) for batch in log.together()) == len(log)
