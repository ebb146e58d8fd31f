"""Passes of a training step as data; this is their only description.

A pass has pieces, one for each block, with their operations and memory, and the messages of pipeline stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from simsys.framework import ActionKind, Block, Pass, PassOperation, Rank, TrainingPlan
from simsys.parallel.plan import Part

Held = tuple[tuple[str, int], ...]
"""Bytes of memory by purpose."""
Step = tuple[ActionKind, int]
"""A kind of pass and the chunk of layers that it goes through."""


class Message(NamedTuple):
    """A message of a pass.

    Args:
        rank: The other rank.
        nbytes: Its size; 0 for a received message, whose size the sender states.
        tag: Its tag; the micro-batch is added to it.
    """

    rank: int
    nbytes: float
    tag: Hashable


class Piece(NamedTuple):
    """The part of a pass that belongs to one block.

    Args:
        block: The block.
        operations: Computations and collectives.
        takes: Memory allocated before the operations.
        gives: Memory released after the operations.
        completes: Whether the block's gradients of the micro-batch are complete afterwards.
    """

    block: Block
    operations: Pass
    takes: Held
    gives: Held
    completes: bool


class Description(NamedTuple):
    """A pass of any micro-batch through a chunk of layers.

    Args:
        kind: Forward, backward, or the weight gradients that the backward pass put off.
        pieces: Pieces in order of execution; equal layers are the same piece.
        receive: The message that it waits for.
        send: The message that it ends with.
        takes: Memory allocated before the first piece.
        gives: Memory released after the last piece.
    """

    kind: ActionKind
    pieces: tuple[Piece, ...]
    receive: Message | None
    send: Message | None
    takes: Held
    gives: Held


class PassDescriptions:
    """Describes the passes of one rank.

    Args:
        rank: The verbs.
        bidirectional: Whether the second chunk is that of the opposite stage.
    """

    def __init__(self, rank: Rank, *, bidirectional: bool = False) -> None:
        self.rank, self.bidirectional = rank, bidirectional
        self.pipeline = rank.layout.group(rank.index, "pipeline").ranks
        self.stage = self.pipeline.index(rank.index)
        self.pieces: dict[tuple[ActionKind, Block], Piece] = {}

    def of(self, plan: TrainingPlan) -> Mapping[Step, Description]:
        """Return the passes of a plan."""
        return {step: self.describe(plan, *step) for step in product(ActionKind, range(len(plan.chunks)))}

    def describe(self, plan: TrainingPlan, kind: ActionKind, chunk: int) -> Description:
        """Describe a pass of any micro-batch through a chunk."""
        blocks = plan.chunks[chunk]
        shared = (("activations", plan.memory[chunk].shared),)
        receive, send = self.messages(plan, kind, chunk)
        return Description(
            kind,
            tuple(self.piece(kind, block) for block in (blocks if kind is ActionKind.FORWARD else blocks[::-1])),
            receive,
            send,
            takes=shared if kind is ActionKind.FORWARD else (),
            gives=shared if kind is ActionKind.BACKWARD else (),
        )

    def piece(self, kind: ActionKind, block: Block) -> Piece:
        """Describe the part of a pass that belongs to one block."""
        found = self.pieces.get((kind, block))
        if found is None:
            operations = self.rank.plan_pass(self.operations(getattr(block, kind), kind.value))
            takes, gives = held_by(kind, block)
            completes = kind is (ActionKind.WEIGHT if block.weight else ActionKind.BACKWARD)
            found = self.pieces[kind, block] = Piece(block, operations, takes, gives, completes)
        return found

    def operations(self, parts: Iterable[Part], name: str) -> Iterator[PassOperation]:
        """Yield the operations of the parts of a block: computations and collectives within the layer."""
        rank = self.rank
        for part in parts:
            if part.overlapped and part.kind is not None:
                yield rank.plan_overlapped(part.work, part.kind, part.nbytes, over=part.over, name=name)
                continue
            if part.computes:
                yield rank.plan_compute(part.work, name=name)
            if part.kind is not None:
                yield rank.plan_collective(part.kind, part.nbytes, over=part.over, name=f"{part.over} {part.kind}")

    def messages(self, plan: TrainingPlan, kind: ActionKind, chunk: int) -> tuple[Message | None, Message | None]:
        """Return the messages that a pass receives and sends; tags name the receiving pass."""
        if kind is ActionKind.WEIGHT:
            return None, None
        place = self.place(chunk)
        forward = kind is ActionKind.FORWARD
        before, after = (place - 1, place + 1) if forward else (place + 1, place - 1)
        source, target = self.holder(plan, before, place), self.holder(plan, after, place)
        nbytes = plan.handed_bytes if forward else plan.returned_bytes
        return (
            None if source is None else Message(source, 0.0, (kind, place)),
            None if target is None else Message(target, nbytes[chunk], (kind, after)),
        )

    def place(self, chunk: int) -> int:
        """Return a chunk's number in the order of the model; each direction of a pipeline has numbers of its own."""
        stages = len(self.pipeline)
        opposite = self.bidirectional and chunk == 1
        return chunk * stages + (stages - 1 - self.stage if opposite else self.stage)

    def holder(self, plan: TrainingPlan, place: int, beside: int) -> int | None:
        """Return the rank that holds the chunk before or after another; None beyond the ends of the model."""
        stages = len(self.pipeline)
        if not 0 <= place < stages * len(plan.chunks):
            return None
        if not self.bidirectional:
            return self.pipeline[place % stages]
        if place // stages != beside // stages:
            return None
        return self.pipeline[place if place < stages else 2 * stages - 1 - place]


def held_by(kind: ActionKind, block: Block) -> tuple[Held, Held]:
    """Return the memory that a piece allocates before its operations and releases after them.

    Activations are kept until the gradients of the block's weights are complete.
    """
    memory = block.memory
    kept, logits = ("activations", memory.kept), ("logits", memory.logits)
    if kind is ActionKind.FORWARD:
        return (kept, logits), (logits,)
    if kind is ActionKind.BACKWARD:
        recomputed = ("recomputed", memory.recomputed)
        return (recomputed, logits), (logits, recomputed) if block.weight else (logits, recomputed, kept)
    return (), (kept,) if block.weight else ()


def held_by_whole(described: Description) -> tuple[Held, Held]:
    """Return the memory that a pass allocates at its beginning and frees at its end, without its pieces.

    It then has the peak memory of its pieces from its beginning. Temporary memory has one name.
    """
    pieces = ((piece.takes, piece.gives) for piece in described.pieces)
    change: Counter[str] = Counter()
    fullest = 0
    for takes, gives in ((described.takes, ()), *pieces, ((), described.gives)):
        change.update(dict(takes))
        fullest = max(fullest, change.total())
        change.subtract(dict(gives))
    kept = tuple((name, nbytes) for name, nbytes in change.items() if nbytes > 0)
    given = tuple((name, -nbytes) for name, nbytes in change.items() if nbytes < 0)
    logits = any(name == "logits" and nbytes for piece in described.pieces for name, nbytes in piece.gives)
    rest = ("logits" if logits else "recomputed", fullest - sum(nbytes for _, nbytes in kept))
    return (*kept, rest), (rest, *given)
