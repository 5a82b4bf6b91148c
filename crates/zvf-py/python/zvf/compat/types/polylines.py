"""Polylines and streamlines."""

from __future__ import annotations

from typing import Any

import numpy as np

from zvf._arrays import column_of_lines, named

from ..api.result import ReadResult
from ..exceptions import ArrayError, translating
from ._common import (
    after_those_before,
    add_groups,
    as_positions,
    binned,
    check_bounds,
    check_filter,
    check_policy,
    chunk_of,
    merged,
    open_level,
    resolve,
    written,
)


def write_polylines(
    store_path: Any,
    polylines: Any,
    *,
    chunk_shape: Any,
    bin_shape: Any = None,
    bounds: Any = None,
    vertex_attributes: dict[str, Any] | None = None,
    object_attributes: dict[str, Any] | None = None,
    fragment_attributes: dict[str, Any] | None = None,
    groups: dict[int, Any] | None = None,
    group_attributes: dict[str, Any] | None = None,
    dtype: str = "float32",
    geometry_type: str = "streamline",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str = "raise",
    compressor: Any = None,
    shard_shape: Any = None,
) -> dict[str, Any]:
    """Write polylines, each an object; where there are some already, ids go on after theirs."""
    check_policy(out_of_bounds, may_ignore=False)
    if fragment_attributes:
        raise ArrayError("fragment_attributes are written with points; see zvf.Writer.push(part_attributes=)")
    if geometry_type not in ("polyline", "streamline"):
        raise ArrayError(f"geometry_type: expected polyline or streamline, found {geometry_type!r}")
    with translating(ArrayError):
        lines = [as_positions(line, dtype, f"polyline {i}") for i, line in enumerate(polylines)]
        if not lines:
            raise ArrayError("polylines: expected at least one")
        ndim = lines[0].shape[1]
        for i, line in enumerate(lines):
            if line.shape[1] != ndim or not len(line):
                raise ArrayError(f"polyline {i}: expected at least one vertex of {ndim} coordinates, found the shape {line.shape}")
        points = np.concatenate(lines)
        cuts = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
        columns = {str(k): np.asarray(column_of_lines(k, v, cuts)) for k, v in named("vertex_attributes", vertex_attributes).items()}
        target = resolve(
            store_path, geometry_type, ndim, positions=points, chunk_shape=chunk_shape, bin_shape=bin_shape, bounds=bounds
        )
        check_bounds(target, points, out_of_bounds)
        by = binned(chunk_by_attribute, columns)
        all_points, all_cuts = points, cuts
        if target.before is not None:
            columns = merged(target.before, columns, len(points))
            all_points = after_those_before(target, points)
            own = [s.stop for s in target.before.parts]
            all_cuts = np.concatenate([[0], own, cuts[1:] + own[-1]])
        with written(target, geometry_type, ndim, compressor=compressor, shard_shape=shard_shape, binned_by=by) as writer:
            writer.push(all_points, offsets=all_cuts, attributes=columns)
            if object_attributes:
                first = len(all_cuts) - len(cuts)
                writer.objects(np.arange(first, len(all_cuts) - 1), object_attributes)
            group_count = add_groups(writer, groups, group_attributes)
    coords = chunk_of(points, target.chunk_shape)
    crosses = (coords[1:] != coords[:-1]).any(axis=1)
    crosses[cuts[1:-1] - 1] = False
    return {
        "polyline_count": len(lines),
        "vertex_count": len(points),
        "chunk_count": writer.report["chunks"],
        "cross_chunk_link_count": int(crosses.sum()),
        "group_count": group_count,
    }


def segments(result: ReadResult, chunk_shape: Any) -> list[list[np.ndarray]]:
    """Each part as a list of its runs inside chunks."""
    if not result.parts:
        return []
    coords = chunk_of(result.positions, chunk_shape)
    crosses = np.concatenate([[False], (coords[1:] != coords[:-1]).any(axis=1)])
    found = []
    for part in result.parts:
        at = np.flatnonzero(crosses[part]) + part.start
        at = [part.start, *(int(a) for a in at if a != part.start), part.stop]
        found.append([result.positions[a:b] for a, b in zip(at, at[1:])])
    return found


def read_polylines(
    store_path: Any,
    *,
    level: int = 0,
    object_ids: Any = None,
    group_ids: Any = None,
    bbox: Any = None,
    chunks: Any = None,
    attribute_filter: dict[str, Any] | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """Read polylines: a box gives whole ones, chunks give the runs inside them."""
    source = open_level(store_path, level, "polyline", "streamline")
    check_filter(source, attribute_filter)
    found = source.read(
        bbox=bbox,
        objects=object_ids,
        groups=group_ids,
        cells=None if chunks is None else [tuple(int(x) for x in chunk) for chunk in chunks],
        where=attribute_filter,
    )
    owners = [] if found.part_objects is None else [int(i) for i in found.part_objects]
    return {
        "polylines": segments(found, source.scale),
        "object_ids": owners,
        "vertex_attributes": dict(found.attributes),
        "ndim": found.ndim,
        "polyline_count": found.part_count,
        "vertex_count": found.vertex_count,
    }


__all__ = ["read_polylines", "write_polylines"]
