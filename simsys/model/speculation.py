"""Speculative decoding: a draft of several tokens is verified in one pass (Leviathan et al. 2023)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from simsys.model.batch import NOTHING, Batch, batch_of
from simsys.model.model import Model
from simsys.rng import stream
from simsys.sums import ordered_sum

DRAWS = 1 << 16
"""Number of draws in the ring."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafting of tokens.

    Args:
        draft_tokens: Tokens drafted for each sequence and step.
        acceptance_rate: Probability that a drafted token is accepted if the tokens before it are.
        shares: Probabilities that at least 1, 2, … drafted tokens are accepted, in place of the rate.
    """

    draft_tokens: int = 0
    acceptance_rate: float = 0.0
    shares: tuple[float, ...] = ()

    @property
    def at_least(self) -> list[float]:
        """Probabilities that at least 0, 1, 2, … drafted tokens are accepted."""
        if self.shares:
            return [1.0, *self.shares]
        return [self.acceptance_rate**accepted for accepted in range(self.draft_tokens + 1)]

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens of a sequence and step, the one that verification itself yields included.

        With a constant rate (1 − a^(k+1)) / (1 − a): Leviathan et al. 2023, eq. 1.

        Example:
            >>> Speculation(3, 0.5).tokens_per_step, Speculation(3, 1.0).tokens_per_step
            (1.875, 4.0)
        """
        return ordered_sum(self.at_least)

    def draws(self, seed: int) -> Draws:
        """Return tokens per sequence and step in random order; frequencies equal probabilities up to rounding.

        Args:
            seed: The seed of the scenario.
        """
        return _draws(self, seed)

    def verification(self, sequences: int, cached_tokens: float, prompts: Batch = NOTHING) -> Batch:
        """Return the pass that verifies the drafts of sequences, which read their caches once for all tokens.

        Args:
            sequences: Number of sequences.
            cached_tokens: Sum of the tokens in their caches.
            prompts: Chunks of prompts in the same pass.
        """
        queries = self.draft_tokens + 1
        tokens = sequences * queries
        context = cached_tokens + tokens
        verified = queries * cached_tokens + tokens * (queries + 1) / 2 - context
        prompt_tokens, logits, pairs, read = prompts[:4]
        return batch_of(
            (prompt_tokens + tokens, logits + tokens, pairs, read, context, sequences, 0.0, 0.0, verified, False)
        )

    def drafts(self, step: Batch) -> list[Batch]:
        """Return the passes of the drafting model before a step: one per token, the first with the step's prompts.

        Args:
            step: The batch of the step: a `verification`, prompts, or both.
        """
        sequences, queries = step.decode_sequences, self.draft_tokens + 1
        prompts = Batch(
            tokens=step.tokens - sequences * queries,
            attention_pairs=step.attention_pairs,
            prompt_context_tokens=step.prompt_context_tokens,
        )
        if not sequences:
            return [prompts]
        cached = step.decode_context_tokens - sequences * queries
        passes = [
            Batch(
                tokens=sequences,
                logits=sequences,
                decode_context_tokens=cached + sequences * token,
                decode_sequences=sequences,
            )
            for token in range(1, queries)
        ]
        return [prompts + passes[0], *passes[1:]]


def own_layers(model: Model, layers: int) -> Model:
    """Return a drafting model of copies of a model's last layer, with its head: multi-token prediction.

    As in DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437, §2.2), which has one such layer for all drafted tokens.

    Args:
        model: The model for which they draft.
        layers: Number of layers.
    """
    heads = [block for block in model.blocks if any(operator.is_head for operator in block.operators)]
    inner = [block for block in model.blocks if not any(each.is_head or each.lookup for each in block.operators)]
    return replace(
        model,
        name=f"{layers} of {model.name}'s layers",
        blocks=(*[inner[-1]] * layers, *heads),
        num_layers=layers,
        kv_elements_per_token=model.kv_elements_per_token * layers / model.num_layers,
        tied_parameters=0.0,
    )


class Draws:
    """Tokens that steps yield: a ring of random numbers. A step that yields n tokens advances n places in the ring.

    Args:
        tokens: The numbers of the ring, at least 1 each.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._after = [(1, array("q", tokens))]
        """Powers of two, largest first, with the tokens of this number of steps from each place on."""

    @property
    def ring(self) -> Sequence[int]:
        """The numbers of the ring."""
        return self._after[-1][1]

    def steps(self, place: int, tokens: int) -> int:
        """Return the number of steps from a place on until they yield a number of tokens."""
        if 2 * self._after[0][0] < tokens:
            self._extend(tokens)
        steps, size, end = 0, len(self.ring), place + tokens
        for power, after in self._after:
            further = place + after[place % size]
            if further < end:
                place = further
                steps += power
        return steps + 1

    def tokens(self, place: int, steps: int) -> int:
        """Return the number of tokens that steps from a place on yield."""
        self._extend(steps + 1)
        size, end = len(self.ring), place
        for power, after in self._after:
            if steps & power:
                end += after[end % size]
        return end - place

    def _extend(self, steps: int) -> None:
        """Add powers of two until they sum to all numbers of steps below this one."""
        import numpy as np

        while 2 * self._after[0][0] < steps:
            power, after = self._after[0]
            once = np.asarray(after)
            twice = array("q", (once + once[(np.arange(once.size) + once) % once.size]).tobytes())
            self._after.insert(0, (2 * power, twice))


@lru_cache(maxsize=8)
def _draws(speculation: Speculation, seed: int) -> Draws:
    import numpy as np

    accepted = np.arange(speculation.draft_tokens + 1)
    at_least = np.round(DRAWS * np.array(speculation.at_least)).astype(int)
    numbers = np.repeat(accepted + 1, at_least - np.append(at_least[1:], 0))
    return Draws(stream(seed, "speculation").permutation(numbers).tolist())
