import numpy as np

from simsys.fidelity.coefficients import coefficients_of, parents_of, siblings_of
from simsys.fidelity.problem import _pulls

GPUS = ("A100-SXM-40GB", "A100-SXM-80GB", "B200-SXM", "GH200-96GB", "H100-SXM", "H200-SXM", "MI300X")


def named(found, coefficients):
    """The GPU of each GPU's first parent or sibling."""
    return {
        each.named[1]: coefficients[place].named[1]
        for each, place in reversed(list(zip(coefficients, found, strict=True)))
        if place is not None
    }


def test_a_gpu_that_extends_none_is_held_near_one_of_its_architecture():
    coefficients = coefficients_of({("gpu", name) for name in GPUS})
    assert named(siblings_of(coefficients), coefficients) == {"A100-SXM-80GB": "A100-SXM-40GB", "H200-SXM": "H100-SXM"}
    assert named(parents_of(coefficients), coefficients) == {"GH200-96GB": "H100-SXM"}


def test_siblings_have_the_same_path_and_column():
    coefficients = coefficients_of({("gpu", name) for name in GPUS} | {("node", "dgx-h100"), ("engine", "vllm")})
    pairs = [
        (each, coefficients[place])
        for each, place in zip(coefficients, siblings_of(coefficients), strict=True)
        if place is not None
    ]
    assert pairs
    assert all((one.path, one.column) == (other.path, other.column) for one, other in pairs)


def test_every_coefficient_is_held_somewhere():
    coefficients = coefficients_of({("gpu", name) for name in GPUS})
    assert np.linalg.matrix_rank(_pulls(coefficients)) == len(coefficients)
