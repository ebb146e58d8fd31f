"""The composed training step: micro-batches in the order of a pipeline schedule, then the optimizer.

Passes are described as data (`frameworks/pass_descriptions.py`). Passes without hooks run as one program; other
passes run piece by piece, with the hooks of data parallelism between the pieces.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from frameworks.pass_descriptions import Description, Held, PassDescriptions, Piece, Step, held_by_whole
from simsys.framework import (
    Action,
    ActionKind,
    DataParallel,
    Event,
    Pass,
    Rank,
    Schedule,
    Steps,
    TrainingFramework,
    TrainingPlan,
    register,
)


@register("training")
class Training(TrainingFramework):
    """Data parallelism acts through hooks around the blocks, tensor parallelism lies in the blocks' parts."""

    def __init__(self, rank: Rank, plan: TrainingPlan, data_parallel: DataParallel, schedule: Schedule) -> None:
        super().__init__(rank, plan, data_parallel, schedule)
        self.descriptions = PassDescriptions(rank, bidirectional=schedule.bidirectional)
        self.sent: list[Event] = []
        self.load(plan)

    def load(self, plan: TrainingPlan) -> None:
        """Order the passes of a plan; passes before the first one that completes gradients become a program."""
        super().load(plan)
        stage, stages = self.descriptions.stage, len(self.descriptions.pipeline)
        self.described = self.descriptions.of(plan)
        self.actions = self.schedule.actions(stage, stages, plan.micro_batches, len(plan.chunks))
        last = self.last_passes()
        self.last = frozenset(self.actions[place] for place in last.values())
        planned = self.planned(last)
        self.completing = [self.actions[place] for place in sorted(last.values()) if place < planned]
        self.passes = self.plan_passes(self.actions[:planned])
        self.micro_batches = tuple(micro_batch for _, micro_batch, _ in self.actions[:planned])
        self.actions = self.actions[planned:]
        alike = self.data_parallel.same_every_micro_batch
        self.steps = [
            ((kind, chunk) if alike else place, micro_batch)
            for place, (kind, micro_batch, chunk) in enumerate(self.actions)
        ]

    def step(self) -> Steps:
        """One iteration of one rank."""
        if self.passes:
            yield self.rank.program(self.passes, self.micro_batches, over="pipeline", name="micro-batches")
        for action in self.completing:
            self.complete(self.described[action.kind, action.chunk])
        for place, left_out in self.rank.steps_of(self.steps):
            yield from self.perform(self.actions[place], left_out)
        yield from awaited(self.data_parallel.finish())
        sent, self.sent = self.sent, []
        yield self.rank.wait(sent)
        if shared := self.plan.shared_gradient_bytes:
            ends = self.rank.layout.ends(self.rank.index, "pipeline")
            yield self.rank.all_reduce(shared, over=ends, name="tied embeddings")
        if self.schedule.bidirectional:
            opposite = self.rank.layout.opposite(self.rank.index, "pipeline")
            yield self.rank.all_reduce(self.plan.gradient_bytes_of_directions, over=opposite, name="both directions")
        self.rank.mark("optimizer")
        yield self.data_parallel.update()
        if event := self.data_parallel.after_optimizer():
            yield event

    def perform(self, action: Action, left_out: int) -> Steps:
        """Receive the inputs of a pass, run it piece by piece, and send its outputs.

        The micro-batches are counted without those that were left out.
        """
        described, last = self.described[action.kind, action.chunk], action in self.last
        micro_batch = action.micro_batch - left_out
        self.rank.mark(action.kind)
        if described.receive is not None:
            source, _, tag = described.receive
            yield self.rank.recv(source, tag=(tag, micro_batch))
        self.rank.synchronize()
        if event := self.begin(described, last):
            yield event
        self.take(described.takes)
        for piece in described.pieces:
            if event := self.before(described.kind, piece, last):
                yield event
            self.take(piece.takes)
            yield from self.rank.run(piece.operations)
            self.give(piece.gives)
            if event := self.after(described.kind, piece, last):
                yield event
        self.give(described.gives)
        if described.send is not None:
            target, nbytes, tag = described.send
            sent = self.rank.send(target, nbytes, tag=(tag, micro_batch), name="boundary")
            self.sent.append(sent)
            if self.plan.waits_for_sends:
                yield sent

    def begin(self, described: Description, last: bool) -> Event | None:
        """Call the hook before a pass; passes of put-off weight gradients have none."""
        if described.kind is ActionKind.WEIGHT:
            return None
        blocks, forward = tuple(piece.block for piece in described.pieces), described.kind is ActionKind.FORWARD
        return self.data_parallel.begin_pass(blocks, forward=forward, last_micro_batch=last)

    def before(self, kind: ActionKind, piece: Piece, last: bool) -> Event | None:
        """Call the hook before a piece."""
        if kind is ActionKind.FORWARD:
            return self.data_parallel.before_forward(piece.block)
        if kind is ActionKind.BACKWARD:
            return self.data_parallel.before_backward(piece.block, last_micro_batch=last)
        return None

    def after(self, kind: ActionKind, piece: Piece, last: bool) -> Event | None:
        """Call the hook after a piece; in a backward pass, only if the block's gradients are complete."""
        if kind is ActionKind.FORWARD:
            return self.data_parallel.after_forward(piece.block)
        if piece.completes:
            return self.data_parallel.after_backward(piece.block, last_micro_batch=last)
        return None

    def complete(self, described: Description) -> None:
        """Call the hooks of the blocks whose gradients a planned pass completed."""
        for piece in described.pieces:
            if piece.completes:
                self.data_parallel.after_backward(piece.block, last_micro_batch=True)

    def take(self, held: Held) -> None:
        """Allocate memory."""
        for name, nbytes in held:
            if nbytes:
                self.rank.allocate(nbytes, name=name)

    def give(self, held: Held) -> None:
        """Release memory."""
        for name, nbytes in held:
            if nbytes:
                self.rank.release(nbytes, name=name)

    def plan_passes(self, actions: Iterable[Action]) -> tuple[Pass, ...]:
        """Return the passes of actions without hooks."""
        passes = {step: self.plan_pass(described) for step, described in self.described.items()}
        return tuple(passes[kind, chunk] for kind, _, chunk in actions)

    def plan_pass(self, described: Description) -> Pass:
        """Return a described pass as one operation of a program."""
        receive, send = described.receive, described.send
        takes, gives = held_by_whole(described)
        return self.rank.plan_pass(
            (operation for piece in described.pieces for operation in piece.operations.run),
            receive=(receive.rank, receive.tag) if receive is not None else None,
            send=send,
            takes=takes,
            gives=gives,
            waits=self.plan.waits_for_sends and send is not None,
        )

    def last_passes(self) -> dict[Step, int]:
        """Return the position of the last pass of each kind through each chunk, which completes its gradients."""
        kinds = len(self.plan.chunks) * (3 if self.schedule.splits_backward else 2)
        last: dict[Step, int] = {}
        for place in reversed(range(len(self.actions))):
            kind, _, chunk = self.actions[place]
            last.setdefault((kind, chunk), place)
            if len(last) == kinds:
                break
        return last

    def planned(self, last: Mapping[Step, int]) -> int:
        """Number of leading actions that can be planned."""
        if self.data_parallel.after_passes:
            return len(self.actions)
        return 0 if self.data_parallel.every_micro_batch else self.before_gradients(last)

    def before_gradients(self, last: Mapping[Step, int]) -> int:
        """Number of actions before the first one that completes gradients of a block."""
        return min(
            place for step, place in last.items() if any(piece.completes for piece in self.described[step].pieces)
        )


def awaited(hook: Event | Steps | None) -> Steps:
    """Wait for the result of a hook: an event, or several in sequence."""
    if isinstance(hook, Generator):
        yield from hook
    elif hook is not None:
        yield hook
