"""ResNet-50 in PyTorch, from the blocks that the simulator uses."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from torch import Tensor, nn
from torch.nn import functional

from simsys.lab.models.loss import language_loss
from simsys.model.cnn import CLASSES, IMAGE_SIZE
from simsys.model.model import Block, Model
from simsys.model.operators import Operator


class Convolution(nn.Module):
    """A convolution without bias and its batch norm.

    Args:
        operator: Its description.
        channels: Input channels.
        stride: Its stride.
    """

    def __init__(self, operator: Operator, channels: int, stride: int = 1) -> None:
        super().__init__()
        kernel = isqrt(operator.inner // channels)
        self.convolution = nn.Conv2d(channels, operator.columns, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(operator.columns)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised output of the convolution."""
        return self.norm(self.convolution(x))


class Stem(nn.Module):
    """The first convolution and pooling."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.conv1 = Convolution(_operators(block)["conv1"], 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """A quarter of the pixels in each direction."""
        return functional.max_pool2d(functional.relu(self.conv1(x)), 3, 2, 1)


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        operators = _operators(block)
        first, second, third = (operators[name] for name in ("conv_a", "conv_b", "conv_c"))
        stride = isqrt(int(first.rows_per_token // second.rows_per_token))
        self.conv_a = Convolution(first, first.inner)
        self.conv_b = Convolution(second, first.columns, stride)
        self.conv_c = Convolution(third, second.columns)
        shortcut = operators.get("shortcut")
        self.shortcut = None if shortcut is None else Convolution(shortcut, shortcut.inner, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways, rectified."""
        y = functional.relu(self.conv_b(functional.relu(self.conv_a(x))))
        return functional.relu(self.conv_c(y) + (x if self.shortcut is None else self.shortcut(x)))


class Classifier(nn.Module):
    """The mean over all pixels and the fully connected layer."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.linear = nn.Linear(_operators(block)["linear"].inner, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of each image."""
        return self.linear(x.mean((2, 3)))


class ResNet(nn.Module):
    """ResNet-50; its call returns the mean loss of a batch of images.

    Args:
        description: The model as the simulator knows it.
    """

    image_size = IMAGE_SIZE
    classes = CLASSES

    def __init__(self, description: Model) -> None:
        super().__init__()
        self.description = description
        stem, *bottlenecks, classifier = description.blocks
        self.stem = Stem(stem)
        self.layers = nn.ModuleList(Bottleneck(block) for block in bottlenecks)
        self.classifier = Classifier(classifier)

    def units(self) -> list[list[nn.Module]]:
        """The blocks of the description, in the order of the forward pass."""
        return [[self.stem], *([layer] for layer in self.layers), [self.classifier]]

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of images (batch, 3, height, width) and their classes (batch)."""
        x = self.stem(images)
        for layer in self.layers:
            x = layer(x)
        return language_loss(self.classifier(x), labels)


def _operators(block: Block) -> Mapping[str, Operator]:
    return {operator.name: operator for operator in block.operators}
