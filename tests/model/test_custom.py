from __future__ import annotations

import math

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.model.batch import Batch
from simsys.model.custom import Layer, build_custom, layer_from_mapping
from simsys.model.operators import OperatorKind
from simsys.model.work import Precision, backward_work, forward_work

CONVOLUTION = {
    "layer_id": 0,
    "layer_type": "conv2d",
    "input_shape": (3, 224, 224),
    "output_shape": [64, 112, 112],
    "num_parameters": 9408,
    "forward_flops": 118e9,
    "backward_flops": 354e9,
    "activation_memory_mb": 50,
    "gradient_memory_mb": 0.04,
}


def test_a_mapping_with_the_long_names_becomes_a_layer():
    layer = layer_from_mapping(CONVOLUTION)
    assert layer == Layer(
        name="layer0",
        parameters=9408,
        forward_flop=118e9,
        backward_flop=354e9,
        activation_bytes=50e6,
        kind=OperatorKind.CONV,
        input_elements=3 * 224 * 224,
        output_elements=64 * 112 * 112,
        rows=112 * 112,
    )


def test_the_model_does_what_its_layers_say():
    model = build_custom("mine", [CONVOLUTION, Layer(name="head", parameters=1000, forward_flop=2e6)])
    assert model.parameters == 10_408
    assert [block.name for block in model.blocks] == ["layer0", "head"]
    first, second = model.blocks
    forward = forward_work(first.operators, model.training_batch(4, 1), Precision())
    assert forward.flop == 4 * 118e9
    assert backward_work(forward, first.backward_flop_ratio).flop == pytest.approx(4 * 354e9)
    assert second.backward_flop_ratio == 2
    assert first.activation_elements_per_token * 4 == 50e6
    assert first.output_elements_per_token == 64 * 112 * 112


def test_a_layer_without_shapes_moves_what_it_keeps():
    model = build_custom("mine", [{"name": "a", "forward_flop": 1e6, "activation_bytes": 800, "bytes_per_element": 2}])
    work = forward_work(model.blocks[0].operators, Batch(tokens=1), Precision())
    assert (work.flop, work.nbytes) == (1e6, 800)


def test_a_gradient_size_stands_in_for_missing_parameters():
    assert layer_from_mapping({"gradient_memory_mb": 4}, index=3) == Layer(name="layer3", parameters=1e6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"paramters": 1}, r"layers\[2\].paramters: unknown key, did you mean 'parameters'"),
        ({"parameters": -1}, "finite number >= 0"),
        ({"forward_flop": math.nan}, "finite number"),
        ({"forward_flop": "1e9"}, "expected a number, got '1e9'"),
        ({"parameters": True}, "expected a number, got True"),
        ({"parameters": 1, "num_parameters": 1}, "equal to parameters"),
        ({"kind": "lstm"}, "unknown kind 'lstm'"),
        ({"output_shape": [64, 0]}, "list of positive integers"),
        ({"output_shape": "64"}, "list of positive integers"),
        ({"parameters": 1e6, "gradient_memory_mb": 50}, "does not fit 1e\\+06 parameters"),
        ({"bytes_per_element": 0}, "finite number >= 0.5"),
        ({"name": 7}, "expected a string"),
    ],
)
def test_a_wrong_mapping_is_refused_with_its_place(values, message):
    with pytest.raises(ConfigError, match=message):
        layer_from_mapping(values, index=2)


@pytest.mark.parametrize(
    "values",
    [{"forward_flop": -1.0}, {"parameters": math.inf}, {"forward_flop": 1.0, "backward_flop": -1.0}, {"rows": 0.0}],
)
def test_a_wrong_layer_is_refused(values):
    with pytest.raises(UsageError, match="layer x"):
        Layer(name="x", **values)


def test_a_model_needs_a_layer():
    with pytest.raises(UsageError, match="at least one layer"):
        build_custom("mine", [])
