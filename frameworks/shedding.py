"""A router that rejects requests while replicas are saturated or late, and routes the others by another router."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from simsys.framework import FRAMEWORKS, Engine, Router, register
from simsys.serving.admission import Admission, AdmissionOptions
from simsys.serving.prompt_load import PromptLoad


@register("shedding")
class Shedding(Router):
    """Rejects requests with status 429 by the rules of `Admission`, and asks the other router for the others."""

    sheds = True

    class Options(AdmissionOptions):
        """The other router, with its options."""

        router: str = "least_outstanding"
        router_options: dict[str, Any] = Field(default_factory=dict)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.load, inner = PromptLoad(), FRAMEWORKS.get(self.options.router, Router)
        self.admission = Admission(self.options, self.load)
        self.router = inner(self.replicas, args[1], inner.Options(**self.options.router_options))

    def refusal(self, request: int) -> str:
        """Why it is rejected, by this router or by the other one."""
        reason = self.admission.refusal(request, self.priority_of(request), self.replicas)
        return reason or (self.router.refusal(request) if self.router.sheds else "")

    def route(self, request: int) -> Engine:
        """As the other router."""
        return self.load.send(self.router.route(request), request)
