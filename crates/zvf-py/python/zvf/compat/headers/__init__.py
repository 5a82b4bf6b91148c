"""Headers of other formats."""

from __future__ import annotations

from .registry import HeaderRegistry

__all__ = ["HeaderRegistry"]
