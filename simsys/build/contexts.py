"""How long the contexts of a serving workload are: what windows hold, and what a sequence keeps, on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.model.windows import WindowUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from simsys.serving.requests import RequestTable


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
        """What queries find in a window of so many tokens; None if no sequence is longer."""
        if self.longest <= window:
            return None
        of_all, of_prompts = _pairs(self._lengths, window), _pairs(self._prompts, window)
        held = float((of_all - of_prompts).sum() / self._outputs.sum())
        return WindowUse(float(of_all.sum() / self._lengths.sum()), held)


def _pairs(tokens: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """As `simsys.model.windows.pairs_in_window`, of many sequences."""
    inside = tokens.clip(max=window)
    pairs: NDArray[np.float64] = inside * (inside + 1) / 2 + (tokens - inside) * window
    return pairs
