"""How the ranks of a job are laid out, and what share of a model each of them computes and stores. Pure data.

Start with `layout.py` (ranks and groups) and `segments.py` (a block as computation and exchanges). `passes.py` makes a
forward pass of blocks, `training.py` a training step of that, and `replica.py` a serving replica.
May import: collectives, errors, model, sums.
"""
