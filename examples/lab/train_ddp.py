"""Train a small transformer with DDP: torchrun --nproc-per-node 2 examples/lab/train_ddp.py [FOLDER]."""

from __future__ import annotations

import sys
from pathlib import Path

import torch.distributed as dist

from simsys.lab import DDPTrainer, LabSettings, SimpleModel


def main() -> None:
    """Train ten iterations and save a checkpoint."""
    dist.init_process_group()
    settings = LabSettings(strategy="ddp", batch_size=4, iterations=10)
    trainer = DDPTrainer(SimpleModel.of_sizes(num_layers=2), settings)
    rows = trainer.train()
    if trainer.rank == 0:
        print(f"loss {rows[0]['loss']:.4f} to {rows[-1]['loss']:.4f}, {rows[-1]['wall_s']:.3f} s an iteration")
    if len(sys.argv) > 1:
        trainer.save_checkpoint(Path(sys.argv[1]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
