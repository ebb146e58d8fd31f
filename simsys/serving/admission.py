"""Which requests a router rejects with status 429: while all replicas are saturated, or if all would be late.

Saturation is that of the Kubernetes inference gateway and llm-d (gateway-api-inference-extension,
pkg/epp/saturationdetector/saturationdetector.go and config.go): a replica has capacity if at most
`queue_depth_threshold` requests wait there and at most `kv_cache_util_threshold` of its KV cache is in use. Their
metrics are up to 200 ms old; here they are those of the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import NonNegativeInt

from simsys.serving.prompt_load import PromptLoad
from simsys.serving.router import Router
from simsys.units import Fraction, Seconds

if TYPE_CHECKING:
    from simsys.serving.engine import Engine

SATURATED, LATE = "429: saturated", "429: predicted to miss the SLO"
"""Reasons to reject a request."""


class AdmissionOptions(Router.Options):
    """Thresholds with the defaults of the saturation detector, and the TTFT that a replica must be predicted to meet.

    Requests of priorities up to `keeps_up_to` are never rejected.
    """

    queue_depth_threshold: NonNegativeInt = 5
    kv_cache_util_threshold: Fraction = 0.8
    ttft_slo: Seconds | None = None
    keeps_up_to: int | None = None


class Admission:
    """Rejects requests.

    Args:
        options: The thresholds.
        load: The prompts of the replicas, for predictions.
    """

    def __init__(self, options: AdmissionOptions, load: PromptLoad) -> None:
        self._options, self._load = options, load

    def refusal(self, request: int, priority: int, replicas: Sequence[Engine]) -> str:
        """Why a request is rejected; empty if it is not."""
        options, slo_s = self._options, self._options.ttft_slo
        if options.keeps_up_to is not None and priority <= options.keeps_up_to:
            return ""
        if not any(map(self._has_capacity, replicas)):
            return SATURATED
        late = slo_s is not None and min(self._load.ttft_s(each, request) for each in replicas) > slo_s
        return LATE if late else ""

    def _has_capacity(self, replica: Engine) -> bool:
        """Whether a replica is within both thresholds."""
        used = 1.0 - replica.free_blocks() / replica.kv.num_blocks
        return replica.queued <= self._options.queue_depth_threshold and used <= self._options.kv_cache_util_threshold
