"""Positions, boxes, and the chunks and bins they lie in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..exceptions import ChunkingError

_MOST_CHUNKS = 1 << 24  # of a list of all chunks of a box


def compute_chunk_coords(position: Any, chunk_shape: Sequence[float]) -> tuple[int, ...]:
    """The chunk that a position lies in."""
    at = np.floor(np.asarray(position) / np.asarray(chunk_shape, dtype=np.float64))
    return tuple(int(x) for x in at)


def assign_chunks(positions: Any, chunk_shape: Sequence[float]) -> dict[tuple[int, ...], np.ndarray]:
    """The rows of each chunk, chunks in numeric order."""
    array = np.asarray(positions)
    if array.ndim != 2:
        raise ChunkingError(f"positions must be 2-D, found the shape {array.shape}")
    if len(chunk_shape) != array.shape[1]:
        raise ChunkingError(f"chunk_shape length {len(chunk_shape)} != positions dimensionality {array.shape[1]}")
    if any(not size > 0 for size in chunk_shape):
        raise ChunkingError(f"All chunk_shape values must be > 0, found {tuple(chunk_shape)}")
    if not len(array):
        return {}
    if not np.isfinite(array).all():
        raise ChunkingError("positions must be finite")
    coords = np.floor(array / np.asarray(chunk_shape, dtype=np.float64)).astype(np.int64)
    keys, numbers = np.unique(coords, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys)))
    starts = np.concatenate([[0], ends[:-1]])
    return {tuple(int(c) for c in key): order[a:b] for key, a, b in zip(keys, starts, ends)}


def chunks_intersecting_bbox(bbox_min: Any, bbox_max: Any, chunk_shape: Sequence[float]) -> list[tuple[int, ...]]:
    """The chunks that a box meets, both corners included, in numeric order."""
    low, high = (compute_chunk_coords(np.asarray(corner, dtype=np.float64), chunk_shape) for corner in (bbox_min, bbox_max))
    spans = [range(a, b + 1) for a, b in zip(low, high)]
    count = int(np.prod([len(span) for span in spans], dtype=object))
    if count > _MOST_CHUNKS:
        raise ChunkingError(f"the box meets {count} chunks: at most {_MOST_CHUNKS} are listed")
    return list(itertools.product(*spans))


def positions_in_bbox(positions: Any, bbox_min: Any, bbox_max: Any) -> np.ndarray:
    """The rows of positions in a box, both corners included."""
    array = np.asarray(positions)
    return np.flatnonzero(((array >= np.asarray(bbox_min)) & (array <= np.asarray(bbox_max))).all(axis=1))


def grid_layout(bounds: Any, chunk_shape: Sequence[float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first chunk of the grid that bounds make, and how many there are on each axis; both corners are included."""
    low, high = (compute_chunk_coords(np.asarray(corner, dtype=np.float64), chunk_shape) for corner in bounds)
    return low, tuple(max(1, b - a + 1) for a, b in zip(low, high))


def compute_bounds(positions: Any) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest corner of positions, in 64 bits."""
    array = np.asarray(positions)
    if not len(array):
        raise ChunkingError("Cannot compute bounds of empty positions")
    return array.min(axis=0).astype(np.float64), array.max(axis=0).astype(np.float64)


def compute_grid_shape(bounds: Any, chunk_shape: Sequence[float]) -> tuple[int, ...]:
    """How many chunks the extent of bounds is long on each axis; :func:`grid_layout` says how many a store has."""
    low, high = (np.asarray(corner, dtype=np.float64) for corner in bounds)
    cells = np.ceil((high - low) / np.asarray(chunk_shape, dtype=np.float64))
    return tuple(int(n) for n in np.maximum(cells, 1))


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


def assign_bins(positions: Any, bin_shape: Sequence[float]) -> dict[tuple[int, ...], np.ndarray]:
    """The rows of each bin, bins in numeric order."""
    return assign_chunks(positions, bin_shape)


def bins_intersecting_bbox(bbox_min: Any, bbox_max: Any, bin_shape: Sequence[float]) -> list[tuple[int, ...]]:
    """The bins that a box meets, both corners included, in numeric order."""
    return chunks_intersecting_bbox(bbox_min, bbox_max, bin_shape)


def bin_to_chunk(bin_coords: Sequence[int], bins_per_chunk: Sequence[int]) -> tuple[int, ...]:
    """The chunk that a bin lies in."""
    return tuple(int(b) // int(n) for b, n in zip(bin_coords, bins_per_chunk))


def chunk_to_bin_range(chunk_coords: Sequence[int], bins_per_chunk: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first and the last bin of a chunk."""
    low = tuple(c * n for c, n in zip(chunk_coords, bins_per_chunk))
    return low, tuple(first + n - 1 for first, n in zip(low, bins_per_chunk))


def bin_to_fragment_index(bin_coords: Sequence[int], chunk_coords: Sequence[int], bins_per_chunk: Sequence[int]) -> int:
    """The number of a bin among those of its chunk, the last axis first."""
    index = 0
    for b, c, n in zip(bin_coords, chunk_coords, bins_per_chunk):
        index = index * n + (b - c * n)
    return index


def fragment_index_to_bin(fragment_index: int, chunk_coords: Sequence[int], bins_per_chunk: Sequence[int]) -> tuple[int, ...]:
    """The bin that has this number among those of a chunk."""
    found: list[int] = []
    for c, n in zip(reversed(list(chunk_coords)), reversed(list(bins_per_chunk))):
        fragment_index, own = divmod(fragment_index, n)
        found.append(own + c * n)
    return tuple(reversed(found))


def group_bins_by_chunk(
    bin_assignments: Mapping[tuple[int, ...], np.ndarray], bins_per_chunk: Sequence[int]
) -> dict[tuple[int, ...], dict[int, np.ndarray]]:
    """The rows of each bin, by its chunk and its number in it."""
    found: dict[tuple[int, ...], dict[int, np.ndarray]] = {}
    for coords, rows in bin_assignments.items():
        chunk = bin_to_chunk(coords, bins_per_chunk)
        found.setdefault(chunk, {})[bin_to_fragment_index(coords, chunk, bins_per_chunk)] = rows
    return found
