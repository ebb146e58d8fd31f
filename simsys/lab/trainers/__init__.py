"""Trainers: one process, DDP, ZeRO-1 and FSDP; `base.py` has the training step."""
