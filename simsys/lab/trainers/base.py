"""The training step and loop that all strategies share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from simsys.errors import TrainingError
from simsys.lab.checkpoints import fingerprint, load_checkpoint, save_checkpoint
from simsys.lab.clock import Clock
from simsys.lab.data import PRIMES, Data, data_of
from simsys.lab.optimizers import learning_rate_share, optimizer_of
from simsys.lab.settings import LabSettings

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

FORWARD, BACKWARD, OPTIMIZER, DATA = "forward", "backward", "optimizer", "data"
"""Phases of an iteration, which the profiler marks."""


class BaseTrainer:
    """Trains a model on one process; subclasses divide the work.

    Args:
        module: The model; its call returns the loss of inputs and targets.
        settings: Batch, precision, optimizer and the like.
        data: Training data; by default those of the settings.
        device: Where to compute; by default the CPU.
    """

    def __init__(
        self, module: nn.Module, settings: LabSettings, data: Data | None = None, device: torch.device | None = None
    ) -> None:
        self.settings, self.device = settings, device or torch.device("cpu")
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world_size = dist.get_world_size() if dist.is_initialized() else 1
        self.data = data if data is not None else data_of(settings, module)
        self.weights = fingerprint(module)
        self.units: list[list[nn.Module]] = module.units()
        self.model = self.wrap(module.to(self.device))
        self.optimizer = optimizer_of(settings, self.model.parameters())
        self.scheduler = self.schedule()
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "fp16")
        self.iteration = 0
        """Iterations done."""
        self.phase_s: dict[str, float] = {}
        """Time of each phase of the current iteration."""

    # --- what a strategy changes ---

    def wrap(self, module: nn.Module) -> nn.Module:
        """The model as it is called; by default itself."""
        return module

    def exchanging(self, last_micro_batch: bool) -> AbstractContextManager[None]:
        """The context of a micro-batch, in which gradients are exchanged or not."""
        return nullcontext()

    def casting(self) -> AbstractContextManager[None]:
        """The context of the forward pass; by default the automatic casts of mixed precision."""
        mixed = self.settings.precision in ("bf16", "fp16")
        return torch.autocast(self.device.type, DTYPES[self.settings.precision], enabled=mixed)

    def clip_gradients(self, norm: float) -> float:
        """Clip the gradients; return their norm before."""
        return float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), norm))

    @property
    def frees_gradients(self) -> bool:
        """Whether gradients are freed after the update; otherwise they are set to zero."""
        return True

    # --- the step ---

    def schedule(self) -> torch.optim.lr_scheduler.LambdaLR:
        """The course of the learning rate."""
        lab, iterations = self.settings.lab, self.settings.iterations
        return torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda iteration: learning_rate_share(lab, iterations, iteration)
        )

    def train_step(self) -> dict[str, Any]:
        """One iteration: all micro-batches, then the optimizer.

        Returns:
            Its metrics.

        Raises:
            TrainingError: If the loss is no finite number.
        """
        settings, self.phase_s = self.settings, dict.fromkeys((DATA, FORWARD, BACKWARD, OPTIMIZER), 0.0)
        place = (settings.seed * PRIMES[0] + self.iteration) * PRIMES[2] + self.rank
        torch.manual_seed(place)  # of dropout, so that a resumed run draws the same
        clock, loss = Clock(), 0.0
        for micro_batch in range(settings.micro_batches):
            with self.exchanging(micro_batch == settings.micro_batches - 1):
                loss += self._micro_batch(micro_batch) / settings.micro_batches
        if not math.isfinite(loss):
            raise TrainingError(f"rank {self.rank}: the loss of iteration {self.iteration + 1} is {loss}")
        rate = self.scheduler.get_last_lr()[0]
        with self._phase(OPTIMIZER):
            norm = self._update()
        self.iteration += 1
        taken = clock.taken()
        return {
            "iteration": self.iteration,
            "loss": loss,
            "learning_rate": rate,
            **({} if norm is None else {"gradient_norm": norm}),
            "tokens": settings.micro_batches * settings.batch_size * settings.sequence_length,
            **taken.as_dict(),
            **{f"{name}_s": seconds for name, seconds in self.phase_s.items()},
        }

    def _micro_batch(self, micro_batch: int) -> float:
        """Both passes of a micro-batch; returns its loss."""
        with self._phase(DATA):
            inputs, targets = self._batch(self.iteration, micro_batch)
        with self._phase(FORWARD), self.casting():
            loss = self.model(inputs, targets)
        with self._phase(BACKWARD):
            self.scaler.scale(loss / self.settings.micro_batches).backward()
        return float(loss.item())

    def _update(self) -> float | None:
        """Update the weights; returns the norm of the gradients if they are clipped."""
        norm = None
        if self.settings.lab.max_grad_norm is not None:
            self.scaler.unscale_(self.optimizer)
            norm = self.clip_gradients(self.settings.lab.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=self.frees_gradients)
        return norm

    def _batch(self, iteration: int, micro_batch: int, *, evaluation: bool = False) -> tuple[Tensor, Tensor]:
        inputs, targets = self.data.batch(iteration, micro_batch, self.rank, evaluation=evaluation)
        return inputs.to(self.device), targets.to(self.device)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Measure a phase of the iteration and mark it for the profiler."""
        started_s = time.perf_counter()
        with record_function(f"lab::{name}"):
            yield
            if self.device.type == "cuda":
                torch.cuda.synchronize()
        self.phase_s[name] += time.perf_counter() - started_s

    # --- the loop ---

    def train(
        self,
        iterations: int | None = None,
        done: Callable[[dict[str, Any]], bool] = lambda _: False,
    ) -> list[dict[str, Any]]:
        """Train up to a number of iterations.

        Args:
            iterations: Iterations from the beginning of the run; by default those of the settings.
            done: Called with the metrics of each iteration; the run ends early if it says so.

        Returns:
            The metrics of each iteration.
        """
        rows = []
        while self.iteration < (self.settings.iterations if iterations is None else iterations):
            rows.append(self.train_step())
            if done(rows[-1]):
                break
        return rows

    def evaluate(self) -> float:
        """The mean loss of all ranks on batches that are not trained on."""
        self.model.eval()
        total = torch.zeros(1, device=self.device)
        with torch.no_grad(), self.casting():
            for micro_batch in range(self.settings.lab.evaluation_batches):
                total += self.model(*self._batch(0, micro_batch, evaluation=True)).float()
        self.model.train()
        if self.world_size > 1:
            dist.all_reduce(total)
        return float(total.item()) / (self.settings.lab.evaluation_batches * self.world_size)

    # --- checkpoints ---

    def state(self) -> dict[str, Any]:
        """Weights and optimizer states as `torch.distributed.checkpoint` saves them: each rank's share."""
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue with what `state` returned."""
        from torch.distributed.checkpoint.state_dict import set_state_dict

        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )

    def save_own(self, folder: Path) -> None:
        """Save what only this rank has and `state` lacks; by default nothing."""

    def load_own(self, folder: Path) -> None:
        """Load what `save_own` saved."""

    def save_checkpoint(self, folder: Path) -> Path:
        """Save a checkpoint of this iteration below a folder; return its own folder.

        Raises:
            OutputError: If it cannot be written; earlier checkpoints stay whole.
        """
        return save_checkpoint(self, folder)

    def load_checkpoint(self, checkpoint: Path) -> None:
        """Continue from a checkpoint.

        Raises:
            UsageError: If it is damaged, or of another model or strategy.
        """
        load_checkpoint(self, checkpoint)
