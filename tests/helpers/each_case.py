"""Many cheap cases in one test: collecting and reporting a test of its own would take longer than the case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Test = Callable[..., None]


def each_case(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, but in one test, whose failure names the case; for tests without fixtures.

    Args:
        names: The argument, or several.
        values: Their values, case by case.
    """
    single, chosen = isinstance(names, str), list(values)
    given = (names,) if isinstance(names, str) else tuple(names)
    assert chosen

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def all_cases(**others: Any) -> None:
            for value in chosen:
                case = dict(zip(given, (value,) if single else value, strict=True))
                try:
                    test(**others, **case)
                except BaseException as error:
                    error.add_note(f"in the case {case}")
                    raise

        whole = inspect.signature(test)
        left = [parameter for name, parameter in whole.parameters.items() if name not in given]
        all_cases.__signature__ = whole.replace(parameters=left)  # type: ignore[attr-defined]
        return all_cases

    return decorate
