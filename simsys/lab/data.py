"""Training data that depend on seed, iteration, micro-batch and rank only, so that a resumed run sees the same."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from simsys.errors import UsageError
from simsys.lab.models.resnet import ResNet
from simsys.lab.settings import LabSettings

EVALUATION_SHARE = 0.1
"""Share of a text, at its end, that is for evaluation."""
PRIMES = (1_000_003, 1_009, 4_099)


class Data(Protocol):
    """Batches by place."""

    def batch(self, iteration: int, micro_batch: int, rank: int, *, evaluation: bool = False) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a micro-batch."""


def generator_of(seed: int, iteration: int, micro_batch: int, rank: int, *, evaluation: bool) -> torch.Generator:
    """A generator for one micro-batch; those of evaluation differ from those of training."""
    place = ((seed * PRIMES[0] + iteration) * PRIMES[1] + micro_batch) * PRIMES[2] + rank
    return torch.Generator().manual_seed(2 * place + evaluation)


class SyntheticTokens:
    """Random tokens.

    Args:
        settings: Batch and length.
        vocab_size: Number of different tokens.
    """

    def __init__(self, settings: LabSettings, vocab_size: int) -> None:
        self.settings, self.vocab_size = settings, vocab_size

    def batch(self, iteration: int, micro_batch: int, rank: int, *, evaluation: bool = False) -> tuple[Tensor, Tensor]:
        """Tokens, and for each the next one."""
        generator = generator_of(self.settings.seed, iteration, micro_batch, rank, evaluation=evaluation)
        shape = self.settings.batch_size, self.settings.sequence_length + 1
        ids = torch.randint(self.vocab_size, shape, generator=generator)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


class TextBytes:
    """Pieces of a file whose bytes are tokens.

    Args:
        settings: Batch, length and file.

    Raises:
        UsageError: If the file cannot be read or is too short.
    """

    def __init__(self, settings: LabSettings) -> None:
        self.settings = settings
        file, length = settings.text_file, settings.sequence_length
        assert file is not None
        try:
            content = bytearray(file.read_bytes())
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from error
        held_out = max(length + 1, int(len(content) * EVALUATION_SHARE))
        if len(content) < held_out + length + 1:
            raise UsageError(f"{file} has {len(content)} bytes; sequences of {length} tokens need {2 * length + 2}")
        text = torch.frombuffer(content, dtype=torch.uint8)
        self.parts = text[:-held_out], text[-held_out:]

    def batch(self, iteration: int, micro_batch: int, rank: int, *, evaluation: bool = False) -> tuple[Tensor, Tensor]:
        """Pieces at random places, and the same one byte further."""
        settings = self.settings
        generator = generator_of(settings.seed, iteration, micro_batch, rank, evaluation=evaluation)
        text, length = self.parts[evaluation], settings.sequence_length
        starts = torch.randint(len(text) - length, (settings.batch_size, 1), generator=generator)
        ids = text[starts + torch.arange(length + 1)].long()
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


class SyntheticImages:
    """Random images and classes.

    Args:
        settings: Batch.
        size: Height and width of an image.
        classes: Number of classes.
    """

    def __init__(self, settings: LabSettings, size: int, classes: int) -> None:
        self.settings, self.size, self.classes = settings, size, classes

    def batch(self, iteration: int, micro_batch: int, rank: int, *, evaluation: bool = False) -> tuple[Tensor, Tensor]:
        """Images (batch, 3, height, width) and classes."""
        generator = generator_of(self.settings.seed, iteration, micro_batch, rank, evaluation=evaluation)
        images = torch.randn(self.settings.batch_size, 3, self.size, self.size, generator=generator)
        return images, torch.randint(self.classes, (self.settings.batch_size,), generator=generator)


def data_of(settings: LabSettings, module: nn.Module) -> Data:
    """The data for a model."""
    if isinstance(module, ResNet):
        return SyntheticImages(settings, module.image_size, module.classes)
    if settings.lab.data.kind == "text":
        return TextBytes(settings)
    return SyntheticTokens(settings, module.sizes.vocab_size)
