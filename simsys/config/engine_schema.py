"""The schema of engine profiles: overheads of the software that runs a model, in addition to its kernels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simsys.config.base import FrozenModel
from simsys.config.engine_defaults import Release, ServingDefaults, release_key
from simsys.config.hardware_schema import Count, GpuProfile, Profile
from simsys.config.kernel_schema import DType
from simsys.units import Fraction, NonNegativeBytes, NonNegativeSeconds


class PromptPieces(FrozenModel):
    """Steps with prompts that an engine replays as one graph for each piece between two attention kernels.

    Up to the tokens of a step, these are all steps with prompts, but for speculative decoding, adapters, images,
    pipeline stages, attention in data parallelism, experts behind all-to-alls, sparse attention, separate pools, and
    GPUs that are not NVIDIA's.

    Args:
        since: The first release that does so.
        latent_max_tokens: Most tokens of such a step of a model with latent attention.
    """

    since: Release
    latent_max_tokens: Count


class CudaGraphs(FrozenModel):
    """Which steps an engine replays as a recorded graph, without launching kernels one by one.

    Args:
        max_tokens: Most tokens of such a step; left out, no limit.
        prompts: Whether steps with prompts are replayed too, not only decode steps.
        prompt_pieces: Steps with prompts that are replayed in pieces; left out, there are none.
    """

    max_tokens: Count | None = None
    prompts: bool = False
    prompt_pieces: PromptPieces | None = None


class HandOver(FrozenModel):
    """Time of the host to hand prompts from one process to the processes of the other ranks.

    Args:
        per_token: Time of each token, for each rank other than the first.
        above: Tokens of a pass up to which it costs nothing.
    """

    per_token: NonNegativeSeconds
    above: Count


class DecodeKernels(FrozenModel):
    """Kernels by which some releases decode, and for which GPUs have a curve (`Efficiency`).

    Args:
        name: Their curve: ``paged_attention``, the first kernels of PagedAttention, ``masked_attention``, or the
            ``blocked_attention`` of DeepSpeed. All have a block of threads for each sequence and query head.
        platforms: The software platforms on which they decode.
        before: The first release that decodes otherwise; left out, none does.
        except_groups: Numbers of query heads per KV head for which the releases have other kernels.
    """

    name: Literal["paged_attention", "masked_attention", "blocked_attention"]
    platforms: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    before: Release | None = None
    except_groups: tuple[Count, ...] = ()

    def decode(self, release: str, gpu: GpuProfile, group: int) -> bool:
        """Whether they decode in a release; ``0.6`` is the last of releases 0.6.x.

        Args:
            release: The release.
            gpu: The GPU.
            group: Query heads per KV head.
        """
        key = release_key(release)
        early = self.before is None or key < release_key(self.before)[: len(key)]
        return early and gpu.software_platform in self.platforms and group not in self.except_groups


Factor = Annotated[float, Field(strict=True, gt=0, le=100)]


class ExpertEffort(FrozenModel):
    """Time that an engine's products of experts compute, over that of ``grouped_gemm`` of the GPU's profile.

    It lengthens computing, not reading of weights.

    Args:
        default: Products in any dtype.
        fp8_block: Products in 8 bit with a scale for each block; left out, as others.
        weight_only: Products in 16 bit of weights stored in fewer bits; left out, as others.
    """

    default: Factor = 1.0
    fp8_block: Factor | None = None
    weight_only: Factor | None = None


class LaunchFactors(FrozenModel):
    """Time of the host to launch the kernels of some operators, over that of as many kernels of a dense layer.

    A dense layer counts 8 kernels. The kernels of routed experts count as 16 more, those of latent attention as 22
    more, and those of linear attention as 23 more.

    Args:
        experts: Kernels of routing, sorting and experts.
        latent_attention: Kernels of multi-head latent attention.
        linear_attention: Kernels of linear attention.
    """

    experts: Factor = 1.0
    latent_attention: Factor = 1.0
    linear_attention: Factor = 1.0


class EngineProfile(Profile):
    """Overheads of a software stack in addition to the kernels; independent of the model.

    Args:
        platforms: Software platforms that it runs on, such as ``CUDA`` and ``ROCm`` (`GpuProfile.platform`); left out,
            any.
        min_compute_capability: The lowest compute capability of NVIDIA GPUs (`GpuProfile.compute_capability`); left
            out, any.
        per_layer: Time that one layer loses between its kernels in one forward pass, for any way of launching. In
            serving it is the time on an A100; `GpuProfile.kernel_gap` is the factor of other GPUs.
        launch_per_layer: Time of the host to launch the kernels of one layer one by one. The host runs ahead of the
            GPU, so this is a lower bound of the time of a layer; in training, of a whole pass with its collectives.
            Left out, `per_layer` includes it. Times of the host were measured on a DGX A100; in serving they are
            divided by `Host.core_speed`.
        launch_factors: How long the host needs for the kernels of experts and of other attention; left out, as long
            as for others.
        expert_effort: Time that products of experts compute, over that of `Efficiency.grouped_gemm`; left out, 1.
        per_prompt_layer: Additional time of a dense layer in a pass with prompts, independent of its kernels and of
            the host; left out, 0.
        prompt_hand_over: Time before a pass to hand prompts to the other ranks; left out, 0.
        cuda_graphs: Which steps need no launches; left out, there are none.
        per_step: Overhead of one engine step: scheduling, sampling.
        step_hand_over: Time before each step to hand its inputs to the processes of the other ranks; left out, 0.
        per_sequence: Overhead of one sequence in one step: sampling, detokenising.
        per_cached_token: Time of the host for each cached token of the sequences that decode in a step, as for block
            tables; left out, 0.
        per_output: Further overhead of one sequence in a step that sends its tokens, which one in
            `serving.stream_interval` steps does; left out, `per_sequence` includes it.
        async_scheduling: Whether `per_step` and `per_sequence` overlap with the work of the GPUs, so that only the
            part that exceeds the GPUs' time counts. With pipeline parallelism they always overlap. Left out, they do
            not.
        per_request: Overhead of one request before it reaches the scheduler: HTTP, tokenisation.
        all_reduce: Latency of each step of the engine's own all-reduce, in addition to its bytes, where NVLink joins
            the GPUs; left out, NCCL carries it out.
        all_reduce_kernels: Algorithms of the engine's own all-reduce: in ``one_shot`` every rank reads all buffers; in
            ``direct`` (two-shot) each rank adds up one block and reads the sums of the other ranks. Left out, both.
        communication_share: Share of a GPU that collectives of gradients and weights use, since their kernels occupy
            multiprocessors and memory. Overlapped computations slow down by it; 1 where collectives run on the
            computing cores of a CPU. Left out, 0.
        longer_stages: Which pipeline stages of a server hold one layer more where layers do not divide: the ``first``
            or the ``last`` ones, or those ``before_last``; left out, such numbers of stages are refused.
        length_skew: Time of decode attention for sequences of unequal length, divided by its time for equal lengths;
            left out, 1.
        decode_kernels: Kernels for decode attention that have a curve of their own; the first entry that holds counts;
            left out, none.
        gpu_memory_utilization: Share of device memory the stack may fill.
        activations_beside: Whether the activations of a server use the rest of the memory, beside that share; left
            out, they are part of it.
        memory_context: Memory lost to the driver's context, workspaces and communication buffers.
        defaults: Values of settings that the user of a server leaves out; without them, `resolved_serving` supplies
            its own.
        kv_precisions: Precisions that the KV cache can have; left out, any.
        backward_per_layer_factor: Overhead of a layer's backward pass divided by the overhead of its forward pass.
        loss_bytes_per_logit: Bytes that the loss of a training step reads and writes for each logit, forward and
            backward together, without the matrix products of the head; left out, 0.
        cast_bytes_per_weight: Bytes that automatic mixed precision moves for each weight in a forward pass, to cast
            it to 16 bit, and as many in the backward pass, for its gradient; left out, 0.
        elementwise: Bytes that the element-wise kernels of a training step move, divided by the bytes of the fused
            kernels of Megatron-LM; left out, 1.
        expert_elementwise: The same for the element-wise kernels of routed experts: their activation, and sorting,
            padding, quantising and summing up the copies of tokens; left out, as `elementwise`.
    """

    platforms: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] | None = None
    min_compute_capability: Annotated[float, Field(strict=True, ge=1, le=100)] | None = None
    per_layer: NonNegativeSeconds
    launch_per_layer: NonNegativeSeconds | None = None
    launch_factors: LaunchFactors | None = None
    expert_effort: ExpertEffort | None = None
    per_prompt_layer: NonNegativeSeconds | None = None
    prompt_hand_over: HandOver | None = None
    cuda_graphs: CudaGraphs | None = None
    per_step: NonNegativeSeconds
    step_hand_over: NonNegativeSeconds | None = None
    per_sequence: NonNegativeSeconds
    per_cached_token: NonNegativeSeconds | None = None
    per_output: NonNegativeSeconds | None = None
    async_scheduling: bool | None = None
    per_request: NonNegativeSeconds
    all_reduce: NonNegativeSeconds | None = None
    all_reduce_kernels: Annotated[tuple[Literal["one_shot", "direct"], ...], Field(min_length=1)] | None = None
    communication_share: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    longer_stages: Literal["first", "last", "before_last"] | None = None
    length_skew: Annotated[float, Field(strict=True, ge=1, le=100)] | None = None
    decode_kernels: Annotated[tuple[DecodeKernels, ...], Field(min_length=1)] | None = None
    gpu_memory_utilization: Fraction
    activations_beside: bool | None = None
    memory_context: NonNegativeBytes
    defaults: ServingDefaults | None = None
    kv_precisions: Annotated[tuple[DType, ...], Field(min_length=1)] | None = None
    backward_per_layer_factor: Annotated[float, Field(strict=True, gt=0, le=100)]
    elementwise: Annotated[float, Field(strict=True, gt=0, le=100)] | None = None
    expert_elementwise: Factor | None = None
    loss_bytes_per_logit: Annotated[float, Field(strict=True, ge=0, le=1000)] | None = None
    cast_bytes_per_weight: Annotated[float, Field(strict=True, ge=0, le=100)] | None = None

    def of_a_step(self, ranks: int) -> float:
        """Overhead of one step (s) of an engine with this number of ranks."""
        return self.per_step + ((self.step_hand_over or 0.0) if ranks > 1 else 0.0)

    def of_a_sequence(self, stream_interval: int) -> float:
        """Mean overhead of one sequence in one step (s), with `stream_interval` tokens of it sent at once."""
        return self.per_sequence + (self.per_output or 0.0) / stream_interval

    def decodes_by(self, release: str, gpu: GpuProfile, group: int) -> str:
        """The kernels for decode attention with a curve of their own, or none; arguments as of `DecodeKernels`."""
        return next((each.name for each in self.decode_kernels or () if each.decode(release, gpu, group)), "")

    def effort_of_experts(self, dtype: str) -> float:
        """Time that products of experts which compute in a dtype take, over that of the GPU's profile."""
        given = self.expert_effort or ExpertEffort()
        stored = {"fp8_block": given.fp8_block, "weight_only": given.weight_only}.get(dtype)
        return given.default if stored is None else stored
