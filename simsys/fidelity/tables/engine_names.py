"""Engine profiles of tables of training runs, and how these programs train (``measured/training_engines.yaml``)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import PositiveInt

from simsys.config.base import FrozenModel
from simsys.config.hardware import profile_names
from simsys.fidelity.tables.facts import Facts, Pattern, facts


class NamedEngine(FrozenModel):
    """A pattern of names and its engine profile."""

    pattern: Pattern
    profile: str


class Habits(FrozenModel):
    """How a program trains where a table does not say.

    Args:
        waits_for_sends: Whether a pipeline stage waits until what it sends has arrived.
        reduces_after_backward: Whether gradients are reduced after the backward pass, not during it.
        half_gradients: Precisions of training in which DDP exchanges gradients in 16 bit.
        half_shards: Precisions of training in which ZeRO and FSDP exchange gradients in 16 bit.
        scatter_gather: Whether tensor-parallel ranks share the sending of boundary activations.
        tp_overlap: Whether tensor-parallel collectives overlap matrix products, with sequence parallelism.
        bucket_elements: Smallest number of gradients of a bucket; None for the default of the framework module.
        bucket_elements_per_replica: Smallest number of gradients of a bucket for each data-parallel rank.
        selective_recompute: The ``activation_recompute`` of an experiment for selective recomputation by the program.
        broadcast_parameters: Whether ranks of ZeRO-1 broadcast the matrices that they have updated.
        fused_norms: Pattern of the kernel column of rows with fused norms; None if norms are always fused.
        source: Source of the facts.
    """

    waits_for_sends: bool = False
    reduces_after_backward: bool = False
    half_gradients: tuple[str, ...] = ()
    half_shards: tuple[str, ...] = ()
    scatter_gather: bool = True
    tp_overlap: bool = False
    bucket_elements: PositiveInt | None = None
    bucket_elements_per_replica: PositiveInt = 1
    selective_recompute: str = "selective"
    broadcast_parameters: bool = False
    fused_norms: Pattern | None = None
    source: str = ""


class TrainingEngines(Facts):
    """The programs of tables of training runs.

    Args:
        names: The first pattern that is found counts.
        otherwise: The engine profile if no pattern is found.
        habits: By engine profile.
    """

    filename: ClassVar[str] = "training_engines.yaml"
    names: tuple[NamedEngine, ...]
    otherwise: str
    habits: dict[str, Habits]


def engine_of(*said: str) -> str:
    """Return the engine profile of a row.

    Args:
        said: Texts of a table about the program, the most specific one first, which may be the name of a profile.

    Example:
        >>> engine_of("", "NVIDIA/NeMo docs"), engine_of("Megatron-LM README")
        ('nemo', 'megatron')
    """
    known = facts(TrainingEngines)
    if said and said[0] in profile_names("engine"):
        return said[0]
    for text in said:
        for named in known.names:
            if named.pattern.search(text):
                return named.profile
    return known.otherwise


def habits_of(engine: str) -> Habits:
    """Return how the program of an engine profile trains."""
    return facts(TrainingEngines).habits.get(engine, _NONE)


_NONE = Habits()
