"""The events of a training iteration on an engine of one's own, with a communication pattern of one's own."""

from __future__ import annotations

from enum import Enum
from typing import Any

from simsys.compat.config import SimulationConfig, core_of
from simsys.compat.engine import Event, SimulationEngine
from simsys.compat.resources import ResourceManager
from simsys.compat.simulator import DistributedAISimulator
from simsys.config.experiment import SimulationConfig as Core
from simsys.metrics.history import EventType, HistoryEvent

COMPUTATION = (EventType.COMPUTE_START, EventType.COMPUTE_END)


class DistributedTrainingWorkload:
    """Iterations of a training scenario as events of a `SimulationEngine`.

    They are the events of a simulation of the scenario. A subclass with a method ``_schedule_PATTERN(engine,
    resources, start_time, iteration_id)`` has a pattern of its own: computations are those of the simulation, and the
    method schedules the communication that follows on them.

    Args:
        config: The scenario.
        communication_pattern: A pattern of simsys, such as ``ring``, or of the subclass; a name or a member of an
            `Enum` with the name as value. By default the pattern of the scenario.
    """

    def __init__(self, config: SimulationConfig | Core, communication_pattern: str | Enum | None = None) -> None:
        self.config = core_of(config)
        self.communication_pattern = communication_pattern

    def schedule_iteration(
        self, engine: SimulationEngine, resources: ResourceManager, start_time: float = 0.0, iteration_id: int = 0
    ) -> None:
        """Schedule the events of an iteration.

        Args:
            engine: Lets them happen.
            resources: Given to a pattern of the subclass.
            start_time: When the iteration begins, in seconds.
            iteration_id: Its number, given to a pattern of the subclass.
        """
        pattern = self.communication_pattern
        name = pattern.value if isinstance(pattern, Enum) else pattern
        own: Any = getattr(self, f"_schedule_{name}", None)
        events = self._events(None if own is not None else name)
        if own is not None:
            events = [event for event in events if event.event_type in COMPUTATION]
        for event in events:
            at_s = start_time + event.timestamp
            engine.schedule_event(Event(at_s, event.event_type, event.node_id, name=event.name))
        if own is not None:
            ended_s = max((event.timestamp for event in events), default=0.0)
            own(engine, resources, start_time + ended_s, iteration_id)

    def _events(self, pattern: str | None) -> list[HistoryEvent]:
        """The events of one iteration in a simulation of the scenario."""
        settings: dict[str, Any] = {"simulation.collect_events": True, "training.num_iterations": 1}
        if pattern is not None:
            settings["training.communication_pattern"] = pattern
        simulator = DistributedAISimulator(self.config.with_(settings))
        simulator.run()
        return simulator.engine.event_history
