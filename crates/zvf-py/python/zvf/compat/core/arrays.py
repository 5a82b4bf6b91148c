"""The functions of the storage layer that the facade's users call: what is in a level, by chunk and by object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..api.grid import CellRef, Grid
from ..building import (
    list_chunk_keys,
    object_count,
    read_all_groupings,
    read_all_object_manifests,
    read_group_object_ids,
    read_object_attributes,
    read_object_manifests,
)
from ..building import _level as _level_of
from .group import Group


def expand_manifest_blocks(blocks: Iterable[tuple[Any, Any]]) -> list[tuple[tuple[int, ...], int]]:
    """Pairs of a chunk and one or more fragments, as pairs of a chunk and one fragment."""
    found = []
    for chunk, fragments in blocks:
        numbers = [fragments] if isinstance(fragments, (int, np.integer)) else fragments
        found += [(tuple(int(c) for c in chunk), int(n)) for n in numbers]
    return found


_expand_blocks = expand_manifest_blocks


def level_grid_layout(bounds: Any, chunk_shape: Sequence[float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first chunk of a grid, and how many there are on each axis."""
    grid = Grid.plan(bounds, cell_size=chunk_shape)
    return grid.anchor, grid.shape


def read_object_manifest(level: Group, object_id: int) -> list[tuple[tuple[int, ...], int]]:
    """The fragments of an object."""
    return read_object_manifests(level, [int(object_id)])[int(object_id)]


def read_chunk_vertices(level: Group, chunk: Any, dtype: Any = np.float32, ndim: int | None = None) -> list[np.ndarray]:
    """The vertices of a chunk, as a list with one array."""
    found = _level_of(level).select(cells=[CellRef(tuple(int(c) for c in chunk))], attributes=[]).read()
    return [found.positions.astype(dtype, copy=False)]


__all__ = [
    "expand_manifest_blocks",
    "level_grid_layout",
    "list_chunk_keys",
    "object_count",
    "read_all_groupings",
    "read_all_object_manifests",
    "read_chunk_vertices",
    "read_group_object_ids",
    "read_object_attributes",
    "read_object_manifest",
    "read_object_manifests",
]
