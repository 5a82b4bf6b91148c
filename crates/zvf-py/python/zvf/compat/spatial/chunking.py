"""Positions, boxes and the chunks they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..api.grid import Grid


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


def chunks_intersecting_bbox(low: Any, high: Any, chunk_shape: Sequence[float]) -> list[tuple[int, ...]]:
    """The chunks that a box meets, both corners included."""
    grid = Grid((1,) * len(chunk_shape), tuple(float(c) for c in chunk_shape))
    return sorted(ref.coords for ref in grid.cells_in((low, high)))


def grid_layout(bounds: Any, chunk_shape: Sequence[float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first chunk of a grid, and how many there are on each axis."""
    grid = Grid.plan(bounds, cell_size=chunk_shape)
    return grid.anchor, grid.shape
