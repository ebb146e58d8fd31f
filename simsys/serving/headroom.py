"""Choice of a replica by its headroom, as the SLO-aware router of the Kubernetes inference gateway and llm-d chooses.

Source: gateway-api-inference-extension 1.2, pkg/epp/scheduling/framework/plugins/multi/slo_aware_router/plugin.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from simsys.serving.router import Router
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    from simsys.serving.engine import Engine

Share = Annotated[float, Field(ge=0, le=1)]
POSITIVE_RANGE, NEGATIVE_RANGE = 99, 80
"""Ranges of the weights of replicas with headroom, and of replicas without (the constants of the source)."""


class HeadroomOptions(Router.Options):
    """Names and defaults of the source; `headroom_kv_weight` in place of its weight of TPOT."""

    headroom_selection_strategy: Literal["least", "most"] = "least"
    headroom_ttft_weight: Share = 0.8
    headroom_kv_weight: Share = 0.2
    affinity_gate_tau: Share = 0.8
    epsilon: Share = 0.01


class HeadroomChoice:
    """Draws a replica: one with headroom if there is any, with a probability `epsilon` another one.

    Args:
        options: The options.
        draw: A random number from 0 to 1.
        draw_by: A random place, by weights.
    """

    def __init__(
        self, options: HeadroomOptions, draw: Callable[[], float], draw_by: Callable[[Sequence[float]], int]
    ) -> None:
        self._options, self._draw, self._draw_by = options, draw, draw_by

    def chosen(
        self, headrooms: Sequence[tuple[float, float]], near: Sequence[float], engines: Sequence[Engine]
    ) -> int:
        """The place of the chosen replica.

        Args:
            headrooms: Seconds until the SLO and KV blocks left free, of each replica.
            near: Share of the prompt in the cache of each replica.
            engines: The replicas.
        """
        good = [place for place, each in enumerate(headrooms) if min(each) > 0]
        late = [place for place, each in enumerate(headrooms) if min(each) <= 0]
        if good and not (late and self._draw() < self._options.epsilon):
            places = self._gated(good, near)
            packs = self._options.headroom_selection_strategy == "least"
            weights = self._weights([headrooms[place] for place in places], POSITIVE_RANGE, packs=packs)
        else:
            places = self._gated([place for place in late if not engines[place].outstanding] or late, near)
            missed = [(min(0.0, headrooms[place][0]), min(0.0, headrooms[place][1])) for place in places]
            weights = self._weights(missed, NEGATIVE_RANGE, packs=False)
        return places[self._draw_by(weights)]

    def _gated(self, places: list[int], near: Sequence[float]) -> list[int]:
        """Those with most of the prompt in their cache, if there are any; all with a probability `epsilon`."""
        sticky = [place for place in places if near[place] >= self._options.affinity_gate_tau]
        return sticky if sticky and self._draw() >= self._options.epsilon else places

    def _weights(self, headrooms: Sequence[tuple[float, float]], most: int, *, packs: bool) -> list[int]:
        """Weights by headroom, each kind scaled to 0 to 1 over the replicas; if it packs, less is preferred."""
        shares = self._options.headroom_ttft_weight, self._options.headroom_kv_weight
        ranges = [(min(column), max(column)) for column in zip(*headrooms, strict=True)]
        weights = []
        for each in headrooms:
            combined = ordered_sum(
                share * ((value - low) / (high - low) if high > low else 0.5)
                for share, value, (low, high) in zip(shares, each, ranges, strict=True)
            ) / (ordered_sum(shares) or 1.0)
            weights.append(int((1.0 - combined if packs else combined) * most) + 2)
        return weights
