"""Graphs and skeletons."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exceptions import ArrayError, translating
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
    renamed,
    resolve,
    written,
)


def write_graph(
    store_path: Any,
    positions: Any,
    edges: Any,
    *,
    chunk_shape: Any,
    bin_shape: Any = None,
    bounds: Any = None,
    kind: str = "graph",
    vertex_attributes: dict[str, Any] | None = None,
    link_attributes: dict[str, Any] | None = None,
    object_attributes: dict[str, Any] | None = None,
    fragment_attributes: dict[str, Any] | None = None,
    object_ids: Any = None,
    dtype: str = "float32",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str = "raise",
    compressor: Any = None,
    shard_shape: Any = None,
    is_tree: bool | None = None,
    node_attributes: dict[str, Any] | None = None,
    edge_attributes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a graph, or a skeleton, whose edges are pairs of a child and its parent."""
    if is_tree is not None:
        kind = renamed("write_graph", "is_tree", "kind", "skeleton" if is_tree else "graph", None if kind == "graph" else kind)
    vertex_attributes = renamed("write_graph", "node_attributes", "vertex_attributes", node_attributes, vertex_attributes)
    link_attributes = renamed("write_graph", "edge_attributes", "link_attributes", edge_attributes, link_attributes)
    if kind not in ("graph", "skeleton"):
        raise ArrayError(f"kind: expected graph or skeleton, found {kind!r}")
    check_policy(out_of_bounds, may_ignore=False)
    if fragment_attributes:
        raise ArrayError("fragment_attributes are written with points; see zvf.Writer.push(part_attributes=)")
    with translating(ArrayError):
        points = as_positions(positions, dtype)
        if not len(points):
            raise ArrayError("positions: expected at least one vertex")
        pairs = as_rows(edges, "edges")
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ArrayError(f"edges must be (M, 2), found the shape {pairs.shape}")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= len(points)):
            raise ArrayError(f"edges: expected rows from 0 to {len(points) - 1}, found {pairs.min()} to {pairs.max()}")
        ids = None if object_ids is None else as_ids(object_ids)
        if ids is not None and len(ids) != len(points):
            raise ArrayError(f"object_ids: expected {len(points)}, one a vertex, found {len(ids)}")
        if kind == "skeleton":
            _check_trees(pairs, ids, len(points))
        columns = named_columns(vertex_attributes)
        links = named_columns(link_attributes, "link_attributes")
        ndim = points.shape[1]
        target = resolve(store_path, kind, ndim, positions=points, chunk_shape=chunk_shape, bin_shape=bin_shape, bounds=bounds)
        check_bounds(target, points, out_of_bounds)
        by = binned(chunk_by_attribute, columns)
        check_uniform(by, columns, ids)
        all_points, all_pairs = points, pairs
        if target.before is not None:
            if ids is not None or links or kind == "skeleton":
                raise ArrayError("a graph with objects or attributes of edges cannot be added to: write it at once")
            shift = len(target.before.positions)
            columns = merged(target.before, columns, len(points))
            all_points = after_those_before(target, points)
            all_pairs = np.concatenate([target.before.edges, pairs + shift])
        explicit = bool(links) and kind == "skeleton"
        with written(target, kind, ndim, compressor=compressor, shard_shape=shard_shape, binned_by=by, explicit=explicit) as writer:
            own = ids if ids is not None else np.zeros(len(all_points), dtype=np.int64)
            writer.push(all_points, edges=all_pairs, attributes=columns, object_ids=own, element_attributes=links or None)
            if object_attributes:
                writer.objects(np.unique(own), object_attributes)
    coords = chunk_of(points, target.chunk_shape)
    crosses = (coords[pairs[:, 0]] != coords[pairs[:, 1]]).any(axis=1)
    return {
        "node_count": len(points),
        "edge_count": len(pairs),
        "chunk_count": writer.report["chunks"],
        # Of a skeleton, edges that follow from the order of vertices are not stored, and not counted.
        "intra_edge_count": writer.report["links"] - int(crosses.sum()) if kind == "skeleton" else int((~crosses).sum()),
        "cross_edge_count": int(crosses.sum()),
        "object_count": writer.report["objects"],
        "kind": kind,
    }


def _check_trees(pairs: np.ndarray, ids: np.ndarray | None, count: int) -> None:
    """Fails unless each object is one tree: a vertex has one parent at most, one has none, and there is no circle."""
    own = ids if ids is not None else np.zeros(count, dtype=np.int64)
    parent = np.full(count, -1, dtype=np.int64)
    children, first = np.unique(pairs[:, 0], return_index=True)
    if len(children) != len(pairs):
        twice = np.setdiff1d(np.arange(len(pairs)), first)[0]
        raise ArrayError(f"edges: vertex {pairs[twice, 0]} has two parents: a skeleton is a tree; use kind='graph'")
    parent[pairs[:, 0]] = pairs[:, 1]
    if (own[pairs[:, 0]] != own[pairs[:, 1]]).any():
        raise ArrayError("edges: a parent belongs to another object")
    roots = np.flatnonzero(parent < 0)
    names, counts = np.unique(own[roots], return_counts=True)
    if (counts > 1).any():
        which = int(names[counts > 1][0])
        raise ArrayError(
            f"object {which} has {int(counts.max())} roots: a skeleton has one tree for each object; give each tree an id "
            f"with object_ids=, or write kind='graph'"
        )
    # Whoever goes up often enough is at a root, unless there is a circle.
    at, steps = np.where(parent < 0, np.arange(count), parent), 1
    while steps < count:
        at, steps = at[at], steps * 2
    if (parent[at] >= 0).any():
        raise ArrayError("edges: there is a circle; use kind='graph'")


def read_graph(
    store_path: Any,
    *,
    level: int = 0,
    object_ids: Any = None,
    bbox: Any = None,
    chunks: Any = None,
    attribute_filter: dict[str, Any] | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """Read a graph or a skeleton."""
    source = open_level(store_path, level, "graph", "skeleton")
    check_filter(source, attribute_filter)
    found = source.read(
        bbox=bbox,
        objects=object_ids,
        cells=None if chunks is None else [tuple(int(x) for x in chunk) for chunk in chunks],
        where=attribute_filter,
    )
    edges = found.edges if found.edges is not None else np.zeros((0, 2), dtype=np.int64)
    return {
        "positions": found.positions,
        "edges": edges,
        "vertex_attributes": dict(found.attributes),
        "node_count": found.vertex_count,
        "edge_count": len(edges),
    }


__all__ = ["read_graph", "write_graph"]
