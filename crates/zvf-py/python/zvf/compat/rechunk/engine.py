"""Stores cut in another way: by a group, by an attribute, in other chunks, or in other bins."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..api.dataset import Dataset
from ..api.dataset import open as open_dataset
from ..core.group import Group, shared_for
from ..core.metadata import validate_bin_shape_divides_chunk
from ..core.store import read_root_metadata
from ..exceptions import ArrayError, ExistingStoreError, StoreError, translating
from ..multiresolution.recipes import Recipes, read_recipes
from ..types._common import Target, refused_levels, resolve
from ..types._copy import Geometry, read_geometry, write_geometry
from .spec import DimensionMapper, RechunkSpec

_BIN = "rechunk_bin"


def rechunk(store_path: Any, spec: RechunkSpec, output: Any = None) -> dict[str, Any]:
    """Write the store again with a chunk axis in front: the number of the bin that an object is in."""
    if spec.by == "spatial":
        if spec.spatial_chunk_shape is None:
            raise ValueError("by='spatial' needs spatial_chunk_shape")
        found = rechunk_spatial(store_path, output, spec.spatial_chunk_shape)
        made = open_dataset(output if output is not None else store_path)
        names = [axis.get("name", f"dim{number}") for number, axis in enumerate(made.axes)]
        return {
            "bins_created": 1,
            "objects_rechunked": len(made.level(0).objects),
            "total_vertices": found["vertex_count"],
            "rechunk_dims": names,
            "output_path": found["output_path"],
        }
    if spec.categorical and spec.bins is None and spec.by.startswith("attribute:"):
        return rechunk_by_attribute(store_path, spec.by.partition(":")[2], output, spatial_chunk_shape=spec.spatial_chunk_shape)
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
    return _report(source, geometry, output, spec.dimension_name, len(np.unique(column)))


def _report(source: Dataset, geometry: Geometry, output: Any, dimension: str, bins: int) -> dict[str, Any]:
    """What was cut, and where it is; of what has coarser levels, that they are not there."""
    coarser = [level for level in source.levels if level > 0] if output is not None else []
    if coarser:
        warnings.warn(f"the coarser levels {coarser} are not in {output}: build them again there", UserWarning, stacklevel=3)
    owners = geometry.owner_of_each
    names = [axis.get("name", f"dim{number}") for number, axis in enumerate(read_root_metadata(source.store).spatial_index_dims)]
    return {
        "bins_created": bins,
        "objects_rechunked": len(np.unique(owners[owners >= 0])),
        "total_vertices": len(geometry.positions),
        "rechunk_dims": [dimension, *names],
        "output_path": str(output if output is not None else source.store._shared.address),
    }


def rechunk_by_attribute(store_path: Any, attribute_name: str, output: Any = None, *, spatial_chunk_shape: Any = None) -> dict[str, Any]:
    """Write the store again with chunks by the values of an attribute, of vertices or of objects."""
    attribute, chunk_shape = attribute_name, spatial_chunk_shape
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
    return _report(source, geometry, output, attribute, len(values))


def rechunk_spatial(
    store_path: Any,
    output: Any = None,
    chunk_shape: Any = None,
    *,
    level_chunk_shapes: Mapping[int, Any] | None = None,
    target_links_per_chunk: int = 8_000_000,
    levels: Sequence[int] | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write the store again in chunks of another shape, without one in chunks that :func:`suggest_chunk_shape` finds.

    Coarser levels that the reference's method made are built again, with the bins and objects that they have: all of them,
    or the first so many that ``levels`` names. ``level_chunk_shapes`` gives them chunks of their own, whole multiples of those
    below. ``force`` replaces what is at ``output``.
    """
    if chunk_shape is None and isinstance(output, (tuple, list)):
        output, chunk_shape = None, output
    if chunk_shape is None:
        own = (level_chunk_shapes or {}).get(0)
        chunk_shape = own if own is not None else suggest_chunk_shape(store_path, target_links_per_chunk=target_links_per_chunk)
    shape = tuple(float(x) for x in chunk_shape)
    # What cannot be built is refused before anything is replaced.
    recipes = _recipes(open_dataset(store_path), levels, level_chunk_shapes or {}, shape)
    source = _open(store_path, output, force=force)
    with translating(ArrayError):
        geometry = read_geometry(source)
        target = _target(source, geometry, output, shape)
        target.levels = recipes
        write_geometry(geometry, target)
    elements = next((e for e in (geometry.edges, geometry.faces) if e is not None), ())
    width = 3 if geometry.faces is not None else 2
    written = [{"level": 0, "objects": len(geometry.object_ids), "vertices": len(geometry.positions), "links": len(elements), "chunk_shape": shape}]
    made = open_dataset(output if output is not None else source.store._shared.address)
    for number in range(1, len(target.levels.levels) + 1 if target.levels else 1):
        level = made.level(number)
        written.append({"level": number, "objects": level.objects.count, "vertices": level.vertex_count, "links": 0, "chunk_shape": level.scale})
    for entry in written:
        entry.update(link_width=width, attributes=len(made.level(entry["level"]).attribute_names("object")))
    return {
        "output_path": str(output if output is not None else source.store._shared.address),
        "chunk_shape": shape,
        "level_chunk_shapes": {entry["level"]: entry["chunk_shape"] for entry in written},
        "levels": written,
        "vertex_count": len(geometry.positions),
    }


def _recipes(source: Dataset, levels: Sequence[int] | None, shapes: Mapping[int, Any], root: Sequence[float]) -> Recipes | None:
    """How the levels that are wanted are built in the new chunks."""
    wanted = sorted(int(n) for n in levels) if levels is not None else list(source.levels)
    if wanted != list(range(len(wanted))) or not wanted or not set(wanted) <= set(source.levels):
        raise ArrayError(f"levels: expected the first of {list(source.levels)}, without gaps, found {wanted}")
    if len(wanted) == 1:
        return Recipes((), 1, "none")
    with refused_levels():
        found = read_recipes(source.store, wanted[1:])
        if found is not None:
            found = found.scaled({int(n): shape for n, shape in shapes.items()}, root)
            found.factors(_bins_within(source, root) or root, root)
    return found


def _bins_within(source: Dataset, chunk: Sequence[float]) -> tuple[float, ...] | None:
    """The bins of a store, where they divide chunks of this shape."""
    bins = read_root_metadata(source.store).base_bin_shape
    divide = bins is not None and len(bins) == len(chunk) and all(c >= b and abs(c / b - round(c / b)) < 1e-9 for c, b in zip(chunk, bins))
    return bins if divide else None


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
        validate_bin_shape_divides_chunk(before.chunk_shape, bins)
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
        "level": 0,
    }


def suggest_chunk_shape(
    store_path: Any, *, level: int | None = None, target_links_per_chunk: int = 8_000_000
) -> tuple[float, ...]:
    """The shape of chunks, halved until none is to have more than so many edges or faces.

    Every level is looked into unless ``level`` names one.
    """
    source = open_dataset(store_path)
    shape = np.asarray(read_root_metadata(source.store).chunk_shape, dtype=np.float64)
    numbers = source.levels if level is None else (int(level),)
    worst = max((_links_of_fullest_chunk(source, number) for number in numbers), default=0)
    for _ in range(8):
        if worst <= target_links_per_chunk:
            break
        shape, worst = shape / 2, worst / 2 ** len(shape)  # links go with the volume
    return tuple(float(x) for x in shape)


def _links_of_fullest_chunk(source: Dataset, level: int) -> int:
    """The most edges or faces of a level that begin in one chunk."""
    native = source.store._shared.dataset()
    answer = native.read(level=level, attributes=[])
    elements = answer.faces if answer.faces is not None else answer.edges
    if elements is None or not len(elements):
        return 0
    chunks = np.floor(answer.positions[elements[:, 0]] / np.asarray(source.level(level).scale))
    return int(np.unique(chunks, axis=0, return_counts=True)[1].max())


def _open(store_path: Any, output: Any, *, force: bool = False) -> Dataset:
    source = open_dataset(store_path, mode="r+" if output is None else "r")
    if output is not None:
        place = Group(shared_for(output, "r+"))
        is_there = place.is_local and (place.path / "zarr.json").is_file()
        if is_there and place._shared.address != source.store._shared.address:
            if not force:
                raise ExistingStoreError(f"there is a store already at {place._shared.address}")
            shutil.rmtree(place.path)
    if output is None:
        source.store._shared.check_writable()
    return source


def _target(source: Dataset, geometry: Geometry, output: Any, chunk_shape: Any) -> Target:
    root = read_root_metadata(source.store)
    out = output if output is not None else source.store._shared.address
    shape = tuple(float(x) for x in chunk_shape or root.chunk_shape)
    bins = _bins_within(source, shape) if chunk_shape else root.base_bin_shape
    target = resolve(
        out, geometry.kind, geometry.positions.shape[1], positions=geometry.positions, chunk_shape=shape, bin_shape=bins, bounds=root.bounds
    )
    target.before, target.names = None, root.spatial_index_dims or None
    target.chunk_shape, target.bin_shape = shape, bins
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
