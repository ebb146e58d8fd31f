from __future__ import annotations

import pytest

from simsys.model.batch import Batch
from simsys.model.cnn import build_resnet50
from simsys.model.operators import OperatorKind
from simsys.model.work import Precision, forward_work

MODEL = build_resnet50()
OPERATORS = [operator for block in MODEL.blocks for operator in block.operators]


def test_parameters_are_those_published():
    assert MODEL.parameters == 25_557_032


def test_flop_at_224_pixels_are_twice_4_09_billion_multiply_adds():
    work = forward_work(OPERATORS, Batch(tokens=1, logits=1), Precision())
    assert work.flop == pytest.approx(2 * 4.089e9, rel=0.005)
    assert forward_work(OPERATORS, MODEL.training_batch(32, 1), Precision()).flop == pytest.approx(32 * work.flop)


def test_there_are_53_convolutions_and_one_linear_layer():
    kinds = [operator.kind for operator in OPERATORS]
    assert kinds.count(OperatorKind.CONV) == 53
    assert kinds.count(OperatorKind.GEMM) == 1


def test_blocks_follow_table_1_and_equal_ones_are_one_object():
    assert [block.name for block in MODEL.blocks[:5]] == ["conv1", "conv2_1", "conv2_n", "conv2_n", "conv3_1"]
    assert len(MODEL.blocks) == 18
    assert MODEL.blocks[2] is MODEL.blocks[3]


def test_output_sizes_are_those_of_table_1():
    last = [index for index, block in enumerate(MODEL.blocks) if block.name.endswith("_n")]
    outputs = {MODEL.blocks[index].name: MODEL.blocks[index].output_elements_per_token for index in last}
    assert outputs == {
        "conv2_n": 256 * 56**2,
        "conv3_n": 512 * 28**2,
        "conv4_n": 1024 * 14**2,
        "conv5_n": 2048 * 7**2,
    }


def test_convolution_flop_are_those_of_its_gemm():
    for operator in OPERATORS:
        if operator.kind is OperatorKind.CONV:
            assert operator.flop_per_token == 2 * operator.rows_per_token * operator.columns * operator.inner
    stem = OPERATORS[0]
    assert (stem.rows_per_token, stem.columns, stem.inner) == (112**2, 64, 147)


def test_activations_of_a_bottleneck_are_outputs_of_convolutions_and_relus():
    # conv2_n: two 64-channel convolutions and one with 256, each with its activated output, at 56 × 56
    assert MODEL.blocks[2].activation_elements_per_token == 2 * (64 + 64 + 256) * 56**2
    # conv3_1: 128 channels at 56 × 56, then at 28 × 28; 512 at 28 × 28; the shortcut's convolution output
    assert MODEL.blocks[4].activation_elements_per_token == 2 * (128 * 56**2 + 128 * 28**2) + 3 * 512 * 28**2
