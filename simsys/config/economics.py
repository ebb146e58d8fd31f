"""The experiment file's `economics`: what adds to the price and the power of GPUs, which their profiles have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simsys.config.base import FrozenModel
from simsys.units import Dimension, GramsPerKwh, Quantity

WORLD_G_PER_KWH = 481.0
"""World average of 2023 (Ember, July 2024)."""
IDLE_SHARE = 0.15
"""Power of an idle GPU with a model in its memory, as a share of its thermal design power: an assumption."""


class EconomicsConfig(FrozenModel):
    """Energy and CO2 beyond the GPUs' own power and price, which are in their profiles (`simsys list gpus`).

    `pue` is the power usage effectiveness of the data centre, its whole power over that of its computers; 1 counts the
    computers alone. The average of surveyed data centres was between 1.55 and 1.59 from 2020 to 2023, and less in
    large ones (Uptime Institute 2023). `carbon_intensity` is that of the electricity; by default the world average of
    2023 (Ember, July 2024), where Norway has 30 g/kWh and India 713 g/kWh (ibid.). `idle_share` is the power of an
    idle GPU with a model in its memory over its thermal design power; the default is an assumption.
    """

    pue: Annotated[float, Field(ge=1.0, le=5.0)] = Field(
        default=1.0, description="Power of the data centre over that of its computers; 1 counts GPUs alone"
    )
    carbon_intensity: GramsPerKwh | None = Field(
        default=None, description="CO2 of the electricity; by default the world average of 2023"
    )
    idle_share: Annotated[float, Quantity(Dimension.FRACTION, zero=True)] = Field(
        default=IDLE_SHARE, description="Power of an idle GPU as a share of its thermal design power"
    )

    @property
    def g_per_kwh(self) -> float:
        """Carbon intensity of the electricity."""
        return WORLD_G_PER_KWH if self.carbon_intensity is None else self.carbon_intensity
