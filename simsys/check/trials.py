"""Trials of suggestions: one is made only if the scenario passes the check with its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice

from simsys.build.rules.findings import Remedy
from simsys.check.remedies import changed, remedy_text
from simsys.config.experiment import SimulationConfig
from simsys.errors import Fix, Problem, SimsysError

MAX_TRIALS = 40
"""Most trials for one scenario; later proposals are not suggested."""
MAX_FIXES = 5
"""Most suggestions for one problem."""
Said = tuple[str, str]
"""Path and message of a problem."""


class Trials:
    """Checks a scenario with changed settings.

    Args:
        config: The scenario.
        check: Returns the problems of a changed scenario, without advice.
        sections: Sections of the scenario that may be changed; all if None.
    """

    def __init__(
        self,
        config: SimulationConfig,
        check: Callable[[SimulationConfig], Iterable[Problem]],
        sections: Collection[str] | None = None,
    ) -> None:
        self.config = config
        self._check, self._sections = check, sections
        self._left = MAX_TRIALS
        self._known: dict[str, frozenset[Said] | None] = {}

    def problems(self, remedy: Remedy) -> frozenset[Said] | None:
        """The problems of the scenario with a remedy's settings; None if they cannot be tried."""
        own = self._sections is None or all(path.partition(".")[0] in self._sections for path in remedy)
        key = remedy_text(remedy)
        if own and key not in self._known and self._left:
            self._left -= 1
            self._known[key] = self._try(remedy)
        return self._known.get(key)

    def _try(self, remedy: Remedy) -> frozenset[Said] | None:
        try:
            return frozenset((each.path, each.message) for each in self._check(changed(self.config, remedy)))
        except SimsysError:
            return None

    def passing(self, fixes: Iterable[Fix], count: int = MAX_FIXES) -> list[Fix]:
        """The first fix with which the scenario has no problem."""
        return list(islice((fix for fix in fixes if self.problems(fix.edits) == frozenset()), count))
