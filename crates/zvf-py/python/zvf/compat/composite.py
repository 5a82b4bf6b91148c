"""Several geometries in one store."""

from __future__ import annotations

from typing import Any

from .core.group import Group, shared_for
from .core.store import read_root_metadata
from .exceptions import ArrayError, translating


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
    """Add a geometry of another kind to a store."""
    group = Group(shared_for(store_path, "r+"))
    group._shared.check_writable()
    if geometry_type not in ("graph", "mesh", "point_cloud", "polyline", "streamline"):
        raise ArrayError(f"geometry_type: expected graph, mesh, point_cloud or polyline, found {geometry_type!r}")
    raise ArrayError(
        f"{geometry_type} cannot be added to a store that has geometry in this build: write all kinds at once with "
        f"`zvf create` or keep a store for each"
    )


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
