"""Several geometries in one store."""

from __future__ import annotations

from typing import Any

import numpy as np

from .api.dataset import Dataset
from .constants import VALID_GEOMETRY_TYPES
from .core.group import Group, shared_for
from .core.store import read_root_metadata
from .exceptions import ArrayError, translating
from .types._common import as_positions, renamed, resolve
from .types._copy import Geometry, read_geometry, write_geometry


def add_geometry(
    store_path: Any,
    geometry_type: str,
    *,
    positions: Any = None,
    edges: Any = None,
    faces: Any = None,
    polylines: Any = None,
    vertex_attributes: dict[str, Any] | None = None,
    level: int = 0,
    attributes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Add a geometry of another kind to a store, or make one with it; the store is written again, at once or not at all.

    What it adds gets ids after those that are there: one for a graph or a mesh, one for each line.
    """
    vertex_attributes = renamed("add_geometry", "attributes", "vertex_attributes", attributes, vertex_attributes)
    group = Group(shared_for(store_path, "r+"))
    if isinstance(store_path, (Group, Dataset)):
        group._shared.check_writable()
    if geometry_type not in VALID_GEOMETRY_TYPES:
        raise ArrayError(f"geometry_type: expected one of {sorted(VALID_GEOMETRY_TYPES)}, found {geometry_type!r}")
    if int(level) != 0:
        raise ArrayError("geometry is added to level 0; coarser levels are built again from it")
    with translating(ArrayError):
        made = _geometry(geometry_type, positions, edges, faces, polylines)
        made.columns = {str(k): np.asarray(v) for k, v in (vertex_attributes or {}).items()}
        exists = group.is_local and (group.path / "zarr.json").is_file()
        there = [read_geometry(Dataset(group), kind) for kind in Dataset(group).kinds] if exists and _has_geometry(group) else []
        if geometry_type in [one.kind for one in there]:
            raise ArrayError(f"the store holds {geometry_type} already: see Dataset.add_*")
        used = [-1, *(i for one in there for i in one.object_ids), *(int(one.owner_of_each.max(initial=-1)) for one in there)]
        _number(made, 1 + max(used))
        everything = np.concatenate([one.positions.astype(np.float64) for one in (*there, made)])
        low, high, ndim = everything.min(axis=0), everything.max(axis=0), made.positions.shape[1]
        root = read_root_metadata(group) if exists else None
        target = resolve(
            store_path, there[0].kind if there else geometry_type, ndim, positions=everything,
            chunk_shape=root.chunk_shape if root else None, bin_shape=root.base_bin_shape if root else None,
            bounds=(low.tolist(), high.tolist()),
        )
        if target.bounds is not None:
            low, high = np.minimum(low, target.bounds[0]), np.maximum(high, target.bounds[1])
        target.bounds, target.before = (low.tolist(), high.tolist()), None
        write_geometry((*there, made)[0], target, beside=(*there, made)[1:])
    return {"geometry_type": geometry_type, "vertex_count": len(made.positions)}


def _has_geometry(group: Group) -> bool:
    return bool(Dataset(group).kinds) and Dataset(group).level(0).vertex_count > 0


def _geometry(kind: str, positions: Any, edges: Any, faces: Any, polylines: Any) -> Geometry:
    if kind in ("polyline", "streamline", "line"):
        lines = polylines if polylines is not None else positions
        if lines is None:
            raise ArrayError(f"{kind}: give polylines=")
        parts = [as_positions(line, "float32", f"polyline {i}") for i, line in enumerate(lines)]
        if not parts:
            raise ArrayError("polylines: expected at least one")
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return Geometry(kind, np.concatenate(parts), offsets=offsets)
    if positions is None:
        raise ArrayError(f"{kind}: give positions=")
    points = as_positions(positions, "float32")
    if kind in ("graph", "skeleton"):
        if edges is None:
            raise ArrayError(f"{kind}: give edges=")
        return Geometry(kind, points, edges=np.asarray(edges).reshape(-1, 2))
    if kind == "mesh":
        if faces is None:
            raise ArrayError("mesh: give faces=")
        return Geometry(kind, points, faces=np.asarray(faces))
    return Geometry(kind, points)


def _number(made: Geometry, first: int) -> None:
    """Gives what is added the ids from ``first``."""
    if made.offsets is not None:
        made.part_ids = np.arange(first, first + len(made.offsets) - 1)
        made.object_ids = made.part_ids.tolist()
    elif made.kind != "point_cloud":
        made.owners, made.object_ids = np.full(len(made.positions), first, dtype=np.int64), [first]


def read_composite(store_path: Any, level: int = 0) -> dict[str, dict[str, Any]]:
    """Every geometry of a store."""
    group = Group(shared_for(store_path, "r"))
    native = group._shared.dataset()
    found: dict[str, dict[str, Any]] = {}
    with translating(ArrayError):
        for kind in read_root_metadata(group).geometry_types:
            answer = native.read(level=level, kind=kind)
            entry: dict[str, Any] = {"positions": answer.positions, "vertex_count": len(answer)}
            if answer.edges is not None:
                entry["links"] = answer.edges
            if answer.faces is not None:
                entry.update(faces=answer.faces, face_count=len(answer.faces))
            found[kind] = entry
    return found


__all__ = ["add_geometry", "read_composite"]
