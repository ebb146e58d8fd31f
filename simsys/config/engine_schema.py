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
    """What handing prompts from one process to those of the other ranks takes of the host.

    Args:
        per_token: Of each token, for each rank other than the first.
        above: Tokens of a pass up to which it takes nothing.
    """

    per_token: NonNegativeSeconds
    above: Count


class EngineProfile(Profile):
    """What a software stack adds to the kernels, whatever the model.

    Args:
        platforms: Software platforms that it runs on, such as ``CUDA`` and ``ROCm`` (`GpuProfile.platform`); left out,
            any.
        min_compute_capability: The least that NVIDIA GPUs need (`GpuProfile.compute_capability`); left out, any.
        per_layer: What one layer loses between its kernels in one forward pass, however they are launched; of a
            serving step on an A100, over which `GpuProfile.kernel_gap` says what others lose.
        launch_per_layer: How long the host needs to launch the kernels of one layer one by one; it runs ahead of the
            GPU, so a layer takes at least this long; in training, a whole pass does, collectives included. Left out,
            the time per layer has it. Times of the host are those of a DGX A100; in serving, faster processors take
            less (`Host.core_speed`).
        per_prompt_layer: Additional time of a dense layer of a pass with prompts, independent of the length of its
            kernels and of the host; left out, nothing.
        prompt_hand_over: What handing prompts to the other ranks takes before a pass; left out, nothing.
        cuda_graphs: Which steps need no launches; left out, there are none.
        per_step: Overhead of one engine step: scheduling, sampling.
        per_sequence: Overhead of one sequence in one step: sampling, detokenising.
        async_scheduling: Whether these two are spent while the GPUs work on a step, so that only what is longer than
            that shows; with pipeline parallelism they are anyway. Left out, they are not.
        per_request: Overhead of one request before it reaches the scheduler: HTTP, tokenisation.
        all_reduce: What each step of the engine's own all-reduce costs in addition to the bytes, where NVLink joins
            the GPUs; left out, NCCL does it.
        all_reduce_kernels: Which of its algorithms that has: ``one_shot``, in which every rank reads all buffers, and
            ``direct`` (two-shot), in which it adds up a block and reads the others' sums; left out, both.
        communication_share: What share of a GPU collectives of gradients and weights take from computations that run
            beside them, as their kernels occupy multiprocessors and memory; left out, none.
        length_skew: What decode attention takes over sequences of unequal length, over equal ones; left
            out, the same.
        gpu_memory_utilization: Share of device memory the stack may fill.
        memory_context: Memory lost to the driver's context, workspaces and communication buffers.
        defaults: What a server sets where its user sets nothing; left out, those of `resolved_serving`.
        kv_precisions: What keys and values can be kept in; left out, anything.
        backward_per_layer_factor: Overhead of a layer's backward pass over that of its forward pass.
        loss_bytes_per_logit: What the loss of a training step reads and writes for each logit, both passes together,
            beside the matrix products of the head; left out, nothing.
        elementwise: What the element-wise kernels of a training step move, over what they would if fused as in
            Megatron-LM; left out, as much.
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
