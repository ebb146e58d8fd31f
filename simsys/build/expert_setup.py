"""The experts of a serving replica, resolved: their division, their load, and how tokens reach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from simsys.collectives.expert_kernels import EXPERT_KERNELS, ExpertKernel
from simsys.config.engine_schema import EngineProfile
from simsys.config.experts import ExpertsConfig
from simsys.model.model import Model
from simsys.model.work import Precision
from simsys.parallel.expert_load import expected_copies, load_of, shares_of, zipf_shares
from simsys.parallel.layout import Group
from simsys.parallel.lockstep import LockStep, expert_layers, parts, pieces, shared_apart
from simsys.parallel.passes import ForwardPass
from simsys.parallel.replica import ExpertProducts
from simsys.parallel.segments import Experts, WideExperts
from simsys.platform.device_spec import DeviceSpec

SENT_BYTES = {"bf16": 2.0, "fp8": 1.0 + 4.0 / 128.0, "fp4": 0.5 + 1.0 / 16.0}
"""Bytes of an element of a token on its way to experts, scales included: one of 4 bytes for 128 elements in fp8
(DeepEP), one of a byte for 16 in fp4 (NVFP4)."""


@dataclass(frozen=True)
class ExpertSetup:
    """The experts of the replicas of one kind.

    Args:
        given: The settings.
        model: The model.
        ranks: Expert-parallel degree.
        attention_dp: Data-parallel ranks of attention.
        tensor: GPUs of a data-parallel rank.
        gpus_per_node: GPUs in each node.
        skew: Stated load of the busiest rank over the mean.
        activation_bytes: Bytes of an element of an activation.
        decodes: Whether they are decode replicas of disaggregated serving.
    """

    given: ExpertsConfig
    model: Model
    ranks: int
    attention_dp: int
    tensor: int
    gpus_per_node: int
    skew: float
    activation_bytes: float
    decodes: bool = False

    @property
    def gpus(self) -> int:
        """GPUs that divide the experts."""
        return self.tensor * self.attention_dp

    @property
    def dispatch(self) -> str:
        """How tokens reach their experts."""
        return (self.decodes and self.given.decode_dispatch) or self.given.dispatch

    @property
    def sends_tokens(self) -> bool:
        """Whether tokens are sent to the GPUs of their experts only; else all GPUs gather them."""
        return self.attention_dp > 1 and self.dispatch != "all_gather"

    @property
    def kernel(self) -> ExpertKernel | None:
        """The kernel that sends tokens; None for the collectives of the engine."""
        return EXPERT_KERNELS.get(self.dispatch) if self.sends_tokens else None

    def products(self, precision: Precision, engine: EngineProfile, device: DeviceSpec) -> ExpertProducts:
        """By which kernels experts compute.

        DeepGEMM multiplies blocks of fp8 which DeepEP delivers or whose rows are padded, if the device has its curve.

        Args:
            precision: In which they compute.
            engine: The engine, which has other kernels otherwise.
            device: Their GPU.
        """
        blocks, given = precision.compute == "fp8_block", self.given
        padded, alike = given.padded_rows, given.identical_sequences
        if (self.kernel is not None or padded > 1) and blocks and "deep_gemm" in device.curves:
            return ExpertProducts(by_deep_gemm=True, padded_rows=padded, alike=alike)
        return ExpertProducts(engine.effort_of_experts(precision.compute), padded_rows=padded, alike=alike)

    @cached_property
    def load(self) -> float:
        """Tokens of the busiest rank over the mean."""
        given = self.given
        if not given.weighted:
            return self.skew
        if given.counts is not None:
            shares = shares_of(given.counts)
        else:
            shares = zipf_shares(self.model.experts, given.popularity_exponent or 0.0)
        return load_of(shares, self.ranks, redundant=given.redundant_experts, balanced=given.eplb)

    @cached_property
    def division(self) -> Experts | None:
        """The division of the routed experts; None if they are divided as other layers are."""
        redundant = self.given.redundant_experts
        if self.attention_dp == 1:
            return Experts(self.ranks, self.load, over_tensor=True, redundant=redundant) if self.ranks > 1 else None
        wide = WideExperts(
            self.attention_dp,
            tensor=self.gpus // self.ranks,
            copies=self._copies() if self.sends_tokens else 0.0,
            sent_share=SENT_BYTES[self.given.dispatch_precision] / self.activation_bytes,
        )
        return Experts(self.ranks, self.load, wide=wide, redundant=redundant)

    def _copies(self) -> float:
        """How often a token is sent: for each expert, or once to each place of its experts."""
        chosen = self.model.experts_per_token
        if self.kernel is None or not self.kernel.once_per_place:
            return float(chosen)
        nodes = -(-self.gpus // self.gpus_per_node)
        return expected_copies(chosen, nodes if nodes > 1 else self.gpus)

    def locksteps(
        self,
        plan: ForwardPass,
        groups: Sequence[Sequence[Group]],
        moved_bytes: float,
        draft: ForwardPass | None = None,
    ) -> list[LockStep]:
        """The data-parallel ranks of each replica, and the passes of a step.

        Args:
            plan: A GPU's share of the model.
            groups: The ranks of each replica.
            moved_bytes: Bytes of the experts of a GPU.
            draft: A GPU's share of the model that drafts, if there is one.
        """
        own, exchange, experts, shared = self._parts(parts(plan))
        drafts = None if draft is None else self._parts(pieces(draft))
        found = [
            LockStep(
                tuple(teams),
                Group(tuple(rank for team in teams for rank in team.ranks), "expert"),
                own,
                exchange,
                experts,
                sent=self.sends_tokens,
                load=self.load,
                shared=shared,
                moved_bytes=moved_bytes,
                moved_after=self.given.rebalance_steps or 0,
                halves=self.given.two_batch_overlap,
                layers=expert_layers(exchange),
                occupied=self.kernel.occupied if self.kernel is not None else 0.0,
            )
            for teams in groups
        ]
        return found if drafts is None else [each.with_draft(*drafts) for each in found]

    def _parts(
        self, divided: tuple[ForwardPass, ForwardPass, ForwardPass]
    ) -> tuple[ForwardPass, ForwardPass, ForwardPass, ForwardPass | None]:
        """The own part, the exchange, the experts' part, and the shared experts if they are computed meanwhile."""
        own, exchange, experts = divided
        shared = None
        if self.given.shared_experts == "overlapped":
            own, shared = shared_apart(own)
        return own, exchange, experts, shared
