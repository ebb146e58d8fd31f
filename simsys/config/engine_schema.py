"""The schema of engine profiles: what the software that runs a model adds to its kernels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simsys.config.base import FrozenModel
from simsys.config.engine_defaults import ServingDefaults
from simsys.config.hardware_schema import Count, Profile
from simsys.config.kernel_schema import DType
from simsys.units import Fraction, NonNegativeBytes, NonNegativeSeconds


class CudaGraphs(FrozenModel):
    """Which steps an engine replays as a recorded graph, without launching kernels one by one.

    Args:
        max_tokens: Most tokens of such a step; left out, as many as it has.
        prompts: Whether steps with prompts are among them, not only those that decode.
    """

    max_tokens: Count | None = None
    prompts: bool = False


class HandOver(FrozenModel):
    """Host time of sending prompts from one process to those of the other ranks.

    Args:
        per_token: Time per token and rank except the first.
        above: Tokens of a pass up to which it is free.
    """

    per_token: NonNegativeSeconds
    above: Count


class EngineProfile(Profile):
    """Overheads of a software stack, independent of the model.

    Args:
        platforms: Supported software platforms, such as ``CUDA`` and ``ROCm`` (`GpuProfile.platform`); default: any.
        min_compute_capability: Minimum of NVIDIA GPUs (`GpuProfile.compute_capability`); default: any.
        per_layer: Gaps between the kernels of one layer in a forward pass; in serving, on an A100, scaled by
            `GpuProfile.kernel_gap` for other GPUs.
        launch_per_layer: Host time to launch the kernels of one layer eagerly. The host runs ahead of the GPU, so this
            is a lower limit of the time of a layer; in training, of a whole pass with collectives. By default,
            `per_layer` includes it. Host times are those of a DGX A100; in serving, faster processors need less
            (`Host.core_speed`).
        per_prompt_layer: Additional time of a dense layer of a pass with prompts, independent of kernels and host;
            default: none.
        prompt_hand_over: Time of sending prompts to the other ranks before a pass; default: none.
        cuda_graphs: Steps without launches; default: none.
        per_step: Overhead of one engine step: scheduling, sampling.
        per_sequence: Overhead of one sequence in one step: sampling, detokenising.
        async_scheduling: True if these two overlap with the GPUs' step; with pipeline parallelism they always do.
            Default: false.
        per_request: Overhead of one request before it reaches the scheduler: HTTP, tokenisation.
        all_reduce: Fixed time of each step of the engine's own all-reduce over NVLink; default: NCCL is used.
        all_reduce_kernels: Its algorithms: ``one_shot``, in which every rank reads all buffers, and ``direct``
            (two-shot), in which it sums a block and reads the other sums; default: both.
        communication_share: Slow-down of concurrent computation by collectives of gradients and weights, as a share of
            their duration, since their kernels occupy multiprocessors and memory; default: none.
        length_skew: Time of decode attention over sequences of unequal length, relative to equal lengths; default: 1.
        gpu_memory_utilization: Share of device memory the stack may fill.
        memory_context: Memory lost to the driver's context, workspaces and communication buffers.
        defaults: Default settings of the server; by default those of `resolved_serving`.
        kv_precisions: Supported precisions of keys and values; default: any.
        backward_per_layer_factor: Overhead of a layer's backward pass over that of its forward pass.
        loss_bytes_per_logit: Bytes read and written per logit by the loss of a training step in both passes, without
            the head; default: none.
        elementwise: Memory traffic of the element-wise kernels of a training step, relative to fused ones as in
            Megatron-LM; default: 1.
    """

    platforms: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] | None = None
    min_compute_capability: Annotated[float, Field(strict=True, ge=1, le=100)] | None = None
    per_layer: NonNegativeSeconds
    launch_per_layer: NonNegativeSeconds | None = None
    per_prompt_layer: NonNegativeSeconds | None = None
    prompt_hand_over: HandOver | None = None
    cuda_graphs: CudaGraphs | None = None
    per_step: NonNegativeSeconds
    per_sequence: NonNegativeSeconds
    async_scheduling: bool | None = None
    per_request: NonNegativeSeconds
    all_reduce: NonNegativeSeconds | None = None
    all_reduce_kernels: Annotated[tuple[Literal["one_shot", "direct"], ...], Field(min_length=1)] | None = None
    communication_share: Annotated[float, Field(strict=True, ge=0, le=0.5)] | None = None
    length_skew: Annotated[float, Field(strict=True, ge=1, le=100)] | None = None
    gpu_memory_utilization: Fraction
    memory_context: NonNegativeBytes
    defaults: ServingDefaults | None = None
    kv_precisions: Annotated[tuple[DType, ...], Field(min_length=1)] | None = None
    backward_per_layer_factor: Annotated[float, Field(strict=True, gt=0, le=100)]
    elementwise: Annotated[float, Field(strict=True, gt=0, le=100)] | None = None
    loss_bytes_per_logit: Annotated[float, Field(strict=True, ge=0, le=1000)] | None = None
