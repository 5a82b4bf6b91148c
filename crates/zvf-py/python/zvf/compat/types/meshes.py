"""Meshes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exceptions import ArrayError, DracoError, translating
from ._common import (
    after_those_before,
    as_ids,
    as_positions,
    as_rows,
    binned,
    check_bounds,
    check_filter,
    check_policy,
    check_uniform,
    chunk_of,
    merged,
    named_columns,
    open_level,
    resolve,
    written,
)


def write_mesh(
    store_path: Any,
    vertices: Any,
    faces: Any,
    *,
    chunk_shape: Any,
    bin_shape: Any = None,
    bounds: Any = None,
    encoding: str = "raw",
    vertex_attributes: dict[str, Any] | None = None,
    object_attributes: dict[str, Any] | None = None,
    object_ids: Any = None,
    dtype: str = "float32",
    draco_quantization_bits: int = 11,
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str = "raise",
    compressor: Any = None,
    shard_shape: Any = None,
) -> dict[str, Any]:
    """Write a mesh of triangles or larger faces."""
    if encoding == "draco":
        raise DracoError("Draco is not written: use encoding='raw'")
    if encoding != "raw":
        raise ArrayError(f"encoding: expected raw, found {encoding!r}")
    check_policy(out_of_bounds, may_ignore=False)
    with translating(ArrayError):
        points = as_positions(vertices, dtype, "vertices")
        rows = as_rows(faces, "faces")
        if rows.ndim != 2 or rows.shape[1] < 3:
            raise ArrayError(f"faces must be (F, 3) or wider, found the shape {rows.shape}")
        if rows.size and (rows.min() < 0 or rows.max() >= len(points)):
            raise ArrayError(f"faces: expected rows from 0 to {len(points) - 1}, found {rows.min()} to {rows.max()}")
        if not len(points):
            raise ArrayError("vertices: expected at least one")
        ids = None if object_ids is None else as_ids(object_ids)
        if ids is not None and len(ids) != len(points):
            raise ArrayError(f"object_ids: expected {len(points)}, one a vertex, found {len(ids)}")
        columns = named_columns(vertex_attributes)
        ndim = points.shape[1]
        target = resolve(store_path, "mesh", ndim, positions=points, chunk_shape=chunk_shape, bin_shape=bin_shape, bounds=bounds)
        check_bounds(target, points, out_of_bounds)
        by = binned(chunk_by_attribute, columns)
        check_uniform(by, columns, ids)
        all_points, all_rows = points, rows
        if target.before is not None:
            if ids is not None:
                raise ArrayError("a mesh with objects cannot be added to: write it at once")
            columns = merged(target.before, columns, len(points))
            all_rows = np.concatenate([target.before.faces, rows + len(target.before.positions)])
            all_points = after_those_before(target, points)
        with written(target, "mesh", ndim, compressor=compressor, shard_shape=shard_shape, binned_by=by) as writer:
            own = ids if ids is not None else np.zeros(len(all_points), dtype=np.int64)
            writer.push(all_points, faces=all_rows, attributes=columns, object_ids=own)
            if object_attributes:
                writer.objects(np.unique(own), object_attributes)
    coords = chunk_of(points, target.chunk_shape)[rows]
    crosses = (coords != coords[:, :1]).any(axis=(1, 2)) if len(rows) else np.zeros(0, dtype=bool)
    return {
        "vertex_count": len(points),
        "face_count": len(rows),
        "chunk_count": writer.report["chunks"],
        "intra_face_count": int((~crosses).sum()),
        "cross_face_count": int(crosses.sum()),
        "encoding": encoding,
    }


def read_mesh(
    store_path: Any,
    *,
    level: int = 0,
    bbox: Any = None,
    object_ids: Any = None,
    chunks: Any = None,
    attribute_filter: dict[str, Any] | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """Read a mesh."""
    source = open_level(store_path, level, "mesh")
    check_filter(source, attribute_filter)
    found = source.read(
        bbox=bbox,
        objects=object_ids,
        cells=None if chunks is None else [tuple(int(x) for x in chunk) for chunk in chunks],
        where=attribute_filter,
    )
    faces = found.faces if found.faces is not None else np.zeros((0, 3), dtype=np.int64)
    return {
        "vertices": found.positions,
        "faces": faces,
        "vertex_attributes": dict(found.attributes),
        "vertex_count": found.vertex_count,
        "face_count": len(faces),
    }


__all__ = ["read_mesh", "write_mesh"]
