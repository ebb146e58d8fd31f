"""Times of the host of a server, at the speed of its cores."""

from __future__ import annotations

from dataclasses import dataclass

from simsys.build.replayed_steps import ReplayedSteps
from simsys.config.engine_schema import EngineProfile
from simsys.costs.launches import Launches


@dataclass(frozen=True)
class HostTimes:
    """Times of the host of one replica.

    Args:
        engine: The engine.
        ranks: Ranks of the replica.
        speed: Speed of the host relative to the hosts of engines' host times.
        stream_interval: Tokens of a sequence that are sent at once.
    """

    engine: EngineProfile
    ranks: int
    speed: float
    stream_interval: int

    @property
    def step_s(self) -> float:
        """Time of a step (s), without the time of its sequences."""
        return self.engine.of_a_step(self.ranks) / self.speed

    @property
    def sequence_s(self) -> float:
        """Mean time of a sequence in a step (s)."""
        return self.engine.of_a_sequence(self.stream_interval) / self.speed

    @property
    def cached_token_s(self) -> float:
        """Time of a cached token of a sequence in a step that decodes (s)."""
        return (self.engine.per_cached_token or 0.0) / self.speed

    @property
    def hand_over_s(self) -> float:
        """Time to hand one token of a long pass to all ranks other than the first (s)."""
        hand_over = self.engine.prompt_hand_over
        return 0.0 if hand_over is None else hand_over.per_token * (self.ranks - 1) / self.speed

    def launches(self, graphs: ReplayedSteps, layers: int) -> Launches:
        """The launch of passes on the GPU.

        Args:
            graphs: The steps that are replayed as CUDA graphs.
            layers: Layers of the model.
        """
        hand_over = self.engine.prompt_hand_over
        return Launches(
            (self.engine.launch_per_layer or 0.0) / self.speed,
            graphs.decode_tokens,
            graphs.prompt_tokens,
            self.engine.per_prompt_layer or 0.0,
            token_layer_s=self.hand_over_s / max(1, layers),
            above_tokens=0.0 if hand_over is None else float(hand_over.above),
            cached_token_s=self.cached_token_s,
        )
