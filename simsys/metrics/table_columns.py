"""Columns of a table whose elements are made when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import eq
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T", covariant=True)


class Made(Sequence[T]):
    """A column with elements created on access; equal to a list of them."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))


class Times(Made[float | None]):
    """A column of times as a table shows it: None where a column of numbers says -1 for not yet."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = seconds

    @overload
    def __getitem__(self, place: int) -> float | None: ...
    @overload
    def __getitem__(self, place: slice) -> list[float | None]: ...
    def __getitem__(self, place: int | slice) -> float | list[float | None] | None:
        if isinstance(place, slice):
            return [seconds if seconds >= 0.0 else None for seconds in self._seconds[place]]
        seconds = self._seconds[place]
        return seconds if seconds >= 0.0 else None

    def __iter__(self) -> Iterator[float | None]:
        return (seconds if seconds >= 0.0 else None for seconds in self._seconds)

    def __len__(self) -> int:
        return len(self._seconds)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """As numpy has it: NaN where there is no time."""
        import numpy as np

        seconds = np.array(self._seconds, dtype=float)
        seconds[seconds < 0.0] = np.nan
        return seconds if dtype is None else seconds.astype(dtype, copy=False)


class Texts(Made[str]):
    """A column of texts that are made when they are looked at.

    Args:
        count: How many.
        text: Makes one, by its place.
        usual: The text of most places.
        others: Those of some places that may have another text than the usual one; by default all.
    """

    def __init__(
        self,
        count: int,
        text: Callable[[int], str],
        usual: str = "",
        others: Callable[[range], Iterable[int]] = iter,
    ) -> None:
        self._places, self._text, self._usual, self._others = range(count), text, usual, others

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            places = self._places[place]
            texts = [self._usual] * len(places)
            for each in self._others(places):
                texts[places.index(each)] = self._text(each)
            return texts
        return self._text(self._places[place])

    def __iter__(self) -> Iterator[str]:
        return map(self._text, self._places)

    def __len__(self) -> int:
        return len(self._places)
