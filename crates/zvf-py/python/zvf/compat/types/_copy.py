"""The finest level of a store as a value: read, changed, and written again with everything it had.

What rewrites a store in Python (other chunks, other bins, more columns, more points) goes through here, so that none of
it loses attributes of vertices, edges, objects or groups. Coarser levels are not carried over: they follow from level 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from zvf.writer import Writer

from ..api.dataset import Dataset
from ..exceptions import ArrayError
from ._common import Target, written

_CHAINS = ("line", "polyline", "streamline")


@dataclass
class Geometry:
    """Vertices with all that is said of them."""

    kind: str
    positions: npt.NDArray[Any]
    columns: dict[str, Any] = field(default_factory=dict)
    offsets: npt.NDArray[Any] | None = None
    part_ids: npt.NDArray[Any] | None = None
    owners: npt.NDArray[Any] | None = None
    edges: npt.NDArray[Any] | None = None
    faces: npt.NDArray[Any] | None = None
    element_columns: dict[str, Any] = field(default_factory=dict)
    object_ids: list[int] = field(default_factory=list)
    object_columns: dict[str, dict[int, Any]] = field(default_factory=dict)
    object_types: dict[str, str] = field(default_factory=dict)
    groups: list[tuple[str | None, list[int]]] = field(default_factory=list)
    group_columns: dict[str, Any] = field(default_factory=dict)
    codec: str | None = None
    shard: list[int] | None = None

    @property
    def owner_of_each(self) -> npt.NDArray[Any]:
        """The object of every vertex, -1 where it has none."""
        if self.offsets is not None and self.part_ids is not None:
            return np.repeat(self.part_ids, np.diff(self.offsets))
        return np.full(len(self.positions), -1, dtype=np.int64) if self.owners is None else self.owners


def read_geometry(source: Dataset, kind: str | None = None) -> Geometry:
    """The finest level of a store; of one with several kinds, that of ``kind``."""
    native = source.store._shared.dataset()
    info = next(entry for entry in native.info()["levels"] if entry["level"] == 0)
    kind = kind or source.kind_of(0)
    words: dict[str, Any] = {} if kind in _CHAINS else {"object_ids": True}
    answer = native.read(level=0, kind=kind, **words)
    found = Geometry(kind, answer.positions, {name: answer[name] for name in answer})
    if kind in _CHAINS:
        found.offsets, found.part_ids = answer.offsets, answer.part_ids
    else:
        owners = answer.object_ids
        found.owners = owners if owners is not None and (owners >= 0).any() else None
        found.edges, found.faces = answer.edges, answer.faces
        found.element_columns = {name: answer[name] for name in answer._element_fields()}
    views = [view for view in source.level(0).objects._views() if view.get("kind") in (None, kind)]
    types = {a["name"]: a["dtype"] for a in info["attributes"] if a["scope"] == "object"}
    found.object_ids, found.object_types = [view["id"] for view in views], types
    for name in types:
        values = {view["id"]: view["attributes"].get(name) for view in views}
        found.object_columns[name] = {i: v for i, v in values.items() if v is not None}
    groups = source.level(0).groups
    for view in groups._views():
        name = None if view["name"] == f"group_{view['group']}" else view["name"]
        found.groups.append((name, groups._group(view).members.tolist()))
        for key, value in view["attributes"].items():
            found.group_columns.setdefault(key, []).append(value)
    codecs = " ".join(map(str, info["codecs"]))
    found.codec = next((c for c in ("zstd", "blosc", "gzip") if c in codecs), None)
    found.shard = info["shard_shape"]
    return found


def write_geometry(
    geometry: Geometry, target: Target, *, beside: Sequence[Geometry] = (), by: Any = None, compressor: Any = None
) -> dict[str, Any]:
    """Writes it, and what is of other kinds beside it, to where ``target`` says; what is there stays until the new store is complete."""
    ndim = geometry.positions.shape[1]
    shard = geometry.shard[-ndim:] if geometry.shard else None
    explicit = geometry.kind == "skeleton" and bool(geometry.element_columns)
    kinds = [geometry.kind, *(other.kind for other in beside)]
    words = {"compressor": compressor or geometry.codec, "shard_shape": shard, "binned_by": by, "explicit": explicit}
    with written(target, kinds if beside else geometry.kind, ndim, **words) as writer:
        for one in (geometry, *beside):
            _push(one, writer, one.kind if beside else None)
        _groups(geometry, writer)
    return writer.report or {}


def _push(geometry: Geometry, writer: Writer, kind: str | None) -> None:
    owners = geometry.owners
    if owners is not None and (owners < 0).any():
        if (owners >= 0).any():
            raise ArrayError("some vertices belong to objects and some do not: such a store is not written again")
        owners = None
    writer.push(
        geometry.positions,
        attributes=geometry.columns,
        offsets=geometry.offsets,
        part_ids=geometry.part_ids,
        object_ids=owners,
        edges=geometry.edges,
        faces=geometry.faces,
        element_attributes=geometry.element_columns or None,
        kind=kind,
    )
    if geometry.object_ids and (owners is not None or geometry.part_ids is not None):
        writer.objects(geometry.object_ids, kind=kind)
        for name, values in geometry.object_columns.items():
            if values:
                writer.objects(list(values), {name: _typed(list(values.values()), geometry.object_types.get(name))}, kind=kind)


def _groups(geometry: Geometry, writer: Writer) -> None:
    for name, members in geometry.groups:
        writer.group(name, members)
    if geometry.groups and geometry.group_columns:
        from zvf._columns import columns

        complete = {k: _typed(v, None) for k, v in geometry.group_columns.items() if all(x is not None for x in v)}
        writer._begin().group_columns(columns(complete, len(geometry.groups))).wait()


def _typed(values: Any, dtype: str | None) -> npt.NDArray[Any]:
    array = np.array(values)
    return array if array.dtype.kind not in "biuf" or dtype is None else array.astype(dtype)


def extended(columns: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Columns after each other; both sides must have the same."""
    if set(columns) != set(more):
        raise ArrayError(f"the store has the attributes {sorted(columns)}, what is added has {sorted(more)}: add the same")
    return {name: np.concatenate([np.asarray(columns[name]), np.asarray(more[name])]) for name in columns}


__all__ = ["Geometry", "extended", "read_geometry", "write_geometry"]
