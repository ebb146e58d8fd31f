"""Costs of a neural network (computation, storage, memory traffic), independent of hardware.

Start with `operators.py` (one kernel in counts) and `model.py` (blocks of operators); `work.py` derives kernels for a
batch and a precision, `transformer.py` turns an architecture into operators, `model_db.py` reads the model DB.
May import: data, errors, input_files, json_places, rng, sums.
"""
