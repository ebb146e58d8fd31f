"""Words of tables for precisions, kernels and statistics (``measured/words.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simsys.config.base import FrozenModel
from simsys.fidelity.tables.facts import Facts, Pattern, facts


class Word(FrozenModel):
    """A pattern of a text and its meaning in an experiment."""

    pattern: Pattern
    means: str


class TrainingWords(FrozenModel):
    """Words of tables of training runs.

    Args:
        precisions: Precisions; the first pattern that is found counts.
        attention: Kernels of attention; the first pattern that is found counts.
        recompute: Activation recomputation by its name in tables.
    """

    precisions: tuple[Word, ...]
    attention: tuple[Word, ...]
    recompute: dict[str, str]


class ServingWords(FrozenModel):
    """Words of tables of serving runs.

    Args:
        weights: Precisions of weights by their name in tables.
        eight_bit_or_less: Precisions of weights that imply a KV cache in fp8 for engines with ``cache_as_weights``.
        statistics: Statistics of latencies by their name in tables.
        unstated: Cells that do not state the statistic.
    """

    weights: dict[str, str]
    eight_bit_or_less: tuple[str, ...]
    statistics: dict[str, str]
    unstated: tuple[str, ...]


class KernelWords(FrozenModel):
    """Words of tables of measured kernels.

    Args:
        dtypes: Dtypes by their name in tables.
        bytes_per_element: Bytes of an element by dtype.
    """

    dtypes: dict[str, str]
    bytes_per_element: dict[str, float]


class Words(Facts):
    """The words of all kinds of tables."""

    filename: ClassVar[str] = "words.yaml"
    training: TrainingWords
    serving: ServingWords
    kernels: KernelWords


def meaning(text: str, words: Sequence[Word]) -> str | None:
    """Return the meaning of the first pattern that is found in a text; None if there is none."""
    return next((word.means for word in words if word.pattern.search(text)), None)


def training_words() -> TrainingWords:
    """Return the words of tables of training runs."""
    return facts(Words).training


def serving_words() -> ServingWords:
    """Return the words of tables of serving runs."""
    return facts(Words).serving


def kernel_words() -> KernelWords:
    """Return the words of tables of measured kernels."""
    return facts(Words).kernels
