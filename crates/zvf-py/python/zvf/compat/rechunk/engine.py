"""Stores cut in another way: by a group, by an attribute, or in other chunks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..api.dataset import Dataset
from ..api.dataset import open as open_dataset
from ..api.result import ReadResult
from ..core.store import read_root_metadata
from ..exceptions import ArrayError, translating
from ..types._common import add_groups, finish, resolve, writer_for
from .spec import RechunkSpec

_BIN = "rechunk_bin"


def rechunk(store_path: Any, spec: RechunkSpec, output: Any = None, **unused: Any) -> dict[str, Any]:
    """Write the store again with a chunk axis in front: the number of the bin that an object is in."""
    source = open_dataset(store_path)
    with translating(ArrayError):
        read = source.level(0).read()
        if read.part_objects is None and read.object_ids is None:
            raise ArrayError("the store has no objects to be put into bins")
        owners = read.part_objects if read.part_objects is not None else read.object_ids
        bins = _bins(source, read, spec)
        lengths = [s.stop - s.start for s in read.parts] if read.part_objects is not None else [1] * len(owners)
        column = np.repeat([bins.get(int(i), -1) for i in owners], lengths)
        if (column < 0).any():
            column = np.where(column < 0, column.max() + 1, column)
        _write(source, read, output, {_BIN: column})
    return {"bins_created": len(np.unique(column)), "objects_rechunked": len(set(int(i) for i in owners))}


def rechunk_by_attribute(store_path: Any, attribute: str, output: Any = None, **unused: Any) -> dict[str, Any]:
    """Write the store again with chunks by the values of an attribute of vertices."""
    source = open_dataset(store_path)
    with translating(ArrayError):
        read = source.level(0).read()
        if attribute not in read.attributes:
            raise ArrayError(f"the attribute must name a key of the store: {sorted(read.attributes)}, found {attribute!r}")
        column = read.attributes[attribute]
        _write(source, read, output, {}, by=attribute)
    return {"bins_created": len(np.unique(column)), "objects_rechunked": read.part_count}


def rechunk_spatial(store_path: Any, chunk_shape: Any, output: Any = None, **unused: Any) -> dict[str, Any]:
    """Write the store again in chunks of another shape."""
    source = open_dataset(store_path)
    with translating(ArrayError):
        read = source.level(0).read()
        _write(source, read, output, {}, chunk_shape=chunk_shape, by=None)
    return {"vertex_count": read.vertex_count, "chunk_shape": tuple(float(x) for x in chunk_shape)}


def suggest_chunk_shape(store_path: Any, target_vertices: int = 16384) -> tuple[float, ...]:
    """A shape of chunks that have about so many vertices."""
    source = open_dataset(store_path)
    low, high = source.bounds
    extent = np.maximum(high - low, 1e-9)
    cells = max(source.level(0).vertex_count / max(int(target_vertices), 1), 1.0)
    edge = float((np.prod(extent) / cells) ** (1 / len(extent)))
    return tuple(float(min(edge, e)) for e in extent)


def _bins(source: Dataset, read: ReadResult, spec: RechunkSpec) -> dict[int, int]:
    if spec.by == "group":
        groups = source.level(0).groups
        found = {}
        for number, name in enumerate(groups.names()):
            found.update({int(i): number for i in groups[name].members})
        return found
    name = spec.by.partition(":")[2]
    ids = [int(i) for i in source.level(0).objects.ids()]
    if name in source.level(0).attribute_names("object"):
        views = {v["id"]: v["attributes"][name] for v in source.level(0).objects._views()}
        values = np.array([views[i] for i in ids])
    elif name == "length" and read.part_objects is not None:
        steps = [np.linalg.norm(np.diff(p, axis=0), axis=1).sum() for p in read.polylines]
        ids, values = [int(i) for i in read.part_objects], np.array(steps)
    else:
        raise ArrayError(f"there is no object attribute {name!r}")
    if spec.bins is None:
        _, numbers = np.unique(values, return_inverse=True)
    else:
        edges = np.linspace(values.min(), values.max(), int(spec.bins) + 1) if isinstance(spec.bins, int) else np.asarray(spec.bins, dtype=float)
        numbers = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return dict(zip(ids, (int(n) for n in numbers)))


def _write(
    source: Dataset, read: ReadResult, output: Any, extra: dict[str, Any], chunk_shape: Any = None, by: str | None = _BIN
) -> None:
    root = read_root_metadata(source.store)
    attributes = {**{n: read.attributes[n] for n in read.attributes}, **extra}
    out = output if output is not None else source.store._shared.address
    target = resolve(
        out, read.kind, read.ndim, positions=read.positions, chunk_shape=chunk_shape or root.chunk_shape,
        bin_shape=None if chunk_shape is not None else root.base_bin_shape, bounds=root.bounds,
    )
    target.before, target.exists = None, target.exists or output is None
    if chunk_shape is not None:
        target.chunk_shape, target.bin_shape = tuple(float(x) for x in chunk_shape), None
    binned_by = None
    if by is not None:
        values = np.unique(np.asarray(attributes[by]))
        binned_by = (by, [v.item() for v in values])
    writer = writer_for(target, read.kind, read.ndim, compressor=None, shard_shape=None, binned_by=binned_by)
    try:
        if read.part_objects is not None:
            cuts = np.array([0, *(s.stop for s in read.parts)])
            writer.push(read.positions, offsets=cuts, part_ids=read.part_objects, attributes=attributes)
        else:
            writer.push(read.positions, attributes=attributes, object_ids=read.object_ids, edges=read.edges, faces=read.faces)
        groups = source.level(0).groups
        add_groups(writer, {i: groups[n].members.tolist() for i, n in enumerate(groups.names())}, None)
        finish(target, writer)
    except BaseException:
        writer.abandon()
        raise
