"""From a model's description to a PyTorch module with exactly its weights."""

from __future__ import annotations

from torch import nn

from simsys.errors import UsageError
from simsys.lab.models.resnet import ResNet
from simsys.lab.models.transformer import SimpleModel
from simsys.model.model import Model
from simsys.parallel.activations import Recompute


def build_module(description: Model, recompute: Recompute = Recompute.NONE) -> SimpleModel | ResNet:
    """A module of this model.

    Args:
        description: The model as the simulator knows it.
        recompute: What the backward pass recomputes.

    Raises:
        UsageError: If the lab cannot build the model, or its number of weights differs from the description's.
    """
    module: SimpleModel | ResNet
    if description.name == "ResNet-50":
        if recompute is not Recompute.NONE:
            raise UsageError("the lab recomputes activations of transformers only, not of ResNet-50")
        module = ResNet(description)
    else:
        module = SimpleModel(description, recompute)
    weights = parameters_of(module)
    if weights != description.parameters:
        raise UsageError(
            f"the lab cannot build {description.name}: {weights:,} weights instead of {description.parameters:,.0f}"
        )
    return module


def parameters_of(module: nn.Module) -> int:
    """Number of weights, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())
