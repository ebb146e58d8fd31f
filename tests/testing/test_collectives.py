"""Every shipped algorithm passes the rules, and the rules find what is wrong with broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from simsys.collectives import ALGORITHMS, Algorithm, CollectiveKind, Path, Phase
from simsys.collectives.ring import Ring
from simsys.errors import UsageError
from simsys.testing import check_collective

NAMES = sorted(set(ALGORITHMS.names()) - set(ALGORITHMS.aliases))


@pytest.mark.parametrize("name", NAMES)
def test_shipped_algorithms_obey_the_rules(name: str) -> None:
    assert check_collective(ALGORITHMS.get(name, Algorithm)) == "ok"


class Nameless(Algorithm):
    kinds = frozenset({CollectiveKind.ALL_REDUCE})

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        return ()


class Kindless(Ring):
    kinds = frozenset()


class BeyondTheGroup(Ring):
    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        return (Phase(((0, size),), 1.0),)


class ToItself(Ring):
    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        return (Phase(((1, 1),), 1.0),)


class StepMissing(Ring):
    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        phases = super().make_phases(kind, size)
        around = tuple((rank, (rank + 1) % size) for rank in range(size - 1))
        return (Phase(around, 1.0),) if kind is CollectiveKind.ALL_REDUCE else phases


class Moody(Ring):
    calls = 0

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        Moody.calls += 1
        return super().make_phases(kind, size) + super().make_phases(kind, size) * (Moody.calls % 2)


class Optimistic(Ring):
    def closed_form(self, kind: CollectiveKind, size: int, nbytes: float, paths: Sequence[Path]) -> float:
        return 0.9 * super().closed_form(kind, size, nbytes, paths)


class Crashes(Ring):
    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        raise KeyError(size)


class RefusesAll(Ring):
    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        raise UsageError("not today")


class Words(Ring):
    def make_phases(self, kind: CollectiveKind, size: int) -> Any:
        return ("around",)


class Unfinished(Algorithm):
    name = "unfinished"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Nameless, "Nameless: a name is missing: name = "),
        (Kindless, "Kindless: kinds are missing"),
        (BeyondTheGroup, "phase 0 sends from 0 to 2, not between two of the ranks 0 to 1"),
        (ToItself, "phase 0 sends from 1 to 1"),
        (StepMissing, "all_reduce of 2 ranks: nothing of rank 1 reaches rank 0"),
        (Moody, "not deterministic"),
        (Optimistic, "Optimistic: .* closed_form gives .* its phases take"),
        (Crashes, r"KeyError\(2\); refuse numbers of ranks with UsageError"),
        (RefusesAll, "accepts no group of 2, 3, 4, 5, 7, 8, 16 ranks"),
        (Words, "phase 0 is 'around', not a Phase"),
        (Unfinished, "Unfinished is not complete: it has no make_phases"),
        (int, r"int is no collective algorithm: derive it from Algorithm of simsys\.collectives"),
        (Ring(), "is no class; give the collective algorithm itself"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_is_wrong_is_said(broken: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_collective(broken)
