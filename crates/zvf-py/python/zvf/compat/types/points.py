"""Point clouds."""

from __future__ import annotations

from typing import Any

import numpy as np

from zvf._arrays import named

from ..exceptions import ArrayError, translating
from ._common import (
    add_groups,
    after_those_before,
    as_ids,
    as_positions,
    binned,
    bins_per_chunk,
    check_bounds,
    check_filter,
    check_policy,
    chunk_of,
    merged,
    named_columns,
    open_level,
    renamed,
    resolve,
    written,
)


def write_points(
    store_path: Any,
    positions: Any,
    *,
    chunk_shape: Any = None,
    bin_shape: Any = None,
    bounds: Any = None,
    vertex_attributes: dict[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: dict[str, Any] | None = None,
    fragment_attributes: dict[str, Any] | None = None,
    groups: dict[int, Any] | None = None,
    group_attributes: dict[str, Any] | None = None,
    dtype: str = "float32",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str = "raise",
    compressor: Any = None,
    shard_shape: Any = None,
    attributes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write points; where there are some already, these come after them."""
    vertex_attributes = renamed("write_points", "attributes", "vertex_attributes", attributes, vertex_attributes)
    check_policy(out_of_bounds, may_ignore=True)
    with translating(ArrayError):
        points = as_positions(positions, dtype)
        columns = named_columns(vertex_attributes)
        for name, column in columns.items():
            if column.ndim == 0 or len(column) != len(points):
                raise ArrayError(f"attribute {name!r}: expected {len(points)} rows, found the shape {column.shape}")
        target = resolve(
            store_path, "point_cloud", points.shape[1], positions=points, chunk_shape=chunk_shape, bin_shape=bin_shape, bounds=bounds
        )
        inside = check_bounds(target, points, out_of_bounds)
        ids = None if object_ids is None else as_ids(object_ids)
        if ids is not None and len(ids) != len(points):
            raise ArrayError(f"object_ids: expected {len(points)}, one a vertex, found {len(ids)}")
        if ids is None and object_attributes:
            ids = np.arange(len(points))
        if out_of_bounds == "ignore" and not inside.all():
            points, columns = points[inside], {k: v[inside] for k, v in columns.items()}
            ids = None if ids is None else ids[inside]
        count, all_points = len(points), points
        if target.before is not None:
            columns = merged(target.before, columns, len(points))
            all_points = after_those_before(target, points)
        if not len(all_points):
            return {"vertex_count": 0, "chunk_count": 0, "object_count": 0, "group_count": 0, "bins_per_chunk": bins_per_chunk(target)}
        by = binned(chunk_by_attribute, columns)
        with written(target, "point_cloud", points.shape[1], compressor=compressor, shard_shape=shard_shape, binned_by=by) as writer:
            if ids is not None and target.before is not None:
                raise ArrayError("points with objects cannot be added to a store that has points: write them at once")
            if fragment_attributes:
                _push_fragments(writer, all_points, columns, ids, target.chunk_shape, fragment_attributes)
            else:
                writer.push(all_points, attributes=columns, object_ids=ids)
            if object_attributes:
                unique = np.unique(ids) if ids is not None else np.zeros(0, dtype=np.int64)
                writer.objects(unique, {k: _rows(k, v, unique) for k, v in named("object_attributes", object_attributes).items()})
            group_count = add_groups(writer, groups, group_attributes)
    return {
        "vertex_count": count,
        "chunk_count": writer.report["chunks"] if by is None else len(np.unique(chunk_of(points, target.chunk_shape), axis=0)),
        "object_count": writer.report["objects"],
        "group_count": group_count,
        "bins_per_chunk": bins_per_chunk(target),
    }


def _push_fragments(
    writer: Any, points: np.ndarray, columns: dict[str, Any], ids: Any, chunk_shape: Any, given: dict[str, Any]
) -> None:
    """Pushes points sorted by chunk and object, each such run a fragment with the values that are given for it."""
    chunks = chunk_of(points, chunk_shape)
    own = ids if ids is not None else np.zeros(len(points), dtype=np.int64)
    order = np.lexsort((own, *chunks.T[::-1]))
    key = np.column_stack([chunks, own])[order]
    starts = np.concatenate([[0], np.flatnonzero((key[1:] != key[:-1]).any(axis=1)) + 1])
    offsets = np.concatenate([starts, [len(points)]])
    runs = [tuple(int(c) for c in row[:-1]) for row in key[starts]]
    parts: dict[str, Any] = {}
    for name, by_chunk in given.items():
        values = {tuple(int(c) for c in chunk): np.asarray(v) for chunk, v in by_chunk.items()}
        for chunk in set(runs):
            if chunk not in values or len(values[chunk]) != runs.count(chunk):
                found = len(values[chunk]) if chunk in values else 0
                raise ArrayError(f"fragment attribute {name!r}: chunk {chunk} has {runs.count(chunk)} fragments, {found} rows were given")
        seen: dict[tuple[int, ...], int] = {}
        rows = []
        for chunk in runs:
            rows.append(values[chunk][seen.get(chunk, 0)])
            seen[chunk] = seen.get(chunk, 0) + 1
        parts[name] = np.array(rows)
    sorted_columns = {k: np.asarray(v)[order] for k, v in columns.items()}
    writer.push(points[order], attributes=sorted_columns, offsets=offsets, part_ids=own[order][starts], part_attributes=parts)


def _rows(name: str, value: Any, ids: np.ndarray) -> np.ndarray:
    """The rows of an attribute of objects, for the ids that there are: one for each id, or one for each slot."""
    array = np.asarray(value)
    if len(array) == len(ids):
        return array
    if len(ids) and len(array) > int(ids.max()):
        return array[ids]
    raise ArrayError(f"object attribute {name!r}: expected {len(ids)} rows, found {len(array)}")


def read_points(
    store_path: Any,
    *,
    level: int = 0,
    bbox: Any = None,
    object_ids: Any = None,
    group_ids: Any = None,
    chunks: Any = None,
    attribute_names: Any = None,
    attribute_filter: dict[str, Any] | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """Read points; attributes that are named come along."""
    source = open_level(store_path, level, "point_cloud")
    check_filter(source, attribute_filter)
    found = source.read(
        bbox=bbox,
        objects=object_ids,
        groups=group_ids,
        cells=None if chunks is None else [tuple(int(x) for x in chunk) for chunk in chunks],
        where=attribute_filter,
        attributes=list(attribute_names or []),
    )
    result: dict[str, Any] = {
        "positions": found.positions,
        "vertex_attributes": dict(found.attributes),
        "vertex_count": found.vertex_count,
    }
    if object_ids is not None or group_ids is not None:
        ids = found.object_ids
        result["object_ids"] = np.zeros(0, dtype=np.int64) if ids is None else ids
    return result


__all__ = ["read_points", "write_points"]
