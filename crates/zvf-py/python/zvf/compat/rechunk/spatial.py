"""Other chunks."""

from __future__ import annotations

from .engine import rechunk_spatial, suggest_chunk_shape

__all__ = ["rechunk_spatial", "suggest_chunk_shape"]
