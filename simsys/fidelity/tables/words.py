"""What tables call precisions, kernels and statistics, in the words of an experiment (``measured/words.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simsys.config.base import FrozenModel
from simsys.fidelity.tables.facts import Facts, Pattern, facts


class Word(FrozenModel):
    """A pattern of what tables say, and what it means."""

    pattern: Pattern
    means: str


class TrainingWords(FrozenModel):
    """Words of tables of training runs.

    Args:
        precisions: The first pattern that is found counts.
        attention: The same of kernels of attention.
        recompute: What is computed again, by what tables call it.
    """

    precisions: tuple[Word, ...]
    attention: tuple[Word, ...]
    recompute: dict[str, str]


class ServingWords(FrozenModel):
    """Words of tables of serving runs.

    Args:
        weights: Precisions of the weights, by what tables call them.
        eight_bit_or_less: Precisions of weights that come with a KV cache in fp8, where the engine has it so.
        statistics: Of latencies, by what tables call them.
        unstated: Cells that do not say which statistic it is.
    """

    weights: dict[str, str]
    eight_bit_or_less: tuple[str, ...]
    statistics: dict[str, str]
    unstated: tuple[str, ...]


class KernelWords(FrozenModel):
    """Words of tables of measured kernels.

    Args:
        dtypes: By what tables call them.
        bytes_per_element: By dtype.
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
    """Return what the first pattern means that is found in a text; None if there is none."""
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
