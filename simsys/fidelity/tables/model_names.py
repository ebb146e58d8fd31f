"""Models as tables and results of benchmarks call them (``measured/models.yaml``)."""

from __future__ import annotations

import re
from functools import cache
from typing import ClassVar

from pydantic import PositiveFloat, PositiveInt

from simsys.config.base import FrozenModel
from simsys.errors import UnknownNameError
from simsys.fidelity.tables.facts import Facts, Pattern, facts
from simsys.model.model_db import load_model


class Kind(FrozenModel):
    """A kind of model in tables of training runs.

    Args:
        model_type: The ``model.model_type`` of an experiment that gives such models by their sizes; none if there is
            no such type, so that the model is looked for by name.
    """

    model_type: str | None = None


class Unpadded(FrozenModel):
    """Training without padding.

    Args:
        share: Of the tokens of a sequence, those that are no padding.
        source: Who says so.
        binned: By group of rows, the length from which batches hold sequences of like length.
        binned_source: Who says so.
    """

    share: PositiveFloat
    source: str
    binned: dict[str, PositiveInt]
    binned_source: str


class BlockScaled(FrozenModel):
    """Models that are published in fp8 with a scale for each block of weights.

    Args:
        models: Beginnings of their names.
        source: Who says so.
    """

    models: tuple[str, ...]
    source: str


class Models(Facts):
    """What tables call models, and what they leave out about them.

    Args:
        qualifiers: Patterns of ends of names that do not change the layers of a model.
        vendors: Pattern of beginnings of names that are no part of them.
        kinds: By what tables of training runs call the kind of a model.
        head_size: Width of a head where a table does not say how many there are.
        vocab_size: Rows of the embedding where a table does not say.
        unpadded: Training without padding.
        block_scaled: Models with a scale for each block of weights.
    """

    filename: ClassVar[str] = "models.yaml"
    qualifiers: tuple[Pattern, ...]
    vendors: Pattern
    kinds: dict[str, Kind]
    head_size: PositiveInt
    vocab_size: PositiveInt
    unpadded: Unpadded
    block_scaled: BlockScaled


@cache
def database_name(name: str) -> str | None:
    """Return the name in the model DB of a model; None if it is not there.

    Names of Hugging Face (``owner/name``) count without their owner, and an x in a version stands for 1.

    Example:
        >>> database_name("meta-llama/Meta-Llama-3-8B-Instruct"), database_name("llama3.x-70b"), database_name("mine")
        ('Llama3-8B', 'Llama-3.1-70B', None)
    """
    known = facts(Models)
    ends = "|".join(pattern.pattern for pattern in known.qualifiers)
    qualifier = re.compile(rf"[-_]({ends})$", re.IGNORECASE)
    vendor = re.compile(rf"^({known.vendors.pattern})", re.IGNORECASE)
    short = vendor.sub("", name.rstrip("/").rpartition("/")[2])
    candidates = [name, short, re.sub(r"(\d)\.x", r"\1.1", short)]
    while (plain := qualifier.sub("", short)) != short:
        short = plain
        candidates.append(short)
    for candidate in candidates:
        try:
            return load_model(candidate).name
        except UnknownNameError:
            continue
    return None
