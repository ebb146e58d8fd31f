"""A router by class of service, as that of llm-d: where the first token is predicted to meet the SLO of the class."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from simsys.framework import Engine, Router, register
from simsys.serving.admission import LATE
from simsys.serving.headroom import HeadroomChoice, HeadroomOptions
from simsys.serving.prompt_load import PromptLoad
from simsys.units import Seconds


@register("slo_class")
class SLOClass(Router):
    """Draws by headroom (`HeadroomChoice`); where no replica has any, the lowest classes are shed."""

    sheds = True

    class Options(HeadroomOptions):
        """SLO by priority (of others 0 s, so the least late); priorities from `sheddable_from` on may be shed."""

        ttft_slo: dict[int, Seconds] = Field(default_factory=dict)
        sheddable_from: int | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.load, self.choice = PromptLoad(), HeadroomChoice(self.options, self.draw, self.draw_by)

    def headroom(self, replica: Engine, request: int) -> tuple[float, float]:
        """Seconds until the SLO of the class, and KV blocks left free."""
        slo_s, kv = self.options.ttft_slo.get(self.priority_of(request), 0.0), replica.kv
        blocks = replica.free_blocks() - kv.blocks_for(self.load.new_tokens(replica, request))
        return slo_s - self.load.ttft_s(replica, request), blocks

    def refusal(self, request: int) -> str:
        """Whether a request of a low class would be late everywhere."""
        lowest = self.options.sheddable_from
        if lowest is None or self.priority_of(request) < lowest:
            return ""
        late = all(min(self.headroom(each, request)) <= 0 for each in self.replicas)
        return LATE if late else ""

    def route(self, request: int) -> Engine:
        """Draw by headroom."""
        prompt = self.replicas[0].sequences.prompt_tokens[request]
        headrooms = [self.headroom(each, request) for each in self.replicas]
        near = [each.cached_tokens(request) / prompt for each in self.replicas]
        return self.load.send(self.replicas[self.choice.chosen(headrooms, near, self.replicas)], request)
