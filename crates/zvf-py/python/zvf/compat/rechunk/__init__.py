"""Stores cut in another way."""

from __future__ import annotations

from .engine import rebin_level, rechunk, rechunk_by_attribute, rechunk_spatial, suggest_chunk_shape
from .spec import DimensionMapper, RechunkSpec

__all__ = ["DimensionMapper", "RechunkSpec", "rebin_level", "rechunk", "rechunk_by_attribute", "rechunk_spatial", "suggest_chunk_shape"]
