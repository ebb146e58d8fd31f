"""A router that weighs cached prefixes against load, as NVIDIA Dynamo's KV router does.

Cost of a replica: ``overlap_score_weight`` x prefill blocks + decode blocks. Prefill blocks are the tokens of prompts
without a first token there, and of this one without its cached prefix, over the block size; decode blocks are those in
use and those of this prompt (Dynamo 0.8, page "Router Design"; lib/kv-router/src/scheduling/selector.rs).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from simsys.framework import Engine, Router, register
from simsys.serving.prompt_load import PromptLoad


@register("kv_aware")
class KVAware(Router):
    """The replica of the lowest cost; at a temperature, one drawn by the softmax of costs scaled to 0 to 1."""

    class Options(Router.Options):
        """Names and defaults of Dynamo."""

        overlap_score_weight: Annotated[float, Field(ge=0)] = 1.0
        router_temperature: Annotated[float, Field(ge=0)] = 0.0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.load = PromptLoad()

    def route(self, request: int) -> Engine:
        """Compare costs."""
        costs = [self.cost(replica, self.load.new_tokens(replica, request)) for replica in self.replicas]
        return self.load.send(self.replicas[self.draw_by_cost(costs, self.options.router_temperature)], request)

    def cost(self, replica: Engine, new_tokens: int) -> float:
        """In blocks."""
        kv, prefill_tokens = replica.kv, self.load.tokens(replica) + new_tokens
        decode_blocks = kv.num_blocks - replica.free_blocks() + kv.blocks_for(new_tokens)
        return float(self.options.overlap_score_weight * prefill_tokens / kv.block_size + decode_blocks)
