"""Without PyTorch the lab says how to install it, and nothing else of simsys minds."""

from __future__ import annotations

import subprocess
import sys

import pytest

import simsys.lab
from simsys.errors import UsageError
from simsys.lab import torch_needed


def test_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_needed, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'simsys\[lab\]'"):
        torch_needed.require_torch()
    with pytest.raises(UsageError, match="the lab needs PyTorch"):
        _ = simsys.lab.DDPTrainer


def test_the_command_line_does_not_import_it() -> None:
    modules = "simsys.cli, simsys.lab.train, simsys.lab.compare, simsys.lab.bench, simsys.lab.measure.report"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
