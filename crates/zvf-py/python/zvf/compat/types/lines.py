"""Lines of two ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from zvf._arrays import named

from ..exceptions import ArrayError, translating
from ._common import (
    after_those_before,
    as_positions,
    binned,
    check_bounds,
    check_filter,
    check_policy,
    chunk_of,
    merged,
    open_level,
    renamed,
    resolve,
    written,
)


def write_lines(
    store_path: Any,
    endpoints: Any,
    *,
    chunk_shape: Any,
    bin_shape: Any = None,
    bounds: Any = None,
    vertex_attributes: dict[str, Any] | None = None,
    object_attributes: dict[str, Any] | None = None,
    dtype: str = "float32",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str = "raise",
    compressor: Any = None,
    shard_shape: Any = None,
    attributes: dict[str, Any] | None = None,
    line_attributes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write lines: an array of the shape (M, 2, D); attributes of vertices are (M, 2) or flat."""
    vertex_attributes = renamed("write_lines", "attributes", "vertex_attributes", attributes, vertex_attributes)
    object_attributes = renamed("write_lines", "line_attributes", "object_attributes", line_attributes, object_attributes)
    check_policy(out_of_bounds, may_ignore=False)
    with translating(ArrayError):
        array = np.asarray(endpoints)
        if array.ndim != 3 or array.shape[1] != 2:
            raise ArrayError(f"endpoints must be (M, 2, D), found the shape {array.shape}")
        count, ndim = len(array), array.shape[2]
        points = as_positions(array.reshape(-1, ndim), dtype, "endpoints")
        columns = {str(k): _per_vertex(k, v, count) for k, v in named("vertex_attributes", vertex_attributes).items()}
        target = resolve(store_path, "line", ndim, positions=points, chunk_shape=chunk_shape, bin_shape=bin_shape, bounds=bounds)
        check_bounds(target, points, out_of_bounds)
        if chunk_by_attribute is not None and chunk_by_attribute in (object_attributes or {}):
            columns[chunk_by_attribute] = np.repeat(np.asarray(object_attributes[chunk_by_attribute]), 2)
        by = binned(chunk_by_attribute, columns)
        if by is not None:
            values = np.asarray(columns[by[0]]).reshape(count, 2)
            if (values[:, 0] != values[:, 1]).any():
                raise ArrayError(f"chunk_by_attribute={by[0]!r}: both endpoints of a line must have the same value")
        first = 0 if target.before is None else target.before.part_count
        all_points = points
        if target.before is not None:
            columns = merged(target.before, columns, len(points))
            all_points = after_those_before(target, points)
        if not count:
            raise ArrayError("endpoints: expected at least one line")
        with written(target, "line", ndim, compressor=compressor, shard_shape=shard_shape, binned_by=by) as writer:
            writer.push(all_points, offsets=np.arange(0, len(all_points) + 1, 2), attributes=columns)
            if object_attributes:
                writer.objects(np.arange(first, first + count), object_attributes)
    coords = chunk_of(points, target.chunk_shape).reshape(count, 2, ndim)
    return {
        "line_count": count,
        "chunk_count": writer.report["chunks"],
        "cross_chunk_count": int((coords[:, 0] != coords[:, 1]).any(axis=1).sum()),
    }


def _per_vertex(name: str, value: Any, count: int) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim >= 2 and array.shape[:2] == (count, 2):
        return array.reshape(2 * count, *array.shape[2:])
    if array.ndim and len(array) == 2 * count:
        return array
    raise ArrayError(f"attribute {name!r}: expected two rows a line, (M, 2) or flat (N, 2), found the shape {array.shape}")


def read_lines(
    store_path: Any,
    *,
    level: int = 0,
    object_ids: Any = None,
    bbox: Any = None,
    attribute_filter: dict[str, Any] | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """Read lines."""
    source = open_level(store_path, level, "line")
    check_filter(source, attribute_filter)
    found = source.read(bbox=bbox, objects=object_ids, where=attribute_filter)
    ends = found.positions.reshape(-1, 2, found.ndim)
    return {"endpoints": ends, "vertex_attributes": dict(found.attributes), "line_count": len(ends)}


__all__ = ["read_lines", "write_lines"]
