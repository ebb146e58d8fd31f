"""Names of models in tables and in results of benchmarks (``measured/models.yaml``)."""

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
        model_type: The ``model.model_type`` for such models, which are given by their sizes; None if there is no such
            type, so that the name is looked up in the model DB.
    """

    model_type: str | None = None


class Unpadded(FrozenModel):
    """Training without padding.

    Args:
        share: Share of the tokens of a sequence that are no padding.
        source: Source of the share.
        binned: Length from which batches consist of sequences of similar length, by group of rows.
        binned_source: Source of the lengths.
    """

    share: PositiveFloat
    source: str
    binned: dict[str, PositiveInt]
    binned_source: str


class BlockScaled(FrozenModel):
    """Models that are published in fp8 with a scale for each block of weights.

    Args:
        models: Beginnings of their names.
        source: Source of the fact.
    """

    models: tuple[str, ...]
    source: str


class Checkpoint(FrozenModel):
    """A published checkpoint that is a model of its own in the model DB.

    Args:
        models: Pattern of the names of its model in tables.
        precision: The precision, as in a scenario.
        name: The name in the model DB.
        source: Source of the fact.
    """

    models: Pattern
    precision: str
    name: str
    source: str


class Models(Facts):
    """Names of models in tables, and facts that tables leave out.

    Args:
        qualifiers: Patterns of ends of names that do not change the layers of a model.
        vendors: Pattern of vendor names at the beginning of a name.
        kinds: Kinds of models by their name in tables of training runs.
        head_size: Width of a head if a table does not state the number of heads.
        vocab_size: Rows of the embedding if a table does not state them.
        unpadded: Training without padding.
        block_scaled: Models with a scale for each block of weights.
        checkpoints: Checkpoints that are models of their own.
    """

    filename: ClassVar[str] = "models.yaml"
    qualifiers: tuple[Pattern, ...]
    vendors: Pattern
    kinds: dict[str, Kind]
    head_size: PositiveInt
    vocab_size: PositiveInt
    unpadded: Unpadded
    block_scaled: BlockScaled
    checkpoints: tuple[Checkpoint, ...] = ()


def served_name(name: str, precision: str) -> str | None:
    """Return the name in the model DB of a model that is served in a precision; None if it is not there."""
    for each in facts(Models).checkpoints:
        if each.precision == precision and each.models.search(name):
            return each.name
    return database_name(name)


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
