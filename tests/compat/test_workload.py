"""Iterations on an engine of one's own, with a communication pattern of one's own."""

from __future__ import annotations

from enum import Enum

import pytest

from simsys.compat import (
    DistributedAISimulator,
    DistributedTrainingWorkload,
    Event,
    EventType,
    HardwareConfig,
    ResourceManager,
    SimulationConfig,
    SimulationEngine,
    create_small_scale_config,
)


class CommunicationPattern(Enum):
    MY_PATTERN = "my_pattern"


class OwnWorkload(DistributedTrainingWorkload):
    """Sends a hundredth of a GB in each of three steps."""

    def _schedule_my_pattern(
        self, engine: SimulationEngine, resources: ResourceManager, start_time: float, iteration_id: int
    ) -> None:
        assert self.communication_pattern == CommunicationPattern.MY_PATTERN
        num_steps = 3
        for step in range(num_steps):
            # Schedule send/receive events
            name = f"step {step} of iteration {iteration_id}"
            engine.schedule_event(Event(start_time, EventType.COMM_START, name=name))
            start_time += resources.communication_time(0.01)
            engine.schedule_event(Event(start_time, EventType.COMM_END, name=name))


class OwnRing(DistributedTrainingWorkload):
    """The ring of the design's page: reduce-scatter, then all-gather."""

    total_gradient_size, num_nodes = 0.5, 4

    def _schedule_ring_allreduce(
        self, engine: SimulationEngine, resources: ResourceManager, start_time: float, iteration_id: int
    ) -> None:
        now = start_time

        def schedule_send_receive(chunk_size: float) -> None:
            nonlocal now
            engine.schedule_event(Event(now, EventType.ALLREDUCE_START))
            now += resources.communication_time(chunk_size)
            engine.schedule_event(Event(now, EventType.ALLREDUCE_END))

        chunk_size = self.total_gradient_size / self.num_nodes

        # Reduce-scatter
        for _ in range(self.num_nodes - 1):
            schedule_send_receive(chunk_size)

        # All-gather
        for _ in range(self.num_nodes - 1):
            schedule_send_receive(chunk_size)


@pytest.fixture
def config() -> SimulationConfig:
    config = create_small_scale_config()
    config.training.num_iterations = 1
    config.collect_detailed_stats = True
    return config


def test_a_new_communication_pattern(config: SimulationConfig) -> None:
    engine, resources = SimulationEngine(), ResourceManager(HardwareConfig(profile="dgx-a100"))
    OwnWorkload(config, CommunicationPattern.MY_PATTERN).schedule_iteration(engine, resources, 1.0, iteration_id=7)
    stats = engine.run(collect_history=True)
    assert stats["events_by_type"]["COMM_END"] == 3
    assert not any(kind.startswith("ALLREDUCE") for kind in stats["events_by_type"])
    own = [event for event in engine.event_history if event.event_type == EventType.COMM_START]
    computed = [event.timestamp for event in engine.event_history if event.event_type == EventType.COMPUTE_END]
    assert own[0].name == "step 0 of iteration 7"
    assert own[0].timestamp == max(computed)
    assert stats["simulated_s"] == pytest.approx(
        max(computed) + 3 * ResourceManager(HardwareConfig(profile="dgx-a100")).communication_time(0.01)
    )


def test_a_ring_of_ones_own(config: SimulationConfig) -> None:
    engine, hardware = SimulationEngine(), HardwareConfig(profile="dgx-a100", num_nodes=4)
    OwnRing(config, "ring_allreduce").schedule_iteration(engine, ResourceManager(hardware))
    stats = engine.run(collect_history=True)
    assert stats["events_by_type"]["ALLREDUCE_END"] == 6
    starts = [event.timestamp for event in engine.event_history if event.event_type == EventType.ALLREDUCE_START]
    step_s = ResourceManager(hardware).communication_time(0.5 / 4)
    assert stats["simulated_s"] - min(starts) == pytest.approx(6 * step_s)


def test_patterns_of_simsys_have_the_events_of_a_run(config: SimulationConfig) -> None:
    simulator = DistributedAISimulator(config)
    simulator.run()
    engine = SimulationEngine()
    DistributedTrainingWorkload(config).schedule_iteration(engine, ResourceManager())
    engine.run(collect_history=True)
    expected = [(event.timestamp, event.event_type, event.node_id) for event in simulator.engine.event_history]
    assert [(event.timestamp, event.event_type, event.node_id) for event in engine.event_history] == expected
    tree = SimulationEngine()
    DistributedTrainingWorkload(config, "tree").schedule_iteration(tree, ResourceManager())
    assert tree.run()["simulated_s"] > engine.current_time, "a tree sends more over each link than a ring"
