"""What launching kernels costs an engine that serves: the host runs ahead of the GPU, or a graph is replayed."""

from __future__ import annotations

from dataclasses import dataclass

from simsys.model.batch import Batch


@dataclass(frozen=True, slots=True)
class Launches:
    """How a forward pass reaches the GPU.

    Args:
        per_layer_s: How long the host needs to launch the kernels of one layer one by one.
        graph_tokens: Most tokens of a pass that is replayed as a CUDA graph, which needs no such launches; 0 if none.
        graph_prompts: Whether passes with prompts are replayed too.
        prompt_layer_s: What a layer of a pass with prompts takes besides, however long its kernels are.
        token_layer_s: The same of each token of a pass with prompts that has more than so many.
        above_tokens: How many.
    """

    per_layer_s: float = 0.0
    graph_tokens: float = 0.0
    graph_prompts: bool = False
    prompt_layer_s: float = 0.0
    token_layer_s: float = 0.0
    above_tokens: float = 0.0

    def seconds_per_layer(self, batch: Batch) -> float:
        """The least time that a layer of this pass takes, whatever its kernels do."""
        recorded = self.graph_prompts or batch.attention_pairs == 0.0
        return 0.0 if recorded and batch.tokens <= self.graph_tokens else self.per_layer_s

    def prompt_seconds_per_layer(self, tokens: float) -> float:
        """What a layer of a pass with prompts, of so many tokens, takes besides."""
        return self.prompt_layer_s + (self.token_layer_s * tokens if tokens > self.above_tokens else 0.0)


NO_LAUNCHES = Launches()
