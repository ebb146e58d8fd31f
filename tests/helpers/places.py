"""Where the checkout is, whatever folder a test lies in."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
