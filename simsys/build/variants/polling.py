"""An engine that receives new requests at intervals: SGLang with ``--scheduler-recv-interval``."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.serving import ServingConfig
from simsys.serving.intake import Intake
from simsys.serving.polling import Polling


@variant
class PollingVariant(Variant):
    """Requests are received at intervals of several decode steps."""

    def on(self, settings: ServingConfig) -> bool:
        """Whether the interval is above 1."""
        return settings.scheduler_recv_interval > 1

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The interval between receptions."""
        interval = setup.settings.scheduler_recv_interval
        yield f"new requests are received every {interval} decode steps, after prefills, and when idle"

    def intake(self, pool: ServingMemory, together: list[Intake]) -> Intake:
        """Polls."""
        return Polling(pool.settings.scheduler_recv_interval)
