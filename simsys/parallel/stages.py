"""How a model is divided into pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from simsys.errors import UsageError
from simsys.parallel.passes import ForwardPass, RepeatedBlock
from simsys.parallel.segments import Segment


def partition(
    plan: ForwardPass, stages: int, chunks: int = 1, layers: Sequence[int] | None = None
) -> list[list[ForwardPass]]:
    """Divide a model's repeated layers among stages; what comes before goes to the first, what follows to the last.

    Args:
        plan: The whole model.
        stages: Pipeline stages.
        chunks: Chunks of layers per stage; chunk c of stage s is number c·stages + s in the order of the model.
        layers: Layers of each chunk in the order of the model; by default equally many.

    Returns:
        For each stage, its chunks.

    Raises:
        UsageError: If the layers cannot be divided like this.
    """
    first, last = _layers(plan)
    sizes = _sizes(layer_count(plan), stages * chunks, layers)
    pieces = _cut(plan.stretches[first:last], sizes)
    pieces[0] = [*plan.stretches[:first], *pieces[0]]
    pieces[-1] = [*pieces[-1], *plan.stretches[last:]]
    passes: list[ForwardPass] = []
    for index, piece in enumerate(pieces):
        of_token, of_logit = (
            (passes[-1].output_elements_per_token, passes[-1].output_elements_per_logit) if passes else (0.0, 0.0)
        )
        hands_on = index + 1 < len(pieces)
        passes.append(ForwardPass(f"{plan.name}[{index}]", tuple(piece), of_token, of_logit, hands_on))
    return [[passes[chunk * stages + stage] for chunk in range(chunks)] for stage in range(stages)]


def both_directions(stages: Sequence[Sequence[ForwardPass]]) -> list[list[ForwardPass]]:
    """The chunks of each stage of a bidirectional pipeline: its own, and those of the opposite stage."""
    return [[*own, *opposite] for own, opposite in zip(stages, reversed(stages), strict=True)]


def uneven_layers(layers: int, pieces: int) -> list[int]:
    """Layers of each piece where they do not divide evenly.

    If the layers plus embedding and head divide evenly, these two count as layers, as with Megatron Core's
    ``account_for_embedding_in_pipeline_split``; otherwise the first pieces have one layer more.

    Example:
        >>> uneven_layers(14, 4), uneven_layers(11, 4)
        ([3, 4, 4, 3], [3, 3, 3, 2])
    """
    if (layers + 2) % pieces == 0:
        each = (layers + 2) // pieces
        return [each - 1, *[each] * (pieces - 2), each - 1]
    each, more = divmod(layers, pieces)
    return [each + (place < more) for place in range(pieces)]


Longer = Literal["first", "last", "before_last"]
"""Which pieces hold one layer more where layers do not divide: the first, the last, or those before the last one."""


def divided_layers(layers: int, pieces: int, longer: Longer) -> list[int]:
    """Layers of each piece of an engine that serves, if these do not divide evenly.

    Example:
        >>> [divided_layers(14, 4, longer) for longer in ("first", "last", "before_last")]
        [[4, 4, 3, 3], [3, 3, 4, 4], [3, 4, 4, 3]]
    """
    each, more = divmod(layers, pieces)
    begin = {"first": 0, "last": pieces - more, "before_last": pieces - 1 - more}[longer]
    return [each + (begin <= place < begin + more) for place in range(pieces)]


def layer_count(plan: ForwardPass) -> int:
    """Number of layers to divide."""
    first, last = _layers(plan)
    return sum(stretch.repeat for stretch in plan.stretches[first:last])


def _layers(plan: ForwardPass) -> tuple[int, int]:
    """The stretches that are layers: all but the embedding and the head.

    Without these, layers are from the first repeated stretch to the last; all if none is repeated.
    """
    layers = [index for index, stretch in enumerate(plan.stretches) if stretch.checkpointed]
    if len(layers) in (0, len(plan.stretches)):
        layers = [index for index, stretch in enumerate(plan.stretches) if stretch.repeat > 1]
    return (layers[0], layers[-1] + 1) if layers else (0, len(plan.stretches))


def _sizes(count: int, pieces: int, layers: Sequence[int] | None) -> list[int]:
    if layers is not None:
        if len(layers) != pieces or sum(layers) != count:
            raise UsageError(
                f"stage_layers must be {pieces} numbers that add up to {count} layers, not {list(layers)} "
                f"(sum {sum(layers)})"
            )
        if 0 in layers[1:-1]:
            raise UsageError("only the first and the last of stage_layers may be 0: these have embedding and head")
        return list(layers)
    if count % pieces:
        nearest = sorted((d for d in range(1, count + 1) if count % d == 0), key=lambda d: (abs(d - pieces), d))[:3]
        fitting = ", ".join(str(d) for d in sorted(nearest))
        raise UsageError(
            f"{count} layers cannot be divided among {pieces} stages (virtual ones counted); {fitting} would divide "
            "them, or say how with stage_layers"
        )
    return [count // pieces] * pieces


def _cut(stretches: Sequence[RepeatedBlock], sizes: Sequence[int]) -> list[list[RepeatedBlock]]:
    """Deal out repeated stretches in order, `sizes[i]` layers to piece i; of spread ones each its share."""
    alternating = [stretch for stretch in stretches if stretch.spread]
    if len(alternating) > 1:
        before = [stretch for stretch in stretches if not stretch.spread]
        return [_together(piece) for piece in _cut_in_order([*before, *_in_turn(alternating)], sizes)]
    return _cut_in_order(stretches, sizes)


def _in_turn(stretches: Sequence[RepeatedBlock]) -> list[RepeatedBlock]:
    """Stretches of one layer each, so that every kind is spread evenly."""
    taken, layers = [0] * len(stretches), sum(stretch.repeat for stretch in stretches)
    turns: list[RepeatedBlock] = []
    for number in range(1, layers + 1):
        due = [stretch.repeat * number / layers - count for stretch, count in zip(stretches, taken, strict=True)]
        index = due.index(max(due))
        taken[index] += 1
        turns.append(replace(stretches[index], repeat=1))
    return turns


def _together(piece: Sequence[RepeatedBlock]) -> list[RepeatedBlock]:
    """The layers with equal ones merged into one stretch, as the time of a pass is independent of the order."""
    counts: dict[tuple[Segment, ...], RepeatedBlock] = {}
    for stretch in piece:
        known = counts.get(stretch.segments)
        counts[stretch.segments] = stretch if known is None else replace(known, repeat=known.repeat + stretch.repeat)
    return list(counts.values())


def _cut_in_order(stretches: Sequence[RepeatedBlock], sizes: Sequence[int]) -> list[list[RepeatedBlock]]:
    """Deal out repeated stretches in order, `sizes[i]` layers to piece i."""
    left = [(stretch, stretch.repeat) for stretch in stretches]
    pieces: list[list[RepeatedBlock]] = []
    for size in sizes:
        piece: list[RepeatedBlock] = []
        while size:
            stretch, available = left[0]
            taken = min(size, available)
            piece.append(replace(stretch, repeat=taken))
            left[0] = (stretch, available - taken)
            if taken == available:
                left.pop(0)
            size -= taken
        pieces.append(piece)
    return pieces
