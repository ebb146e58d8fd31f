"""Cross-entropy that keeps the logits and makes their gradient in one further buffer, as the simulator counts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class CrossEntropy(torch.autograd.Function):
    """The mean cross-entropy of logits (rows, classes) and the numbers of the right classes (rows)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean loss."""
        ctx.save_for_backward(logits, targets)
        return (torch.logsumexp(logits, -1) - logits.gather(-1, targets[:, None])[:, 0]).mean()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        """The gradient of the logits: the softmax minus one at the right class."""
        logits, targets = ctx.saved_tensors
        gradient = torch.softmax(logits, -1)
        gradient[torch.arange(len(targets), device=targets.device), targets] -= 1.0
        return gradient.mul_(upstream / len(targets)), None


def language_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean loss over all places, in 32 bit."""
    flat = logits.float().view(-1, logits.shape[-1])
    return CrossEntropy.apply(flat, targets.reshape(-1))
