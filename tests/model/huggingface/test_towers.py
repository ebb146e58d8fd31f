"""Weights of vision towers against those of models that transformers 5.23 builds from the same configurations."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.model.fields import Fields
from simsys.model.huggingface.towers import tower_of
from tests.helpers.published_configs import PUBLISHED, SIGLIP, Config

PIXTRAL = {"model_type": "pixtral", "hidden_size": 1024, "image_size": 1540, "intermediate_size": 4096}
PIXTRAL |= {"num_hidden_layers": 24, "patch_size": 14}
QWEN2_VL = {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "in_chans": 3, "hidden_size": 3584, "patch_size": 14}
QWEN2_VL |= {"spatial_merge_size": 2, "temporal_patch_size": 2}
QWEN3_VL = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "out_hidden_size": 4096, "patch_size": 16}
QWEN3_VL |= {"spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 2304}
QWEN3_VL |= {"deepstack_visual_indexes": [8, 16, 24]}
INTERN = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": [14, 14]}
INTERN |= {"image_size": [448, 448]}
GLM4V = {"depth": 24, "hidden_size": 1536, "image_size": 336, "intermediate_size": 13696, "out_hidden_size": 4096}
GLM4V |= {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}


@pytest.mark.parametrize(
    ("model_type", "vision", "text_hidden", "parameters"),
    [
        ("llava", PUBLISHED["LLaVA-1.5-7B"].config["vision_config"], 4096, 324_487_168),
        ("gemma3", SIGLIP, 5376, 423_060_336),
        ("paligemma", SIGLIP | {"image_size": 224}, 2048, 414_803_696),
        ("mistral3", PIXTRAL, 5120, 438_958_080),
        ("qwen2_vl", QWEN2_VL, 3584, 675_759_104),
        ("qwen2_5_vl", PUBLISHED["Qwen2.5-VL-7B"].config["vision_config"], 3584, 676_550_144),
        ("qwen3_vl", QWEN3_VL, 4096, 576_388_336),
        ("qwen3_5_moe", PUBLISHED["Qwen3.5-397B-A17B"].config["vision_config"], 4096, 456_010_480),
        ("llama4", PUBLISHED["Llama-4-Scout"].config["vision_config"], 5120, 871_932_416),
        ("internvl", INTERN, 3584, 331_479_040),
        ("glm4v", GLM4V, 4096, 892_498_432),
        ("kimi_k25", PUBLISHED["Kimi-K2.5"].config["vision_config"], 7168, 471_143_920),
    ],
)
def test_weights_are_those_of_the_real_towers(
    model_type: str, vision: Config, text_hidden: int, parameters: int
) -> None:
    root: dict[str, Any] = {"model_type": model_type, "vision_config": vision, "spatial_merge_size": 2}
    tower = tower_of(Fields(root), text_hidden)
    assert tower is not None
    assert tower.parameters == pytest.approx(parameters, rel=0.02)


def test_a_model_of_text_has_none() -> None:
    assert tower_of(Fields({"model_type": "llama"}), 4096) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": None}, "vision_config: missing num_hidden_layers"),
        ({"hidden_size": "wide"}, "vision_config.hidden_size: expected a number"),
        ({"patch_size": [None]}, "vision_config.patch_size: expected a list of integers"),
    ],
)
def test_wrong_sizes_are_refused(changes: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tower_of(Fields({"model_type": "gemma3", "vision_config": SIGLIP | changes}), 5376)
