"""ResNet-50, convolution by convolution; a token is an image (sample) of 3 × 224 × 224.

Sizes: He et al. 2015 ("Deep Residual Learning for Image Recognition", arXiv 1512.03385), Table 1, with the stride of a
stage in its first 3×3 convolution, as the common implementations have it ("v1.5": 4.09 G multiply-adds; with the
stride in the 1×1 convolution of the paper: 3.8). A convolution is the GEMM of its im2col form: output pixels ×
output channels × (input channels · kernel²).
"""

from __future__ import annotations

from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind

IMAGE_SIZE = 224
CLASSES = 1000
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # bottlenecks and their inner channels, conv2_x to conv5_x
EXPANSION = 4  # output channels of a bottleneck over its inner channels


def build_resnet50() -> Model:
    """Return ResNet-50: the stem, 16 bottlenecks (equal ones of a stage are one object) and the classifier."""
    size, channels = IMAGE_SIZE // 4, 64
    blocks = [_stem(channels, size)]
    for stage, (count, inner) in enumerate(STAGES, start=2):
        stride = 1 if stage == 2 else 2
        blocks.append(_bottleneck(f"conv{stage}_1", channels, inner, size, stride))
        size, channels = size // stride, EXPANSION * inner
        blocks += [_bottleneck(f"conv{stage}_n", channels, inner, size, 1)] * (count - 1)
    blocks.append(_classifier(channels, size))
    return Model(
        name="ResNet-50",
        family="cnn",
        blocks=tuple(blocks),
        num_layers=len(blocks),
        source="He et al. 2015, Table 1 (50-layer)",
    )


def _convolution(name: str, channels: int, filters: int, kernel: int, size: int, stride: int = 1) -> list[Operator]:
    """A convolution without bias on a `size` × `size` input, and its batch norm with ReLU."""
    pixels, inner = (size // stride) ** 2, channels * kernel**2
    output = float(pixels * filters)
    convolution = Operator(
        name,
        OperatorKind.CONV,
        parameters=float(inner * filters),
        rows_per_token=float(pixels),
        columns=filters,
        inner=inner,
        flop_per_token=2.0 * inner * output,
        elements_per_token=channels * size**2 + output,
    )
    # Read for the statistics, read to normalise, written.
    norm = Operator(f"{name}_norm", OperatorKind.MEMORY, parameters=2.0 * filters, elements_per_token=3.0 * output)
    return [convolution, norm]


def _block(name: str, operators: list[Operator], output: float, kept: float) -> Block:
    return Block(name, tuple(operators), output_elements_per_token=output, activation_elements_per_token=kept)


def _stem(filters: int, size: int) -> Block:
    """7×7 convolution with stride 2 and 3×3 max pooling to `size`; keeps image, convolution, ReLU and pool output."""
    convolved, pooled = float(filters * (2 * size) ** 2), float(filters * size**2)
    operators = _convolution("conv1", 3, filters, 7, 4 * size, stride=2)
    operators.append(Operator("pool", OperatorKind.MEMORY, elements_per_token=convolved + pooled))
    return _block("conv1", operators, pooled, 3.0 * (4 * size) ** 2 + 2 * convolved + pooled)


def _bottleneck(name: str, channels: int, inner: int, size: int, stride: int) -> Block:
    """1×1, 3×3 and 1×1 convolution and a shortcut, which is a 1×1 convolution where the shape changes.

    Kept for the backward pass: the output of each convolution (its batch norm needs it) and of each ReLU (the next
    convolution needs it).
    """
    filters, small = EXPANSION * inner, size // stride
    output = float(filters * small**2)
    operators = [
        *_convolution("conv_a", channels, inner, 1, size),
        *_convolution("conv_b", inner, inner, 3, size, stride),
        *_convolution("conv_c", inner, filters, 1, small),
    ]
    kept = 2.0 * (inner * size**2 + inner * small**2) + 2.0 * output
    if channels != filters:
        operators += _convolution("shortcut", channels, filters, 1, size, stride)
        kept += output
    operators.append(Operator("add", OperatorKind.MEMORY, elements_per_token=3.0 * output))
    return _block(name, operators, output, kept)


def _classifier(channels: int, size: int) -> Block:
    """Global average pooling and the fully connected layer."""
    pool = Operator("pool", OperatorKind.MEMORY, elements_per_token=float(channels * (size**2 + 1)))
    linear = Operator(
        "linear",
        OperatorKind.GEMM,
        parameters=float((channels + 1) * CLASSES),
        columns=CLASSES,
        inner=channels,
        flop_per_token=2.0 * channels * CLASSES,
        elements_per_token=float(channels + CLASSES),
    )
    return _block("classifier", [pool, linear], float(CLASSES), float(channels + CLASSES))
