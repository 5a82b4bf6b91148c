"""Columns and points that are added to a level: the store is written again with them, at once or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np

from ..exceptions import ArrayError, translating
from ..types._common import chunk_of, resolve
from ..types._copy import Geometry, extended, read_geometry, write_geometry

if TYPE_CHECKING:
    from ..api.level import Level


class ZVWriter:
    """A writer of one level; each method has a twin that blocks, and each call is whole."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self._shared = level.dataset.store._shared

    async def __aenter__(self) -> ZVWriter:
        return self

    async def __aexit__(self, *_: Any) -> None:
        return None

    def __enter__(self) -> ZVWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def _rewrite(self, geometry: Geometry) -> None:
        root = self._level.dataset._root_meta
        target = resolve(
            self._level.dataset, geometry.kind, geometry.positions.shape[1], positions=geometry.positions,
            chunk_shape=root.chunk_shape, bin_shape=root.base_bin_shape, bounds=root.bounds,
        )
        write_geometry(geometry, target)
        self._level.dataset._forget()

    def _read(self) -> Geometry:
        if self._level.index != 0:
            raise ArrayError("columns are added to level 0; coarser levels are built again from it")
        return read_geometry(self._level.dataset)

    def add_attribute_sync(self, name: str, values: Any, *, dtype: Any = None) -> None:
        """Add an attribute of vertices, in the order in which they are read."""
        with translating(ArrayError):
            array, geometry = np.asarray(values, dtype=dtype), self._read()
            if array.ndim < 1 or len(array) != len(geometry.positions):
                length = len(array) if array.ndim else 0
                raise ArrayError(f"add_attribute({name!r}): values length {length} != level vertex count {len(geometry.positions)}")
            geometry.columns[str(name)] = array
            self._rewrite(geometry)

    add_node_attribute_sync = add_attribute_sync

    def add_face_attribute_sync(self, name: str, values: Any, *, dtype: Any = None) -> None:
        """Add an attribute of faces, in the order in which they are read."""
        with translating(ArrayError):
            array, geometry = np.asarray(values, dtype=dtype), self._read()
            count = 0 if geometry.faces is None else len(geometry.faces)
            if array.ndim < 1 or len(array) != count:
                raise ArrayError(f"add_face_attribute({name!r}): values of the shape {array.shape} != level face count {count}")
            geometry.element_columns[str(name)] = array
            self._rewrite(geometry)

    def add_object_attribute_sync(self, name: str, values: Any, *, dtype: Any = None) -> None:
        """Add an attribute of objects, one row for each."""
        with translating(ArrayError):
            array, geometry = np.asarray(values, dtype=dtype), self._read()
            if array.ndim < 1 or len(array) != len(geometry.object_ids):
                raise ArrayError(f"add_object_attribute({name!r}): values of the shape {array.shape} != {len(geometry.object_ids)} objects")
            geometry.object_columns[str(name)] = dict(zip(geometry.object_ids, array.tolist()))
            geometry.object_types[str(name)] = str(array.dtype)
            self._rewrite(geometry)

    def append_vertices_sync(
        self, positions: Any, *, attributes: dict[str, Any] | None = None, object_ids: Any = None, dtype: Any = None
    ) -> dict[str, Any]:
        """Add points, each an object of its own unless ids are given; ids that are there are refused."""
        with translating(ArrayError):
            geometry, points = self._read(), np.asarray(positions, dtype=dtype)
            if points.ndim != 2:
                raise ArrayError(f"positions must be (N, D), got shape {points.shape}")
            if points.shape[1] != geometry.positions.shape[1]:
                raise ArrayError(f"position ndim {points.shape[1]} != store sid_ndim {geometry.positions.shape[1]}")
            if geometry.kind != "point_cloud":
                raise ArrayError(f"points are appended to point clouds, the store holds {geometry.kind}")
            if not len(points):
                return {"vertices_added": 0, "new_objects": 0, "chunks_touched": 0}
            first = max(geometry.object_ids, default=-1) + 1
            ids = np.arange(first, first + len(points)) if object_ids is None else np.asarray(object_ids).ravel()
            if ids.shape != (len(points),):
                raise ArrayError(f"object_ids shape {ids.shape} != (N,) = ({len(points)},)")
            if np.isin(ids, geometry.object_ids).any():
                raise ArrayError(f"object_ids overlap existing objects (min={int(ids.min())}, existing_num={first})")
            geometry.columns = extended(geometry.columns, attributes or {})
            geometry.positions = np.concatenate([geometry.positions, points.astype(geometry.positions.dtype)])
            if geometry.owners is not None or object_ids is not None or not first:
                before = geometry.owner_of_each[: len(geometry.positions) - len(points)]
                if geometry.owners is not None or not len(before):
                    geometry.owners = np.concatenate([before, ids.astype(np.int64)])
                    geometry.object_ids = [*geometry.object_ids, *(int(i) for i in np.unique(ids))]
            self._rewrite(geometry)
        chunks = np.unique(chunk_of(points, self._level.dataset._root_meta.chunk_shape), axis=0)
        new = 0 if geometry.owners is None else len(np.unique(ids))
        return {"vertices_added": len(points), "new_objects": new, "chunks_touched": len(chunks)}

    def commit_sync(self) -> dict[str, Any]:
        """Everything is written already."""
        return {"committed": True, "num_objects": len(self._level.dataset.level(0).objects)}

    def compact_sync(self) -> dict[str, Any]:
        """There is nothing to compact."""
        return {"compacted": True, "num_objects": len(self._level.dataset.level(0).objects)}

    async def add_attribute(self, name: str, values: Any, *, dtype: Any = None) -> None:
        """As :meth:`add_attribute_sync`, without blocking the loop."""
        await asyncio.to_thread(self.add_attribute_sync, name, values, dtype=dtype)

    add_node_attribute = add_attribute

    async def add_face_attribute(self, name: str, values: Any, *, dtype: Any = None) -> None:
        """As :meth:`add_face_attribute_sync`, without blocking the loop."""
        await asyncio.to_thread(self.add_face_attribute_sync, name, values, dtype=dtype)

    async def add_object_attribute(self, name: str, values: Any, *, dtype: Any = None) -> None:
        """As :meth:`add_object_attribute_sync`, without blocking the loop."""
        await asyncio.to_thread(self.add_object_attribute_sync, name, values, dtype=dtype)

    async def append_vertices(
        self, positions: Any, *, attributes: dict[str, Any] | None = None, object_ids: Any = None, dtype: Any = None
    ) -> dict[str, Any]:
        """As :meth:`append_vertices_sync`, without blocking the loop."""
        return await asyncio.to_thread(self.append_vertices_sync, positions, attributes=attributes, object_ids=object_ids, dtype=dtype)

    async def commit(self) -> dict[str, Any]:
        """As :meth:`commit_sync`."""
        return self.commit_sync()

    async def compact(self) -> dict[str, Any]:
        """As :meth:`compact_sync`."""
        return await asyncio.to_thread(self.compact_sync)
