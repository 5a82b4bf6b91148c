"""The functions of the storage layer that the facade's users call: what is in a level, by chunk and by object."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..building import (
    chunks_intersecting_bbox,
    expand_manifest_blocks,
    level_grid_layout,
    list_chunk_keys,
    object_count,
    read_all_groupings,
    read_all_object_manifests,
    read_group_object_ids,
    read_object_attributes,
    read_object_manifests,
)
from ..exceptions import ArrayError
from .cells import by_fragment, chunk_answer, fragment_column
from .group import Group


_expand_blocks = expand_manifest_blocks
_RAISE = object()  # no default was given


def read_object_manifest(level_group: Group, object_id: int) -> list[tuple[tuple[int, ...], int]]:
    """The fragments of an object."""
    return read_object_manifests(level_group, [int(object_id)])[int(object_id)]


def read_chunk_vertices(level_group: Group, chunk_coords: Any, dtype: Any = None, ndim: int | None = None) -> list[np.ndarray]:
    """The vertices of a chunk, an array for each fragment."""
    return [group if dtype is None else group.astype(dtype, copy=False) for group in by_fragment(level_group, chunk_coords, None)]


def read_chunk_attributes(
    level_group: Group, attr_name: str, chunk_coords: Any, dtype: Any = None, ncols: int | None = None, **unused: Any
) -> list[np.ndarray]:
    """An attribute of the vertices of a chunk, an array for each fragment."""
    return [group if dtype is None else group.astype(dtype, copy=False) for group in by_fragment(level_group, chunk_coords, attr_name)]


def read_chunk_fragment_attributes(
    level_group: Group, attr_name: str, chunk_coords: Any, dtype: Any = None, ncols: int | None = None, *, default: Any = _RAISE, **unused: Any
) -> Any:
    """An attribute of the fragments of a chunk, a row for each; ``default`` where there is none."""
    try:
        found = fragment_column(level_group, chunk_coords, attr_name)
    except ArrayError:
        if default is _RAISE:
            raise
        return default
    return found if dtype is None else found.astype(dtype, copy=False)


def read_fragment(level_group: Group, chunk_coords: Any, fragment_index: int, dtype: Any = np.float32, ndim: int = 3, *, default: Any = _RAISE) -> Any:
    """The vertices of one fragment; ``default`` where there is none."""
    try:
        return _fragment_of(read_chunk_vertices(level_group, chunk_coords, dtype), chunk_coords, fragment_index)
    except ArrayError:
        if default is _RAISE:
            raise
        return default


def _fragment_of(groups: list[np.ndarray], chunk: Any, number: int) -> np.ndarray:
    if not 0 <= int(number) < len(groups):
        raise ArrayError(f"chunk {tuple(chunk)} has {len(groups)} fragments, not one of the number {number}")
    return groups[int(number)]


def chunk_vertex_count(level_group: Group, chunk_coords: Any, *, default: int = 0) -> int:
    """How many vertices a chunk has."""
    try:
        return len(chunk_answer(level_group, chunk_coords, [])[2])
    except ArrayError:
        return default


def read_object_vertices(level_group: Group, object_id: int, dtype: Any = np.float32, ndim: int = 3) -> list[np.ndarray]:
    """The vertices of an object, an array for each fragment of its manifest."""
    refs = read_object_manifest(level_group, object_id)
    groups_of = cache(lambda chunk: read_chunk_vertices(level_group, chunk, dtype))  # each chunk is read once
    return [_fragment_of(groups_of(chunk), chunk, number) for chunk, number in refs]


def resolve_chunk_keys(
    level_group: Group, chunk_shape: Any, *, bbox: Any = None, chunks: Any = None, array_name: str = "vertices"
) -> list[tuple[int, ...]]:
    """The chunks of a level that a box meets and that are named, those that hold something."""
    keys = list_chunk_keys(level_group, array_name)
    if chunks is not None:
        named = {tuple(int(c) for c in chunk) for chunk in chunks}
        keys = [key for key in keys if key in named]
    if bbox is not None:
        met = set(chunks_intersecting_bbox(bbox[0], bbox[1], chunk_shape))
        keys = [key for key in keys if key[-len(chunk_shape) :] in met]
    return keys


__all__ = [
    "chunk_vertex_count",
    "expand_manifest_blocks",
    "level_grid_layout",
    "list_chunk_keys",
    "object_count",
    "read_all_groupings",
    "read_all_object_manifests",
    "read_chunk_attributes",
    "read_chunk_fragment_attributes",
    "read_chunk_vertices",
    "read_fragment",
    "read_group_object_ids",
    "read_object_attributes",
    "read_object_manifest",
    "read_object_manifests",
    "read_object_vertices",
    "resolve_chunk_keys",
]
