"""Speculative decoding: a draft of several tokens is verified in one pass (Leviathan et al. 2023)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from simsys.model.batch import Batch
from simsys.model.model import Model
from simsys.rng import stream
from simsys.sums import ordered_sum

DRAWS = 1 << 16
"""How many different draws there are."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """How tokens are drafted.

    Args:
        draft_tokens: Tokens drafted for each sequence and step.
        acceptance_rate: Probability that a drafted token is accepted, those before it being so.
    """

    draft_tokens: int = 0
    acceptance_rate: float = 0.0

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens of a sequence and step, the one that verification itself yields included.

        (1 − a^(k+1)) / (1 − a): Leviathan et al. 2023, eq. 1.

        Example:
            >>> Speculation(3, 0.5).tokens_per_step, Speculation(3, 1.0).tokens_per_step
            (1.875, 4.0)
        """
        return ordered_sum(self.acceptance_rate**accepted for accepted in range(self.draft_tokens + 1))

    def draws(self, seed: int) -> Draws:
        """Tokens of a sequence and step, in random order: each number as often as it is probable, up to rounding.

        Args:
            seed: The scenario's.
        """
        return _draws(self, seed)

    def verification(self, sequences: int, cached_tokens: float) -> Batch:
        """The pass that verifies the drafts of so many sequences, which read their caches once for all tokens.

        Args:
            sequences: How many.
            cached_tokens: Tokens in their caches, summed up.
        """
        queries = self.draft_tokens + 1
        context = cached_tokens + sequences * queries
        pairs = queries * cached_tokens + sequences * queries * (queries + 1) / 2
        return Batch(
            tokens=sequences * queries,
            logits=sequences * queries,
            decode_context_tokens=context,
            decode_sequences=sequences,
            verified_pairs=pairs - context,
        )

    def drafts(self, step: Batch) -> list[Batch]:
        """The passes of the model that drafts, before a step: one for each token, the first with the step's prompts.

        Args:
            step: What the step processes: a `verification`, prompts, or both.
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
    """Further layers like a model's last one, with its head, that draft for it: multi-token prediction.

    As in DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437, §2.2), whose one such layer drafts token after token.

    Args:
        model: For which they draft.
        layers: How many.
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
    """How many tokens steps yield: a ring of random numbers, of which each says how far to go to the next one.

    Args:
        tokens: The numbers, at least 1 each.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._after = [array("q", tokens)]
        """By power of two and place, the tokens that so many steps from this place on yield together."""

    @property
    def ring(self) -> Sequence[int]:
        """The numbers."""
        return self._after[0]

    def steps(self, place: int, tokens: int) -> int:
        """The number of steps from a place on that yield at least so many tokens together."""
        steps = found = 0
        for power, after in self._powers(tokens):
            more = after[(place + found) % len(after)]
            if found + more < tokens:
                found += more
                steps += 1 << power
        return steps + 1

    def tokens(self, place: int, steps: int) -> int:
        """How many tokens so many steps from a place on yield together."""
        found = 0
        for power, after in self._powers(steps + 1):
            if steps >> power & 1:
                found += after[(place + found) % len(after)]
        return found

    def _powers(self, steps: int) -> Iterator[tuple[int, array[int]]]:
        """The powers of two below a number of steps, the greatest first, and what so many steps yield."""
        import numpy as np

        while 1 << len(self._after) < steps:
            once = np.asarray(self._after[-1])
            self._after.append(array("q", (once + once[(np.arange(once.size) + once) % once.size]).tobytes()))
        return reversed(list(enumerate(self._after)))


@lru_cache(maxsize=8)
def _draws(speculation: Speculation, seed: int) -> Draws:
    import numpy as np

    accepted = np.arange(speculation.draft_tokens + 1)
    at_least = np.round(DRAWS * speculation.acceptance_rate**accepted).astype(int)
    numbers = np.repeat(accepted + 1, at_least - np.append(at_least[1:], 0))
    return Draws(stream(seed, "speculation").permutation(numbers).tolist())
