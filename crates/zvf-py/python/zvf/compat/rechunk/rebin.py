"""Other bins."""

from __future__ import annotations

from .engine import rebin_level

__all__ = ["rebin_level"]
