"""Positions, boxes and the chunks they lie in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..api.grid import Grid
from ..exceptions import ChunkingError


def compute_chunk_coords(position: Any, chunk_shape: Sequence[float]) -> tuple[int, ...]:
    """The chunk that a position lies in."""
    at = np.floor(np.asarray(position, dtype=np.float64) / np.asarray(chunk_shape, dtype=np.float64))
    return tuple(int(x) for x in at)


def assign_chunks(positions: Any, chunk_shape: Sequence[float]) -> dict[tuple[int, ...], np.ndarray]:
    """The rows of each chunk, chunks in numeric order."""
    coords = np.floor(np.asarray(positions, dtype=np.float64) / np.asarray(chunk_shape)).astype(np.int64)
    keys, numbers = np.unique(coords, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys)))
    starts = np.concatenate([[0], ends[:-1]])
    return {tuple(int(c) for c in key): order[a:b] for key, a, b in zip(keys, starts, ends)}


def chunks_intersecting_bbox(bbox_min: Any, bbox_max: Any, chunk_shape: Sequence[float]) -> list[tuple[int, ...]]:
    """The chunks that a box meets, both corners included."""
    grid = Grid((1,) * len(chunk_shape), tuple(float(c) for c in chunk_shape))
    return sorted(ref.coords for ref in grid.cells_in((bbox_min, bbox_max)))


def grid_layout(bounds: Any, chunk_shape: Sequence[float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first chunk of a grid, and how many there are on each axis."""
    grid = Grid.plan(bounds, cell_size=chunk_shape)
    return grid.anchor, grid.shape


def compute_bounds(positions: Any) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest corner of positions."""
    array = np.asarray(positions)
    if array.ndim != 2 or not len(array):
        raise ChunkingError(f"positions must be (N, D) with at least one row, found the shape {array.shape}")
    return array.min(axis=0), array.max(axis=0)


def compute_grid_shape(bounds: Any, chunk_shape: Sequence[float]) -> tuple[int, ...]:
    """How many chunks there are on each axis, both corners included."""
    return Grid.plan(bounds, cell_size=chunk_shape).shape


def neighbouring_chunk_keys(
    key: Sequence[int], *, halo: int = 1, occupied_keys: Iterable[Sequence[int]] | None = None, include_self: bool = False
) -> list[tuple[int, ...]]:
    """The keys at most ``halo`` away on every axis, sorted; of those that are occupied, where these are given."""
    if halo < 0:
        raise ValueError(f"halo must be >= 0, got {halo}")
    occupied = None if occupied_keys is None else {tuple(int(c) for c in k) for k in occupied_keys}
    steps = itertools.product(range(-halo, halo + 1), repeat=len(key))
    found = (tuple(int(c) + d for c, d in zip(key, step)) for step in steps if include_self or any(step))
    return sorted(k for k in found if occupied is None or k in occupied)
