"""The composed training step: micro-batches in the order of a pipeline schedule, then the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
from simsys.parallel.training import Part


@register("training")
class Training(TrainingFramework):
    """Data parallelism acts through hooks around the blocks, tensor parallelism lies in the blocks' parts."""

    def __init__(self, rank: Rank, plan: TrainingPlan, data_parallel: DataParallel, schedule: Schedule) -> None:
        super().__init__(rank, plan, data_parallel, schedule)
        self.pipeline = rank.layout.group(rank.index, "pipeline").ranks
        self.stage = self.pipeline.index(rank.index)
        self.actions = schedule.actions(self.stage, len(self.pipeline), plan.micro_batches, len(plan.chunks))
        self.last = self.last_passes()
        planned = 0 if data_parallel.every_micro_batch else self.before_gradients()
        self.program = self.plan_passes(self.actions[:planned])
        self.actions = self.actions[planned:]
        self.sent: list[Event] = []

    def step(self) -> Steps:
        """One iteration of one rank."""
        if self.program:
            yield self.rank.program(self.program, over="pipeline", name="micro-batches")
        for action in self.actions:
            yield from self.perform(action)
        if event := self.data_parallel.finish():
            yield event
        sent, self.sent = self.sent, []
        yield self.rank.wait(sent)
        if shared := self.plan.shared_gradient_bytes:
            ends = self.rank.layout.ends(self.rank.index, "pipeline")
            yield self.rank.all_reduce(shared, over=ends, name="tied embeddings")
        self.rank.mark("optimizer")
        yield self.rank.compute(self.plan.optimizer, name="optimizer")
        if event := self.data_parallel.after_optimizer():
            yield event

    def perform(self, action: Action) -> Steps:
        """Receive what the pass needs, run it, hand on what comes of it."""
        self.rank.mark(action.kind)
        source, target = self.partners(action)
        if source:
            yield self.rank.recv(source[0], tag=(action.kind, action.micro_batch, self.place(action)))
        yield from {
            ActionKind.FORWARD: self.forward_pass,
            ActionKind.BACKWARD: self.backward_pass,
            ActionKind.WEIGHT: self.weight_pass,
        }[action.kind](action)
        if target:
            tag = (action.kind, action.micro_batch, target[1])
            self.sent.append(self.rank.send(target[0], self.message_bytes(action), tag=tag, name="boundary"))

    def forward_pass(self, action: Action) -> Steps:
        """One micro-batch forward through one chunk."""
        blocks, hooks = self.plan.chunks[action.chunk], self.data_parallel
        if event := hooks.begin_pass(blocks, forward=True, last_micro_batch=action in self.last):
            yield event
        for block in blocks:
            if event := hooks.before_forward(block):
                yield event
            yield from self.run(block.forward, "forward")
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
            yield from self.run(block.backward, "backward")
            if not block.weight and (event := hooks.after_backward(block, last_micro_batch=last)):
                yield event

    def weight_pass(self, action: Action) -> Steps:
        """The gradients of weights that were put off."""
        for block in reversed(self.plan.chunks[action.chunk]):
            yield from self.run(block.weight, "weight")
            if event := self.data_parallel.after_backward(block, last_micro_batch=action in self.last):
                yield event

    def run(self, parts: Iterable[Part], name: str) -> Steps:
        """Compute, and exchange partial results within the tensor-parallel group."""
        for part in parts:
            yield self.rank.compute(part.work, name=name)
            if part.kind is not None:
                yield self.rank.collective(part.kind, part.nbytes, over="tensor", name=f"tensor {part.kind}")

    def before_gradients(self) -> int:
        """How many actions precede the first that completes gradients."""
        final = [index for index, a in enumerate(self.actions) if a in self.last and a.kind is not ActionKind.FORWARD]
        return final[0]

    def plan_passes(self, actions: Iterable[Action]) -> list[Pass]:
        """Actions at which nothing but the passes themselves happens."""
        runs: dict[tuple[ActionKind, int], tuple[PassOperation, ...]] = {}
        passes = []
        for action in actions:
            key = action.kind, action.chunk
            if key not in runs:
                runs[key] = tuple(self.operations(action))
            source, target = self.partners(action)
            receive = (source[0], (action.kind, action.micro_batch, self.place(action))) if source else None
            tag = (action.kind, action.micro_batch, target[1]) if target else None
            send = (target[0], self.message_bytes(action), tag) if target else None
            passes.append(self.rank.plan_pass(runs[key], receive=receive, send=send))
        return passes

    def operations(self, action: Action) -> Iterator[PassOperation]:
        """What a pass computes and exchanges, block by block."""
        blocks = self.plan.chunks[action.chunk]
        for block in blocks if action.kind is ActionKind.FORWARD else blocks[::-1]:
            for part in getattr(block, action.kind):
                yield self.rank.plan_compute(part.work, name=action.kind)
                if part.kind is not None:
                    yield self.rank.plan_collective(part.kind, part.nbytes, over="tensor", name=f"tensor {part.kind}")

    def partners(self, action: Action) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Where a pass receives from and sends to."""
        if action.kind is ActionKind.WEIGHT:
            return None, None
        direction = 1 if action.kind is ActionKind.FORWARD else -1
        return self.neighbour(action, -direction), self.neighbour(action, direction)

    def message_bytes(self, action: Action) -> float:
        """What a micro-batch hands to the next chunk of the model, or its gradient to the one before."""
        sizes = self.plan.handed_bytes if action.kind is ActionKind.FORWARD else self.plan.returned_bytes
        return sizes[action.chunk]

    def place(self, action: Action) -> int:
        """A chunk's number in the order of the model."""
        return action.chunk * len(self.pipeline) + self.stage

    def neighbour(self, action: Action, direction: int) -> tuple[int, int] | None:
        """The rank that holds the next (1) or previous (-1) chunk of the model, and that chunk's number."""
        place = self.place(action) + direction
        if not 0 <= place < len(self.pipeline) * len(self.plan.chunks):
            return None
        return self.pipeline[place % len(self.pipeline)], place

    def last_passes(self) -> frozenset[Action]:
        """The last pass of each kind through each chunk: after it, the gradients of the chunk are complete."""
        return frozenset({(action.kind, action.chunk): action for action in self.actions}.values())
