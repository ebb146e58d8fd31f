"""The composed training step: micro-batches in the order of a pipeline schedule, then the optimizer."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from simsys.framework import (
    Action,
    ActionKind,
    DataParallel,
    Event,
    Pass,
    PassOperation,
    Rank,
    Schedule,
    Steps,
    TrainingFramework,
    TrainingPlan,
    register,
)
from simsys.parallel.plan import Part

Held = list[tuple[str, int]]
"""Memory by component, in bytes."""


class Partner(NamedTuple):
    """The other end of a pass's messages: its rank, and their tag, to which the micro-batch is added."""

    rank: int
    tag: Hashable


@register("training")
class Training(TrainingFramework):
    """Data parallelism acts through hooks around the blocks, tensor parallelism lies in the blocks' parts."""

    def __init__(self, rank: Rank, plan: TrainingPlan, data_parallel: DataParallel, schedule: Schedule) -> None:
        super().__init__(rank, plan, data_parallel, schedule)
        self.pipeline = rank.layout.group(rank.index, "pipeline").ranks
        self.stage = self.pipeline.index(rank.index)
        self.sent: list[Event] = []
        self.planned_parts: dict[int, tuple[Sequence[Part], Pass]] = {}
        """By identity of the parts, which it holds."""
        self.load(plan)

    def load(self, plan: TrainingPlan) -> None:
        """Order the passes of a plan; those before the first that completes gradients become a program."""
        super().load(plan)
        self.actions = self.schedule.actions(self.stage, len(self.pipeline), plan.micro_batches, len(plan.chunks))
        last = self.last_passes()
        self.last = frozenset(self.actions[place] for place in last.values())
        planned = self.planned(last)
        self.completing = [self.actions[place] for place in sorted(last.values()) if place < planned]
        self.passes = self.plan_passes(self.actions[:planned])
        self.micro_batches = tuple(micro_batch for _, micro_batch, _ in self.actions[:planned])
        self.actions = self.actions[planned:]

    def step(self) -> Steps:
        """One iteration of one rank."""
        if self.passes:
            yield self.rank.program(self.passes, self.micro_batches, over="pipeline", name="micro-batches")
        for action in self.completing:
            self.complete(action)
        for action in self.actions:
            yield from self.perform(action)
        yield from awaited(self.data_parallel.finish())
        sent, self.sent = self.sent, []
        yield self.rank.wait(sent)
        if shared := self.plan.shared_gradient_bytes:
            ends = self.rank.layout.ends(self.rank.index, "pipeline")
            yield self.rank.all_reduce(shared, over=ends, name="tied embeddings")
        self.rank.mark("optimizer")
        yield self.data_parallel.update()
        if event := self.data_parallel.after_optimizer():
            yield event

    def perform(self, action: Action) -> Steps:
        """Receive the inputs of a pass, run it, and send its outputs."""
        self.rank.mark(action.kind)
        source, target = self.partners(action.kind, action.chunk)
        if source:
            yield self.rank.recv(source.rank, tag=(source.tag, action.micro_batch))
        self.rank.synchronize()
        yield from {
            ActionKind.FORWARD: self.forward_pass,
            ActionKind.BACKWARD: self.backward_pass,
            ActionKind.WEIGHT: self.weight_pass,
        }[action.kind](action)
        if target:
            tag = (target.tag, action.micro_batch)
            nbytes = self.message_bytes(action.kind, action.chunk)
            sent = self.rank.send(target.rank, nbytes, tag=tag, name="boundary")
            self.sent.append(sent)
            if self.plan.waits_for_sends:
                yield sent

    def forward_pass(self, action: Action) -> Steps:
        """One micro-batch forward through one chunk."""
        blocks, hooks = self.plan.chunks[action.chunk], self.data_parallel
        if event := hooks.begin_pass(blocks, forward=True, last_micro_batch=action in self.last):
            yield event
        self.take(self.plan.memory[action.chunk].shared, "activations")
        for block in blocks:
            if event := hooks.before_forward(block):
                yield event
            self.take(block.memory.kept, "activations")
            self.take(block.memory.logits, "logits")
            yield from self.run(block.forward, "forward")
            self.give(block.memory.logits, "logits")
            if event := hooks.after_forward(block):
                yield event

    def backward_pass(self, action: Action) -> Steps:
        """One micro-batch backward; if weights are put off, their gradients are not complete yet."""
        blocks, hooks, last = self.plan.chunks[action.chunk][::-1], self.data_parallel, action in self.last
        if event := hooks.begin_pass(blocks, forward=False, last_micro_batch=last):
            yield event
        for block in blocks:
            if event := hooks.before_backward(block, last_micro_batch=last):
                yield event
            self.take(block.memory.recomputed, "recomputed")
            self.take(block.memory.logits, "logits")
            yield from self.run(block.backward, "backward")
            self.give(block.memory.logits, "logits")
            self.give(block.memory.recomputed, "recomputed")
            self.give(block.memory.kept, "activations")
            if not block.weight and (event := hooks.after_backward(block, last_micro_batch=last)):
                yield event

        self.give(self.plan.memory[action.chunk].shared, "activations")

    def weight_pass(self, action: Action) -> Steps:
        """The gradients of weights that were put off."""
        for block in reversed(self.plan.chunks[action.chunk]):
            yield from self.run(block.weight, "weight")
            if event := self.data_parallel.after_backward(block, last_micro_batch=action in self.last):
                yield event

    def run(self, parts: Sequence[Part], name: str) -> Steps:
        """Compute, and exchange partial results within the tensor-parallel group."""
        planned = self.planned_parts.get(id(parts))
        if planned is None:
            planned = self.planned_parts[id(parts)] = parts, self.rank.plan_pass(self.part_operations(parts, name))
        yield from self.rank.run(planned[1])

    def take(self, nbytes: float, name: str) -> None:
        """Memory for a while, if any is needed."""
        if nbytes:
            self.rank.allocate(nbytes, name=name)

    def give(self, nbytes: float, name: str) -> None:
        """Release the memory of a pass."""
        if nbytes:
            self.rank.release(nbytes, name=name)

    def plan_passes(self, actions: Iterable[Action]) -> tuple[Pass, ...]:
        """Actions at which nothing but the passes themselves happens."""
        kinds = product(ActionKind, range(len(self.plan.chunks)))
        passes = {(kind, chunk): self.plan_pass(kind, chunk) for kind, chunk in kinds}
        return tuple(passes[kind, chunk] for kind, _, chunk in actions)

    def plan_pass(self, kind: ActionKind, chunk: int) -> Pass:
        """A pass of any micro-batch through a chunk."""
        source, target = self.partners(kind, chunk)
        takes, gives = self.memory_changes(kind, chunk)
        return self.rank.plan_pass(
            self.operations(kind, chunk),
            receive=(source.rank, source.tag) if source else None,
            send=(target.rank, self.message_bytes(kind, chunk), target.tag) if target else None,
            takes=takes,
            gives=gives,
            waits=self.plan.waits_for_sends and target is not None,
        )

    def memory_changes(self, kind: ActionKind, chunk: int) -> tuple[Held, Held]:
        """Memory that a pass allocates at its beginning and frees at its end."""
        memory = self.plan.memory[chunk]
        kept = [("activations", memory.kept)]
        if kind is ActionKind.FORWARD:
            logits = [("logits", memory.logits)]
            return kept + logits, logits
        if kind is ActionKind.WEIGHT:
            return [], []
        passing = [("logits" if memory.logits else "recomputed", memory.passing)]
        return passing, passing + kept

    def operations(self, kind: ActionKind, chunk: int) -> Iterator[PassOperation]:
        """Computation and collectives of a pass, block by block."""
        blocks = self.plan.chunks[chunk]
        for block in blocks if kind is ActionKind.FORWARD else blocks[::-1]:
            yield from self.part_operations(getattr(block, kind), kind)

    def part_operations(self, parts: Iterable[Part], name: str) -> Iterator[PassOperation]:
        """What parts of a block compute and exchange."""
        rank = self.rank
        for part in parts:
            if part.beside and part.kind is not None:
                yield rank.plan_overlapped(part.work, part.kind, part.nbytes, over=part.over, name=name)
                continue
            if part.computes:
                yield rank.plan_compute(part.work, name=name)
            if part.kind is not None:
                yield rank.plan_collective(part.kind, part.nbytes, over=part.over, name=f"{part.over} {part.kind}")

    def partners(self, kind: ActionKind, chunk: int) -> tuple[Partner | None, Partner | None]:
        """Where a pass through a chunk receives from and sends to."""
        if kind is ActionKind.WEIGHT:
            return None, None
        place = chunk * len(self.pipeline) + self.stage  # the chunk's number in the order of the model
        direction = 1 if kind is ActionKind.FORWARD else -1
        return self.partner(place - direction, (kind, place)), self.partner(
            place + direction, (kind, place + direction)
        )

    def partner(self, place: int, tag: Hashable) -> Partner | None:
        """The rank that holds a chunk of the model; None beyond the ends of the model.

        Messages have the name of their target.
        """
        if not 0 <= place < len(self.pipeline) * len(self.plan.chunks):
            return None
        return Partner(self.pipeline[place % len(self.pipeline)], tag)

    def message_bytes(self, kind: ActionKind, chunk: int) -> float:
        """Bytes that a micro-batch sends to the next chunk of the model, or its gradient to the previous one."""
        return (self.plan.handed_bytes if kind is ActionKind.FORWARD else self.plan.returned_bytes)[chunk]

    def last_passes(self) -> dict[tuple[ActionKind, int], int]:
        """The place of the last pass of each kind through each chunk: then the gradients of the chunk are complete."""
        kinds = len(self.plan.chunks) * (3 if self.schedule.splits_backward else 2)
        last: dict[tuple[ActionKind, int], int] = {}
        for place in reversed(range(len(self.actions))):
            kind, _, chunk = self.actions[place]
            last.setdefault((kind, chunk), place)
            if len(last) == kinds:
                break
        return last

    def planned(self, last: Mapping[tuple[ActionKind, int], int]) -> int:
        """Number of leading actions that can be planned."""
        if self.data_parallel.after_passes:
            return len(self.actions)
        return 0 if self.data_parallel.every_micro_batch else self.before_gradients(last)

    def complete(self, action: Action) -> None:
        """Hand over the gradients of the blocks for which a planned pass was the last."""
        for block in self.plan.chunks[action.chunk][::-1]:
            if action.kind is (ActionKind.WEIGHT if block.weight else ActionKind.BACKWARD):
                self.data_parallel.after_backward(block, last_micro_batch=True)

    def before_gradients(self, last: Mapping[tuple[ActionKind, int], int]) -> int:
        """Number of actions before the first one that completes gradients of a block."""
        return min(
            place
            for (kind, chunk), place in last.items()
            if kind is ActionKind.WEIGHT
            or (kind is ActionKind.BACKWARD and not all(block.weight for block in self.plan.chunks[chunk]))
        )


def awaited(hook: Event | Steps | None) -> Steps:
    """Wait for the result of a hook: an event, or several in sequence."""
    if isinstance(hook, Generator):
        yield from hook
    elif hook is not None:
        yield hook
