"""Models written layer by layer."""

from __future__ import annotations

import pytest

from simsys.compat import (
    DistributedAISimulator,
    LayerConfig,
    LayerType,
    ModelArchitecture,
    SimulationConfig,
    create_small_scale_config,
)
from simsys.errors import UsageError

num_layers, C_in, C_out, H, W = 4, 64, 64, 56, 56
params, flops_forward, flops_backward, act_mem, grad_mem = 36_864, 231e6, 462e6, 0.8, 0.15


def test_custom_model_architecture() -> None:
    model = ModelArchitecture("MyCustomModel")

    # Add custom layers
    model.add_layer(
        LayerConfig(
            layer_id=0,
            layer_type=LayerType.CONV2D,
            input_shape=(3, 224, 224),
            output_shape=(64, 112, 112),
            num_parameters=9408,
            forward_flops=118e9,
            backward_flops=236e9,
            activation_memory_mb=50,
            gradient_memory_mb=0.04,
        )
    )

    assert model.model().parameters == 9408
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM"}, model=model.config(), training={"batch_size_per_gpu": 2, "num_iterations": 2}
    )
    metrics = DistributedAISimulator(config).run().metrics
    flop_per_s = 2 * (118e9 + 236e9) / metrics["mean_iteration_s"]
    assert metrics["model_flop_per_s_per_gpu"] == pytest.approx(flop_per_s)


class OwnModels(ModelArchitecture):
    """Architectures of a program of the user's."""

    @staticmethod
    def create_my_model() -> ModelArchitecture:
        model = ModelArchitecture("MyModel")

        for i in range(num_layers):
            model.add_layer(
                LayerConfig(
                    layer_id=i,
                    layer_type=LayerType.CONV2D,
                    input_shape=(C_in, H, W),
                    output_shape=(C_out, H, W),
                    num_parameters=params,
                    forward_flops=flops_forward,
                    backward_flops=flops_backward,
                    activation_memory_mb=act_mem,
                    gradient_memory_mb=grad_mem,
                )
            )

        return model


def test_a_new_model_architecture() -> None:
    config = create_small_scale_config()
    config.model.model_type = "my_model"
    config.training.num_iterations = 2
    assert [layer["layer_id"] for layer in config.model.layers] == [0, 1, 2, 3]
    result = DistributedAISimulator(config).run()
    assert result.memory_bytes["parameters"] == num_layers * params * 4


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one layer"):
        ModelArchitecture("empty").model()
