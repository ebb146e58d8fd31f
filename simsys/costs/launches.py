"""What launching kernels costs an engine that serves: the host runs ahead of the GPU, or a graph is replayed."""

from __future__ import annotations

from dataclasses import dataclass

PerLayer = tuple[float, float]
"""The lower limit of the time of a layer, and additional time that does not depend on its kernels; in seconds."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Kernel launches of a forward pass.

    Args:
        per_layer_s: Host time to launch the kernels of one layer eagerly.
        graph_tokens: Largest number of tokens of a pass without prompts that is replayed as a CUDA graph, without
            launches; 0 if none.
        prompt_graph_tokens: The same of a pass with prompts.
        prompt_layer_s: Additional time of a layer of a pass with prompts, independent of its kernels.
        token_layer_s: Additional time per token of passes with more than `above_tokens` prompt tokens.
        above_tokens: The limit for `token_layer_s`.
        cached_token_s: Time of the host per cached token of the sequences that decode in a pass.
    """

    per_layer_s: float = 0.0
    graph_tokens: float = 0.0
    prompt_graph_tokens: float = 0.0
    prompt_layer_s: float = 0.0
    token_layer_s: float = 0.0
    above_tokens: float = 0.0
    cached_token_s: float = 0.0

    def per_layer(self, tokens: float, prompts: bool) -> PerLayer:
        """What launches cost a pass by its tokens, and by whether there are prompts among them."""
        if not prompts:
            return 0.0 if tokens <= self.graph_tokens else self.per_layer_s, 0.0
        more_s = self.prompt_layer_s + (self.token_layer_s * tokens if tokens > self.above_tokens else 0.0)
        return 0.0 if tokens <= self.prompt_graph_tokens else self.per_layer_s, more_s


NO_LAUNCHES = Launches()
