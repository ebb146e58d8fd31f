"""From a row of a table of training runs to an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd
from typing import Any

from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.engine_names import Habits, engine_of, habits_of
from simsys.fidelity.tables.hardware_names import torus_of
from simsys.fidelity.tables.machine_columns import hardware_of_row
from simsys.fidelity.tables.table import Row
from simsys.fidelity.tables.training_models import layers_of, model_of
from simsys.fidelity.tables.training_recipes import largest_tensor, with_recipe
from simsys.fidelity.tables.words import meaning, training_words
from simsys.parallel.stages import uneven_layers

STRATEGIES = {"single", "LoRA", "TP", "PP", "CP", "EP", "DP", "DDP", "FSDP", "HSDP", "ZeRO", "ZeRO1", "ZeRO2"}
"""Parts of the names of strategies."""
ITERATIONS = 1
"""Simulated iterations; all are equal."""
_MESH = re.compile(r"\bfsdp \d+ x fsdp_transpose \d+ x data (\d+)", re.IGNORECASE)
_ZERO_GROUP = re.compile(r"zero1 group(?: size)? (\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Degrees:
    """Degrees of parallelism of a row."""

    tensor: int
    context: int
    pipeline: int
    data: int
    expert: int
    virtual: int

    @classmethod
    def of(cls, row: Row, gpus: int, layers: int) -> Degrees:
        """Return the degrees of a row; an empty data-parallel degree follows from the others.

        Raises:
            Unsupported: They contradict the number of GPUs.
        """
        tensor, context, pipeline = row.whole("tp", 1), row.whole("cp", 1), row.whole("pp", 1)
        if row.text("dp") == "0":
            tensor, context = _likely_division(row, gpus, pipeline)
        whole = tensor * context * pipeline
        data = gpus // whole if row.text("dp") == "0" else row.whole("dp", max(1, gpus // whole))
        if whole * data != gpus:
            raise Unsupported("the degrees of parallelism do not make the number of GPUs")
        expert = row.whole("ep", 1)
        stated = row.text("virtual_stages")
        virtual = row.whole("virtual_stages", 1) if stated or pipeline == 1 else _likely_chunks(layers, pipeline)
        return cls(tensor, context, pipeline, data, expert, virtual)


def _likely_division(row: Row, gpus: int, pipeline: int) -> tuple[int, int]:
    """Return the tensor- and context-parallel degrees of a row that states only its accumulation steps.

    These give the number of replicas. A recipe says which tensor-parallel degree is the largest; further GPUs of a
    replica divide sequences.

    Raises:
        Unsupported: The row does not say how many samples are accumulated, or no recipe is known.
    """
    most, accumulated = largest_tensor(row), row.whole("grad_accum", 0)
    if most is None or not accumulated or not row.text("global_batch"):
        raise Unsupported("the degrees of parallelism are not stated")
    replicas = row.whole("global_batch") // (row.whole("micro_batch", 1) * accumulated)
    if not replicas or gpus % (replicas * pipeline):
        raise Unsupported("the degrees of parallelism do not make the number of GPUs")
    each = gpus // (replicas * pipeline)
    tensor = gcd(each, most)
    return tensor, each // tensor


def _likely_chunks(layers: int, pipeline: int) -> int:
    """Return assumed virtual stages: 3 (as in Korthikanti et al. 2022), 2 or 1, what first divides the layers."""
    return next((chunks for chunks in (3, 2) if layers and layers % (pipeline * chunks) == 0), 1)


def scenario_of(row: Row) -> dict[str, Any]:
    """Return the experiment that a row describes.

    Raises:
        Unsupported: simsys cannot simulate it.
    """
    gpus = row.whole("gpus")
    layers = layers_of(row)
    engine = engine_of(row.text("engine"), row.text("group"), row.text("source"))
    degrees = Degrees.of(row, gpus, layers)
    nodes, interconnect = row.whole("nodes", -(-gpus // 8)), row.text("interconnect")
    found = {
        "name": "row",
        "hardware": hardware_of_row(row, gpus, nodes, interconnect=interconnect),
        "model": model_of(row),
        "parallelism": _parallelism(row, degrees, layers, engine),
        "training": _training(row, degrees, engine),
    }
    if torus := torus_of(row.text("gpu"), gpus, interconnect):
        found["network"] = torus
    return with_recipe(row, found)


def _parallelism(row: Row, degrees: Degrees, layers: int, engine: str) -> dict[str, Any]:
    kinds = [("TP", degrees.tensor), ("CP", degrees.context), ("EP", degrees.expert), ("PP", degrees.pipeline)]
    found: dict[str, Any] = {
        "strategy": "_".join([*(kind for kind, degree in kinds if degree > 1), _data_parallel(row)]),
        "tp_degree": degrees.tensor,
        "cp_degree": degrees.context,
        "ep_degree": degrees.expert,
        "pp_stages": degrees.pipeline,
        "dp_degree": degrees.data,
        # Megatron refuses experts with tensor parallelism without it
        "sequence_parallel": degrees.tensor > 1 and (row.text("sequence_parallel") == "yes" or degrees.expert > 1),
    }
    if degrees.pipeline > 1 and degrees.virtual > 1:
        found |= {"schedule": "interleaved", "virtual_stages": degrees.virtual}
    chunks = degrees.pipeline * degrees.virtual
    if degrees.pipeline > 1 and layers % chunks:
        found["stage_layers"] = uneven_layers(layers, chunks)
    habits = habits_of(engine)
    if habits.tp_overlap and found["sequence_parallel"]:
        found["tp_overlap"] = True
    if not habits.scatter_gather:
        found["scatter_gather"] = False
    if habits.waits_for_sends:
        found["p2p_overlap"] = False
    return found


def _data_parallel(row: Row) -> str:
    """Return the kind of data parallelism, from the strategy and the stage of ZeRO.

    Raises:
        Unsupported: The strategy is not known.
    """
    strategy, stage = row.text("strategy"), row.text("zero_stage")
    parts = set(re.split(r"[-+_ ()]+", strategy.replace("(2D)", ""))) - ({""} if strategy else set())
    if unknown := parts - STRATEGIES:
        raise Unsupported(f"unknown strategy {sorted(unknown)[0]!r}")
    if "HSDP" in parts or _shard_replicas(row) > 1:
        return "HSDP"
    if "FSDP" in parts or stage == "3":
        return "FSDP"
    if "ZeRO" in parts and not stage:
        raise Unsupported("the stage of ZeRO is not stated")
    return {"1": "ZERO1", "2": "ZERO2"}.get(stage) or ("ZERO1" if "ZeRO1" in parts else "DDP")


def _training(row: Row, degrees: Degrees, engine: str) -> dict[str, Any]:
    micro, accumulated = batch_of(row, degrees)
    words, habits, kernels = training_words(), habits_of(engine), row.text("attn_kernel")
    recompute = row.text("activation_recompute")
    recompute = "selective" if recompute.startswith("none/selective") else recompute
    if recompute not in words.recompute:
        raise Unsupported(f"activation recomputation {recompute!r}")
    precision = meaning(row.text("precision"), words.precisions)
    if precision is None:
        raise Unsupported(f"unknown precision {row.text('precision')!r}")
    found: dict[str, Any] = {
        "engine": engine,
        "batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulated,
        "num_iterations": ITERATIONS,
        "precision": precision,
        "mixed_precision": precision not in ("fp32", "tf32"),
        "activation_recompute": habits.selective_recompute if recompute == "selective" else words.recompute[recompute],
        "attention": meaning(kernels, words.attention) or "fused",
        "options": _options(row, degrees, habits, precision),
    }
    if habits.fused_norms is not None and not habits.fused_norms.search(kernels):
        found["norms"] = "eager"
    return found


def _options(row: Row, degrees: Degrees, habits: Habits, precision: str) -> dict[str, Any]:
    """Return the options of the data-parallel module."""
    found: dict[str, Any] = {}
    kind = _data_parallel(row)
    if habits.reduces_after_backward and kind in ("DDP", "ZERO1"):
        found["overlap"] = False
    elif habits.bucket_elements is not None and kind in ("DDP", "ZERO1"):
        elements = max(habits.bucket_elements, habits.bucket_elements_per_replica * degrees.data)
        found |= {"bucket_size": f"{4 * elements} B", "first_bucket_size": f"{4 * elements} B"}
    if kind == "DDP" and precision in habits.half_gradients:
        found["compression"] = "fp16"
    pure = precision in ("fp16", "bf16") and "PURE" in row.text("precision")
    if kind in ("ZERO1", "FSDP") and (pure or precision in habits.half_shards):
        found["reduce_in_half"] = True
    if kind == "ZERO1" and (size := _ZERO_GROUP.search(row.text("notes"))):
        found["shard_size"] = min(int(size[1]), degrees.data)
    if kind == "ZERO1" and habits.broadcast_parameters:
        found["broadcast_parameters"] = True
    if kind == "HSDP" and (replicas := _shard_replicas(row)) > 1:
        found["shard_size"] = degrees.data // replicas
    if kind == "FSDP" and row.text("zero_stage") == "2":
        found["reshard_after_forward"] = False
    return found


def _shard_replicas(row: Row) -> int:
    """Return the replicas of fully sharded models that the notes state (MaxText: ``fsdp 64 x ... x data 8``)."""
    stated = _MESH.search(row.text("notes"))
    return int(stated[1]) if stated is not None and "FSDP" in row.text("strategy") else 1


def batch_of(row: Row, degrees: Degrees) -> tuple[int, int]:
    """Return the samples of a micro-batch and the number of micro-batches of a replica.

    If no micro-batch is stated, it is one sample in a pipeline, and otherwise the largest divisor up to 16.

    Raises:
        Unsupported: There is no global batch, or the batches do not divide.
    """
    if not row.text("global_batch"):
        raise Unsupported("the global batch is not stated")
    samples, left = divmod(row.whole("global_batch"), degrees.data)
    if left:
        raise Unsupported("the global batch does not divide among the replicas")
    likely = 1 if degrees.pipeline > 1 else max(size for size in range(1, 17) if samples % size == 0)
    micro = row.whole("micro_batch", likely)
    if samples % micro:
        raise Unsupported("the global batch does not divide into micro-batches")
    return micro, samples // micro
