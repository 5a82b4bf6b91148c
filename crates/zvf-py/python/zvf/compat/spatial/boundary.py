"""Rows of chunks as rows of a level."""

from __future__ import annotations

from typing import Any

from ..api.grid import CellRef
from ..building import _level, list_chunk_keys


def chunk_local_to_global_offsets(level_group: Any, ndim: int | None = None) -> tuple[dict[tuple[int, ...], int], list[tuple[int, ...]], int]:
    """Where each chunk begins in the vertices of a level, the chunks, and how many vertices there are."""
    offsets, keys, total = {}, list_chunk_keys(level_group), 0
    for key in keys:
        offsets[key] = total
        total += _level(level_group).select(cells=[CellRef(key)], attributes=[]).read().vertex_count
    return offsets, keys, total
