"""The composed training step: micro-batches forward and backward through the blocks, then the optimizer."""

from __future__ import annotations

from collections.abc import Iterable

from simsys.framework import Steps, TrainingFramework, register
from simsys.parallel.training import Part


@register("training")
class Training(TrainingFramework):
    """Gradient accumulation over micro-batches; data parallelism acts through hooks around the blocks."""

    def step(self) -> Steps:
        """One iteration of one rank."""
        blocks, hooks = self.plan.blocks, self.data_parallel
        for micro_batch in range(self.plan.micro_batches):
            last = micro_batch == self.plan.micro_batches - 1
            self.rank.mark("forward")
            for block in blocks:
                if event := hooks.before_forward(block):
                    yield event
                yield from self.run(block.forward, "forward")
                if event := hooks.after_forward(block):
                    yield event
            self.rank.mark("backward")
            for block in reversed(blocks):
                if event := hooks.before_backward(block, last_micro_batch=last):
                    yield event
                yield from self.run(block.backward, "backward")
                if event := hooks.after_backward(block, last_micro_batch=last):
                    yield event
        if event := hooks.finish():
            yield event
        self.rank.mark("optimizer")
        yield self.rank.compute(self.plan.optimizer, name="optimizer")

    def run(self, parts: Iterable[Part], name: str) -> Steps:
        """Compute, and exchange partial results within the tensor-parallel group."""
        for part in parts:
            yield self.rank.compute(part.work, name=name)
            if part.kind is not None:
                yield self.rank.collective(part.kind, part.nbytes, over="tensor", name=f"tensor {part.kind}")
