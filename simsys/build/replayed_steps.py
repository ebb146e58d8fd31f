"""The steps that a server replays as CUDA graphs, without launches of the host."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from simsys.build.resolved_serving import ResolvedServing
from simsys.config.engine_defaults import release_key
from simsys.config.engine_schema import EngineProfile, PromptPieces
from simsys.config.hardware_schema import GpuProfile
from simsys.model.description import is_latent, is_sparse
from simsys.model.model import Model


@dataclass(frozen=True)
class ReplayedSteps:
    """The steps that are replayed.

    Args:
        decode_tokens: Most tokens of a step without prompts; 0 if none is replayed, infinite without a limit.
        prompt_tokens: The same of a step with prompts.
    """

    decode_tokens: float
    prompt_tokens: float


NONE = ReplayedSteps(0.0, 0.0)


def replayed_steps(
    engine: EngineProfile, settings: ResolvedServing, model: Model, gpu: GpuProfile, *, divided: bool
) -> ReplayedSteps:
    """The steps that an engine replays.

    Args:
        engine: The engine.
        settings: Its settings.
        model: The model.
        gpu: The GPU.
        divided: Whether there are pipeline stages, or ranks with attention in data parallelism.
    """
    graphs = engine.cuda_graphs
    if graphs is None or settings.cuda_graphs is False:
        return NONE
    decode = float(settings.max_cudagraph_capture_size or graphs.max_tokens or inf)
    if settings.cuda_graphs == "decode_only":
        return ReplayedSteps(decode, 0.0)
    if graphs.prompts:
        return ReplayedSteps(decode, decode)
    pieces = graphs.prompt_pieces
    if pieces is None or divided or not _in_pieces(pieces, settings, model, gpu):
        return ReplayedSteps(decode, 0.0)
    most = settings.max_num_batched_tokens
    return ReplayedSteps(decode, float(min(most, pieces.latent_max_tokens) if is_latent(model) else most))


def _in_pieces(pieces: PromptPieces, settings: ResolvedServing, model: Model, gpu: GpuProfile) -> bool:
    """Whether this release replays steps with prompts, and nothing is there with which it does not."""
    sent = settings.experts is not None and settings.experts.dispatch != "all_gather"
    others = settings.lora, settings.multimodal, settings.disaggregated, model.vision
    return (
        release_key(settings.release) >= release_key(pieces.since)
        and gpu.software_platform == "CUDA"
        and not sent
        and not settings.drafted
        and not is_sparse(model)
        and all(each is None for each in others)
    )
