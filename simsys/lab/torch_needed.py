"""PyTorch is an extra: the one message where it is missing, and what there is."""

from __future__ import annotations

from importlib.util import find_spec

from simsys.errors import UsageError


def has_torch() -> bool:
    """Whether PyTorch is installed."""
    return find_spec("torch") is not None


def require_torch() -> None:
    """Check that PyTorch is installed.

    Raises:
        UsageError: It is not installed.
    """
    if not has_torch():
        raise UsageError(
            "the lab needs PyTorch: pip install 'simsys[lab]' (docs/how-to/validation.md: builds for CPU and CUDA)"
        )
