"""The work of encoders: parameters of the published towers, and FLOP as they are counted by hand."""

from __future__ import annotations

import pytest

from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.operators import OperatorKind, Split
from simsys.model.precision import Precision
from simsys.model.vision import TOWER, encoder_model, image_batch, with_whole_tower
from simsys.model.vision_encoder import VisionEncoder
from simsys.model.work import forward_work
from simsys.parallel.passes import forward_pass
from tests.helpers.published_configs import GEMMA_3_27B, LLAVA_1_5_7B, PUBLISHED, QWEN2_5_VL_7B, Config


def encoder_of(config: Config) -> VisionEncoder:
    encoder = model_of(read_checkpoint(config)).vision
    assert encoder is not None
    return encoder


def flop(encoder: VisionEncoder, height: int, width: int) -> float:
    image = encoder.grid.of_size(height, width)
    batch = image_batch(image, 1)
    blocks = encoder_model(encoder, image).blocks
    return sum(forward_work(block.operators, batch, Precision()).flop for block in blocks)


@pytest.mark.parametrize("config", [GEMMA_3_27B, QWEN2_5_VL_7B, PUBLISHED["Llama-4-Scout"].config])
def test_an_encoder_has_the_weights_of_its_tower(config: Config) -> None:
    encoder, checkpoint = encoder_of(config), read_checkpoint(config)
    assert checkpoint.tower is not None
    model = encoder_model(encoder, encoder.grid.of_size(1024, 1024))
    assert model.parameters == pytest.approx(checkpoint.tower.parameters, rel=0.02)


def test_flop_of_siglip() -> None:
    hidden, mlp, patches = 1152, 4304, 4096
    layer = 2 * patches * (4 * hidden**2 + 2 * hidden * mlp) + 4 * hidden * patches**2
    ends = 2 * patches * 3 * 14**2 * hidden + 2 * 256 * hidden * 5376
    assert flop(encoder_of(GEMMA_3_27B), 896, 896) == pytest.approx(27 * layer + ends, rel=1e-12)


def test_flop_of_windows() -> None:
    hidden, mlp, rows = 1280, 3420, 20
    patches = rows**2 * 4
    weights = 2 * patches * (4 * hidden**2 + 3 * hidden * mlp)
    attention = 4 * 4 * hidden * patches**2 + 28 * 4 * hidden * 25 * 64**2
    ends = 2 * patches * 6 * 14**2 * hidden + 2 * rows**2 * (5120**2 + 5120 * 3584)
    assert flop(encoder_of(QWEN2_5_VL_7B), 560, 560) == pytest.approx(32 * weights + attention + ends, rel=1e-12)


def test_layers_after_the_one_whose_output_is_used_are_not_computed() -> None:
    assert encoder_of(LLAVA_1_5_7B).layers == 23
    assert encoder_of(LLAVA_1_5_7B | {"vision_feature_layer": -1}).layers == 24
    with_class = LLAVA_1_5_7B | {"vision_feature_select_strategy": "full"}
    assert encoder_of(with_class).grid.of_size(100, 100).embeddings == 577


def test_ranks_share_heads_and_widths() -> None:
    encoder = encoder_of(GEMMA_3_27B)
    model = encoder_model(encoder, encoder.grid.of_size(896, 896))
    whole, half = forward_pass(model), forward_pass(model, 2)
    layers = [next(each for each in plan.stretches if each.name == "layer") for plan in (whole, half)]
    for one, other in zip(*(each.operators for each in layers), strict=True):
        factor = 2 if one.split is not Split.REPLICATED else 1
        assert one.parameters == factor * other.parameters
    attends = [op for op in layers[1].operators if op.kind is OperatorKind.ATTENTION]
    assert len(attends) == 1


def test_every_rank_may_hold_the_whole_tower() -> None:
    model = model_of(read_checkpoint(GEMMA_3_27B))
    shares = [
        next(op for op in forward_pass(each, 4).stretches[0].operators if op.name == TOWER)
        for each in (model, with_whole_tower(model))
    ]
    assert shares[1].parameters == 4 * shares[0].parameters
