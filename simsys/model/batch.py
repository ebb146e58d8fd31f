"""Batches: what one pass over a model processes, as a few counters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from simsys.model.operators import Pairs


class Batch(NamedTuple):
    """The batch of one pass over a model.

    Args:
        tokens: Tokens (samples for a CNN) that go through the weights; the encoder's tokens in an encoder-decoder.
        logits: Tokens that go through the head: all tokens in training, one per sequence in serving, all tokens of
            the decoder in an encoder-decoder.
        attention_pairs: Query-key pairs of prompt or training attention, summed over sequences.
        prompt_context_tokens: Cached tokens read by prompt attention, summed over prompt chunks.
        decode_context_tokens: Cached tokens read by decode attention, summed over decoding sequences.
        decode_sequences: Sequences that decode in this pass, one token each unless they verify a draft.
        decoder_pairs: Query-key pairs of the decoder of an encoder-decoder, summed over sequences.
        cross_pairs: Pairs of a token of that decoder and a token of the encoder, summed over sequences.
        verified_pairs: Query-key pairs of decode attention beyond one query per cached token: verified draft tokens,
            which read the cache once together.
        unfused_attention: True if attention scores go through memory and are kept for the backward pass. The pairs are
            then the full matrix, also with a causal mask.
    """

    tokens: float = 0.0
    logits: float = 0.0
    attention_pairs: float = 0.0
    prompt_context_tokens: float = 0.0
    decode_context_tokens: float = 0.0
    decode_sequences: float = 0.0
    decoder_pairs: float = 0.0
    cross_pairs: float = 0.0
    verified_pairs: float = 0.0
    unfused_attention: bool = False

    def part(self, parts: int) -> Batch:
        """Return one of several equal parts: sequences divided among the ranks of context parallelism."""
        counts = {name: count / parts for name, count in self._asdict().items() if name != "unfused_attention"}
        return self._replace(**counts)

    def __add__(self, other: Batch) -> Batch:  # type: ignore[override]
        """Join two batches to one pass."""
        tokens, logits, pairs, prompt_context, context, decoding, decoder, cross, verified, unfused = self
        return batch_of(
            (
                tokens + other[0],
                logits + other[1],
                pairs + other[2],
                prompt_context + other[3],
                context + other[4],
                decoding + other[5],
                decoder + other[6],
                cross + other[7],
                verified + other[8],
                unfused or other[9],
            )
        )

    def grown(self, steps: int, more: Batch) -> Batch:
        """Return the batch after some steps, each of which adds `more` context and pairs; its tokens stay."""
        tokens, logits, pairs, prompt_context, context, decoding, decoder, cross, verified, unfused = self
        return batch_of(
            (
                tokens,
                logits,
                pairs + steps * more[2],
                prompt_context + steps * more[3],
                context + steps * more[4],
                decoding,
                decoder,
                cross,
                verified + steps * more[8],
                unfused,
            )
        )

    def pairs(self, which: Pairs) -> float:
        """Return the number of query-key pairs of a kind."""
        return self.attention_pairs if which is Pairs.OWN else getattr(self, which.value)


batch_of = cast("Callable[[tuple[float, ...]], Batch]", partial(tuple.__new__, Batch))
"""Make a batch of all of its fields in order; takes a third of the time of a call with keywords."""


NOTHING = Batch(0, 0)
"""No tokens and no context; whole numbers, which stay whole in sums."""


def attention_pairs(tokens: float, *, context: float = 0.0, causal: bool = True, block: int = 1) -> float:
    """Query-key pairs of `tokens` new tokens after `context` cached ones, whole blocks of them at a time.

    Example:
        >>> attention_pairs(4), attention_pairs(2, context=10), attention_pairs(4, causal=False)
        (10.0, 23.0, 16.0)
        >>> attention_pairs(4, block=2)
        12.0
    """
    own = tokens * (tokens + min(block, tokens)) / 2 if causal else tokens * tokens
    return tokens * context + own
