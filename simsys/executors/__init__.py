"""How operations are simulated: executors composed of a computation, a communication, passes and programs.

`levels.py` is the table of combinations, the only place where a level of detail has a name; framework modules do not
know it. Components may import `core.py` (hardware, ranks, groups, costs) and each other in this order only:
computation, `communication`, `steps` (passes of serving), `iterations` (programs of training), `executor`, `levels`.
Start with `levels.py`, then `executor.py`; `simsys.costs` has the durations of work.
May import: collectives, costs, errors, framework, model, ops, parallel, platform, probes, starter, sums.

**Simultaneous events** happen in the order of their priority, then in the order of scheduling:

1. ``URGENT`` and ``NORMAL``, SimPy's own: computations and transfers end, requests arrive.
2. ``LATE``: schedules on links end; ``LATE + 1``: rates of flows settle.
3. ``boundary(rank)``: steps of serving teams end, in the order of their ranks.
4. ``AFTERWARDS``: what follows from these ends, such as routing.
5. ``waking(rank)``: idle engines wake, in the order of their ranks.
6. ``LAST``: the deadline of a run.

`simsys.platform.events` defines them, `simsys.serving.deadline` the last one. A stepper that precomputes steps
compares its priority with that of the current event, to decide whether a step that ends at this time has ended.

**Times are anchored.** The end of segment or step j is the start of the first one plus a sum of durations, not a clock
that is rounded at every event; the anchor moves only if something else decides the time. So it does not matter in how
many runs consecutive steps are executed.

**The order of additions is an interface.** Multi-step runs and single steps, and cached and computed costs, must be
equal to the last bit. So every sum has one order (`simsys.sums.ordered_sum`, `StepTimes.elapsed`); another order
changes results.
"""

from __future__ import annotations

from simsys.executors.executor import Combination, Executor
from simsys.executors.levels import LEVELS, MIXTURES, Links, chooses_links, combination, costed_model

__all__ = ["LEVELS", "MIXTURES", "Combination", "Executor", "Links", "chooses_links", "combination", "costed_model"]
