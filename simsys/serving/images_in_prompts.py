"""Scheduling of prompts with images: a policy of chunks, with an encoder that limits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simsys.serving.image_encoder import ImageEncoder
from simsys.serving.phases import Chunk
from simsys.serving.scheduler import Scheduler

if TYPE_CHECKING:

    class _Policy(Scheduler):
        """A policy that cuts prompts into chunks."""

        def chunk_tokens(self, request: int, budget: int) -> int: ...

else:
    _Policy = Scheduler


def takes_images(policy: type[Scheduler]) -> bool:
    """Whether prompts of a policy may have images: if it asks its `chunk_tokens` for the size of each chunk."""
    return hasattr(policy, "chunk_tokens")


def with_images(policy: type[Scheduler]) -> type[Scheduler]:
    """The policy for prompts with images."""
    return type(
        policy.__name__, (ImagesInPrompts, policy), {"__module__": policy.__module__, "__doc__": policy.__doc__}
    )


class ImagesInPrompts(_Policy):
    """What a policy does in addition: chunks end before images that cannot be encoded.

    Args:
        parts: As of `Scheduler`.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.encoder: ImageEncoder

    def encode_with(self, encoder: ImageEncoder) -> None:
        """This encoder encodes the images."""
        self.swap = self.encoder = encoder
        encoder.serve(self.sequences, self.prefilling)

    def chunk_tokens(self, request: int, budget: int) -> int:
        """Tokens of a prompt that fit into this step, and whose images do."""
        tokens = super().chunk_tokens(request, budget)
        if not tokens:
            return tokens
        if request in self.prefilling:
            return self.encoder.reach(request, self.sequences.computed_tokens[request], tokens)
        found = self.found_tokens(request)
        return self.encoder.reach(request, found, min(tokens, self.sequences.target_tokens(request) - found))

    def admit(self, request: int, tokens: int, *, reserve: int = 0) -> Chunk | None:
        """Start a waiting request; its images are encoded before the step."""
        return self._taken(super().admit(request, tokens, reserve=reserve))

    def extend(self, request: int, tokens: int) -> Chunk | None:
        """Process more of a running prompt; its images are encoded before the step."""
        return self._taken(super().extend(request, tokens))

    def _taken(self, chunk: Chunk | None) -> Chunk | None:
        if chunk is not None:
            self.encoder.take(chunk.request, self.sequences.computed_tokens[chunk.request], chunk.tokens)
        return chunk

    def repeats(self, chunks: Sequence[Chunk]) -> int:
        """One step at a time while prompts with images are processed."""
        return 1 if self.encoder.concerns(chunks) else super().repeats(chunks)

    def take_out(self, request: int) -> int:
        """Let a running request go, and the embeddings that it needs."""
        self.encoder.leave(request)
        return super().take_out(request)
