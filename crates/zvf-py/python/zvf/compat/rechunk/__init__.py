"""Stores cut in another way."""

from __future__ import annotations

from .engine import rechunk, rechunk_by_attribute, rechunk_spatial, suggest_chunk_shape
from .spec import RechunkSpec

__all__ = ["RechunkSpec", "rechunk", "rechunk_by_attribute", "rechunk_spatial", "suggest_chunk_shape"]
