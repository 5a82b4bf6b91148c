"""Stores cut in another way: by a group, by an attribute, in other chunks, or in other bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..api.dataset import Dataset
from ..api.dataset import open as open_dataset
from ..core.metadata import RootMetadata
from ..core.store import read_root_metadata
from ..exceptions import ArrayError, StoreError, translating
from ..types._common import Target, resolve
from ..types._copy import Geometry, read_geometry, write_geometry
from .spec import DimensionMapper, RechunkSpec

_BIN = "rechunk_bin"


def rechunk(store_path: Any, spec: RechunkSpec, output: Any = None) -> dict[str, Any]:
    """Write the store again with a chunk axis in front: the number of the bin that an object is in."""
    if spec.by == "spatial":
        if spec.spatial_chunk_shape is None:
            raise ValueError("by='spatial' needs spatial_chunk_shape")
        rechunk_spatial(store_path, output, spec.spatial_chunk_shape)
        return {"bins_created": 1, "objects_rechunked": len(open_dataset(output or store_path).level(0).objects)}
    if spec.categorical and spec.bins is None and spec.by.startswith("attribute:"):
        return rechunk_by_attribute(store_path, spec.by.partition(":")[2], output, chunk_shape=spec.spatial_chunk_shape)
    source = _open(store_path, output)
    with translating(ArrayError):
        geometry = read_geometry(source)
        owners = geometry.owner_of_each
        if not len(owners) or (owners < 0).all():
            raise ArrayError("the store has no objects to be put into bins")
        bins = _bins(source, geometry, spec)
        column = np.array([bins.get(int(i), -1) for i in owners], dtype=np.int64)
        column = np.where(column < 0, column.max() + 1, column)
        name = spec.prefix_dim_name or _BIN
        geometry.columns[name] = column
        target = _target(source, geometry, output, spec.spatial_chunk_shape)
        write_geometry(geometry, target, by=(name, [int(n) for n in np.unique(column)]))
    return {"bins_created": len(np.unique(column)), "objects_rechunked": len(np.unique(owners[owners >= 0]))}


def rechunk_by_attribute(store_path: Any, attribute: str, output: Any = None, *, chunk_shape: Any = None) -> dict[str, Any]:
    """Write the store again with chunks by the values of an attribute, of vertices or of objects."""
    source = _open(store_path, output)
    with translating(ArrayError):
        geometry = read_geometry(source)
        if attribute in geometry.columns:
            column = np.asarray(geometry.columns[attribute])
        elif attribute in geometry.object_columns:
            values = geometry.object_columns[attribute]
            column = np.array([values.get(int(i)) for i in geometry.owner_of_each])
            geometry.columns[attribute] = column
        else:
            known = sorted({*geometry.columns, *geometry.object_columns})
            raise ArrayError(f"the attribute must name a key of the store: {known}, found {attribute!r}")
        values = [v.item() if isinstance(v, np.generic) else v for v in np.unique(column)]
        write_geometry(geometry, _target(source, geometry, output, chunk_shape), by=(attribute, values))
        owners = geometry.owner_of_each
    return {"bins_created": len(values), "objects_rechunked": len(np.unique(owners[owners >= 0]))}


def rechunk_spatial(store_path: Any, output: Any = None, chunk_shape: Any = None) -> dict[str, Any]:
    """Write the store again in chunks of another shape, without one in chunks of about a suitable size."""
    if chunk_shape is None and isinstance(output, (tuple, list)):
        output, chunk_shape = None, output
    source = _open(store_path, output)
    shape = tuple(float(x) for x in (chunk_shape if chunk_shape is not None else suggest_chunk_shape(store_path)))
    with translating(ArrayError):
        geometry = read_geometry(source)
        write_geometry(geometry, _target(source, geometry, output, shape))
    return {"vertex_count": len(geometry.positions), "chunk_shape": shape}


def rebin_level(store_path: Any, target_bin_shape: Any, *, level: int = 0) -> dict[str, Any]:
    """Write points again with bins of another size; attributes stay with their vertices."""
    source = _open(store_path, None)
    if int(level) != 0:
        raise StoreError("bins of level 0 are changed; coarser levels are built again from it")
    if source.kinds != ("point_cloud",):
        raise StoreError(f"rebin_level is for point clouds, the store holds {', '.join(source.kinds)}: see rechunk")
    before = read_root_metadata(source.store)
    bins = tuple(float(x) for x in target_bin_shape)
    with translating(StoreError):
        RootMetadata(chunk_shape=before.chunk_shape, base_bin_shape=bins).validate()
        geometry = read_geometry(source)
        target = _target(source, geometry, None, None)
        target.bin_shape = bins
        report = write_geometry(geometry, target)
    return {
        "chunks_processed": report["chunks"],
        "vertices_processed": len(geometry.positions),
        "bins_created": len(np.unique(np.floor(geometry.positions.astype(np.float64) / np.asarray(bins)), axis=0)),
        "old_bin_shape": before.effective_bin_shape,
        "new_bin_shape": bins,
    }


def suggest_chunk_shape(store_path: Any, target_vertices: int = 16384) -> tuple[float, ...]:
    """A shape of chunks that have about so many vertices."""
    source = open_dataset(store_path)
    low, high = source.bounds
    extent = np.maximum(high - low, 1e-9)
    cells = max(source.level(0).vertex_count / max(int(target_vertices), 1), 1.0)
    edge = float((np.prod(extent) / cells) ** (1 / len(extent)))
    return tuple(float(min(edge, e)) for e in extent)


def _open(store_path: Any, output: Any) -> Dataset:
    source = open_dataset(store_path, mode="r+" if output is None else "r")
    if output is None:
        source.store._shared.check_writable()
    return source


def _target(source: Dataset, geometry: Geometry, output: Any, chunk_shape: Any) -> Target:
    root = read_root_metadata(source.store)
    out = output if output is not None else source.store._shared.address
    shape = chunk_shape or root.chunk_shape
    target = resolve(
        out, geometry.kind, geometry.positions.shape[1], positions=geometry.positions, chunk_shape=shape,
        bin_shape=None if chunk_shape else root.base_bin_shape, bounds=root.bounds,
    )
    target.before, target.names = None, root.spatial_index_dims or None
    target.chunk_shape = tuple(float(x) for x in shape)
    target.bin_shape = None if chunk_shape else root.base_bin_shape
    return target


def _bins(source: Dataset, geometry: Geometry, spec: RechunkSpec) -> dict[int, int]:
    mapper = DimensionMapper(spec)
    ids = [int(i) for i in source.level(0).objects.ids()]
    if spec.by == "group":
        return {i: number for number, (_, members) in enumerate(geometry.groups) for i in members}
    if spec.by == "object_id":
        return mapper.map_objects(n_objects=max(ids, default=-1) + 1)
    name = spec.by.partition(":")[2]
    if name in geometry.object_columns:
        ids = [i for i in ids if i in geometry.object_columns[name]]
        values = np.array([geometry.object_columns[name][i] for i in ids])
    elif name == "length" and geometry.offsets is not None and geometry.part_ids is not None:
        steps = np.linalg.norm(np.diff(geometry.positions.astype(np.float64), axis=0), axis=1)
        steps[geometry.offsets[1:-1] - 1] = 0.0
        total = np.concatenate([[0.0], np.cumsum(steps)])
        ids = geometry.part_ids.tolist()
        values = total[geometry.offsets[1:] - 1] - total[geometry.offsets[:-1]]
    else:
        raise ArrayError(f"there is no object attribute {name!r}")
    return dict(zip(ids, mapper.numbers(values).tolist()))
