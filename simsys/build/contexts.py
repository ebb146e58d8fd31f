"""Mean lengths of the contexts of a serving workload: tokens inside attention windows, and tokens of a sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from simsys.build.workload import build_requests
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model
from simsys.model.precision import Precision
from simsys.model.windows import WindowUse, has_windows, in_serving
from simsys.serving.requests import RequestTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Contexts:
    """The contexts of a workload while its sequences decode; a sequence counts in each of its steps.

    Args:
        requests: The requests, at least one.
    """

    def __init__(self, requests: RequestTable) -> None:
        import numpy as np

        self._prompts = np.asarray(requests.prompt_tokens, dtype=np.float64)
        self._outputs = np.asarray(requests.output_tokens, dtype=np.float64)
        self._lengths = self._prompts + self._outputs

    @property
    def longest(self) -> float:
        """Tokens of the longest prompt with its answer."""
        return float(self._lengths.max())

    @property
    def mean_tokens(self) -> float:
        """Tokens of context of a decoding sequence."""
        return float(((self._prompts + self._outputs / 2) * self._outputs).sum() / self._outputs.sum())

    def in_window(self, window: int) -> WindowUse | None:
        """Tokens that queries see in a window of this number of tokens; None if no sequence is longer."""
        if self.longest <= window:
            return None
        of_all, of_prompts = _pairs(self._lengths, window), _pairs(self._prompts, window)
        held = float((of_all - of_prompts).sum() / self._outputs.sum())
        return WindowUse(float(of_all.sum() / self._lengths.sum()), held)


def _pairs(tokens: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean of `simsys.model.windows.pairs_in_window` over many sequences."""
    inside = tokens.clip(max=window)
    pairs: NDArray[np.float64] = inside * (inside + 1) / 2 + (tokens - inside) * window
    return pairs


def requests_of(config: SimulationConfig, starts_s: float = 0.0, drawn: RequestTable | None = None) -> RequestTable:
    """The requests of a serving scenario, as clients send them from its start on.

    Args:
        config: The scenario.
        starts_s: Time at which the scenario starts (s).
        drawn: The requests with arrivals for a start at time 0; None if they are not drawn yet.
    """
    workload = config.timed_workload
    assert workload is not None
    table = drawn if drawn is not None else build_requests(workload, config.simulation.seed, config.folder)
    if not starts_s:
        return table
    return replace(table, arrival_s=[starts_s + time_s for time_s in table.arrival_s])


def at_lengths(
    model: Model, precision: Precision, tensor_degree: int, use: Callable[[int], WindowUse | None]
) -> Model:
    """The model with the mean tokens of a workload in its windows.

    Args:
        model: The model.
        precision: The precision of its KV cache.
        tensor_degree: Ranks that share each layer; if there are more ranks than key and value heads, each rank holds
            one head.
        use: Returns the mean tokens of the workload in a window of a given number of tokens.
    """
    if not has_windows(model):
        return model
    copies = max(1.0, tensor_degree / (model.num_key_value_heads or 1))
    return in_serving(model, use, copies * precision.kv_bytes / precision.activation_bytes)
