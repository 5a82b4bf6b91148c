"""What the writers of all kinds have in common: where to write, in which cells, and what was there before."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zvf._arrays import as_array, indices, named
from zvf._columns import columns
from zvf.writer import Writer
from zvf.writing import create as begin

from ..api.dataset import Dataset
from ..api.result import ReadResult
from ..constants import VALID_OOB_POLICIES
from ..core.group import Group, shared_for
from ..core.store import read_root_metadata
from ..exceptions import ArrayError, CoarseningError, MetadataError


def renamed(function: str, old: str, new: str, value: Any, current: Any) -> Any:
    """The value of a parameter that has an old spelling."""
    if value is None:
        return current
    if current is not None:
        raise TypeError(f"{function}: give either {new}= or its old name {old}=, not both")
    warnings.warn(f"{function}({old}=) is deprecated; use {new}=", DeprecationWarning, stacklevel=3)
    return value


def check_policy(policy: str, *, may_ignore: bool) -> None:
    """Fails for a policy that is none, before anything is written."""
    if policy not in VALID_OOB_POLICIES:
        raise MetadataError(f"out_of_bounds: expected one of {sorted(VALID_OOB_POLICIES)}, found {policy!r}")
    if policy == "ignore" and not may_ignore:
        raise ArrayError("out_of_bounds='ignore' is for points alone: a line or a face with a hole is not what was given")


def as_positions(value: Any, dtype: str, what: str = "positions") -> npt.NDArray[Any]:
    """Positions, in the type that is stored."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ArrayError(f"{what}: expected numbers, found {array.dtype}")
    if array.ndim != 2 or not 1 <= array.shape[1] <= 8:
        raise ArrayError(f"{what} must be (N, D), found the shape {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.dtype(dtype))
    if array.size and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ArrayError(f"{what}: expected finite coordinates, found {array[row].tolist()} in row {row}")
    return array


def as_rows(value: Any, what: str) -> npt.NDArray[np.int64]:
    """Edges or faces as rows of vertices: whole numbers, of whichever type."""
    array = as_array(value, what)
    if array.size and (array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and not (array == np.floor(array)).all())):
        raise ArrayError(f"{what}: expected whole numbers, found {array.dtype}")
    return array.astype(np.int64)


def as_ids(value: Any) -> npt.NDArray[np.int64]:
    """Ids of objects, one a vertex."""
    return indices(value, "object_ids").ravel()


@dataclass
class Target:
    """Where a writer writes, and what is there."""

    group: Group
    exists: bool
    chunk_shape: tuple[float, ...]
    bin_shape: tuple[float, ...] | None
    bounds: tuple[list[float], list[float]] | None
    names: list[Any] | None
    before: ReadResult | None
    keep: dict[str, Any]
    levels: Any = None  # of another store, those that are built with it


def resolve(
    target: Any,
    kind: str,
    ndim: int,
    *,
    positions: npt.NDArray[Any],
    chunk_shape: Any,
    bin_shape: Any,
    bounds: Any,
) -> Target:
    """Looks at what is there; a store that exists keeps its grid and its bounds."""
    shared = shared_for(target, "r+")
    if isinstance(target, (Group, Dataset)):
        shared.check_writable()
    group = Group(shared)
    exists = group.is_local and Path(shared.address, "zarr.json").is_file()
    if exists and "zarr_vectors" in group.attrs:
        root = read_root_metadata(group)
        if root.sid_ndim != ndim:
            raise ArrayError(f"positions have {ndim} axes, the store has {root.sid_ndim}: the rank must be the same")
        chunk_shape, bin_shape = root.chunk_shape or chunk_shape, root.base_bin_shape or bin_shape
        bounds = root.bounds
        before = None
        level = Dataset(group).level(0) if 0 in Dataset(group).levels else None
        if level is not None and level.vertex_count:
            if root.geometry_types and root.geometry_types[0] != kind:
                raise ArrayError(f"the store holds {root.geometry_types[0]}, not {kind}: see zarr_vectors.composite.add_geometry")
            before = level.read()
        attributes = group.attrs.to_dict()
        keep = {"user_metadata": attributes.get("user_metadata"), "specs": root.attribute_specs, "crs": attributes["zarr_vectors"].get("crs")}
        return Target(group, True, tuple(chunk_shape), _tuple(bin_shape), bounds, root.spatial_index_dims, before, keep)
    if chunk_shape is None:
        if bounds is not None:
            chunk_shape = [(b - a) or 1.0 for a, b in zip(*bounds)]
        else:
            far = np.abs(positions).max(axis=0).astype(np.float64) if len(positions) else np.ones(ndim)
            chunk_shape = [float(np.float32(x)) * 2.0 + 1.0 for x in far]
    chunk = tuple(float(x) for x in chunk_shape)
    if len(chunk) != ndim:
        raise ArrayError(f"chunk_shape has {len(chunk)} axes, positions have {ndim}: the rank must be the same")
    if any(not np.isfinite(x) or x <= 0 for x in chunk):
        raise ArrayError(f"chunk_shape: expected positive sizes, found {chunk}")
    corners = None if bounds is None else ([float(x) for x in bounds[0]], [float(x) for x in bounds[1]])
    return Target(group, exists, chunk, _tuple(bin_shape), corners, None, None, {})


def _tuple(shape: Any) -> tuple[float, ...] | None:
    return None if shape is None else tuple(float(x) for x in shape)


def check_bounds(target: Target, positions: npt.NDArray[Any], policy: str) -> npt.NDArray[np.bool_]:
    """Which vertices are within the declared bounds; fails where none may be outside."""
    inside = np.ones(len(positions), dtype=bool)
    if target.bounds is not None and len(positions):
        low, high = np.asarray(target.bounds[0]), np.asarray(target.bounds[1])
        inside = ((positions >= low) & (positions <= high)).all(axis=1)
        if policy == "raise" and not inside.all():
            row = int(np.flatnonzero(~inside)[0])
            raise MetadataError(
                f"vertex {row} at {positions[row].tolist()} lies outside the bounds {low.tolist()} to {high.tolist()}; "
                f"see out_of_bounds="
            )
        if policy == "expand" and not inside.all():
            grown = np.minimum(low, positions.min(axis=0)), np.maximum(high, positions.max(axis=0))
            target.bounds = (grown[0].astype(float).tolist(), grown[1].astype(float).tolist())
    return inside


def writer_for(
    target: Target,
    kind: str | Sequence[str],
    ndim: int,
    *,
    compressor: Any,
    shard_shape: Any,
    binned_by: tuple[str, Sequence[Any]] | None = None,
    explicit: bool = False,
) -> Writer:
    """Begins the store; what is there stays until the new one is complete."""
    shard = None
    if shard_shape is not None:
        shard = [int(shard_shape)] * ndim if isinstance(shard_shape, (int, np.integer)) else [int(n) for n in shard_shape]
        if any(n < 1 for n in shard):
            raise ArrayError(f"shard_shape: expected positive integers, found {shard_shape}")
        if len(shard) != ndim:
            raise ArrayError(f"shard_shape: expected the rank {ndim}, found {len(shard)}")
        shard = [1, *shard] if binned_by is not None else shard
    declared = {}
    for scope, specs in (target.keep.get("specs") or {}).items():
        declared[scope] = specs
    shared = target.group._shared
    return begin(
        shared.address,
        kind=kind,
        ndim=ndim,
        chunk=target.chunk_shape,
        bins=target.bin_shape,
        bounds=target.bounds,
        axes=target.names,
        shard=shard,
        codec=None if compressor in (None, "none", "raw") else compressor,
        outside="expand",
        overwrite=target.exists,
        compat=shard is None,
        explicit=explicit,
        crs=target.keep.get("crs"),
        metadata=target.keep.get("user_metadata"),
        declared=declared,
        binned_by=binned_by,
        storage_options=shared.storage,
    )


def finish(target: Target, writer: Writer) -> dict[str, Any]:
    """Ends the store and forgets what was read of the one before."""
    report = writer.finish()
    target.group._shared.changed()
    return report


@contextmanager
def written(target: Target, kind: str | Sequence[str], ndim: int, **words: Any) -> Iterator[Writer]:
    """Begins the store and ends it; what fails meanwhile leaves what was there before."""
    recipes = _levels_of(target, words.get("binned_by"))
    writer = writer_for(target, kind, ndim, **words)
    try:
        yield writer
        finish(target, writer)
    except BaseException:
        writer.abandon()
        raise
    if recipes is not None:
        recipes.build(target.group)


def _levels_of(target: Target, by: Any) -> Any:
    """How the coarser levels are built again; fails where that cannot be done, before anything is written."""
    from ..multiresolution.recipes import read_recipes

    recipes = target.levels
    if recipes is None and target.exists and "zarr_vectors" in target.group.attrs:
        with refused_levels():
            recipes = read_recipes(target.group)
    if recipes is None or not recipes.levels:
        return None
    if by is not None:
        raise ArrayError(
            f"the store has {len(recipes.levels)} coarser levels, which a store with chunks by {by[0]!r} cannot have: write it elsewhere "
            "(output=), or remove them first (building.remove_resolution_level)"
        )
    with refused_levels():
        recipes.factors(target.bin_shape or target.chunk_shape, target.chunk_shape)
    return recipes


@contextmanager
def refused_levels() -> Iterator[None]:
    """Levels that cannot be built again are a fault of the write that would drop them."""
    try:
        yield
    except CoarseningError as error:
        raise ArrayError(str(error)) from error


def after_those_before(target: Target, points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The points, after those that the store has."""
    if target.before is None:
        return points
    return np.concatenate([target.before.positions, points]).astype(points.dtype)


def named_columns(attributes: Mapping[str, Any] | None, what: str = "vertex_attributes") -> dict[str, Any]:
    """Attributes as arrays by name."""
    return {str(name): as_array(values, f"attribute {name!r}") for name, values in named(what, attributes).items()}


def add_groups(writer: Writer, groups: Mapping[int, Sequence[int]] | None, attributes: Mapping[str, Any] | None) -> int:
    """Adds groups by their numbers, those between as empty ones; returns how many."""
    if groups is None or (isinstance(groups, Mapping) and not groups):
        return 0
    given = named("groups", groups, "numbers to the ids of members")
    numbers = {int(k): indices(v, f"members of the group {k}").ravel().tolist() for k, v in given.items()}
    if min(numbers) < 0:
        raise ArrayError(f"groups: expected no negative number, found {min(numbers)}")
    for number in range(max(numbers) + 1):
        writer.group(None, numbers.get(number, []))
    if attributes:
        writer._begin().group_columns(columns(attributes, max(numbers) + 1, "group_attributes")).wait()
    return len(numbers)


def chunk_of(positions: npt.NDArray[Any], chunk_shape: Sequence[float]) -> npt.NDArray[Any]:
    """The chunk of each position."""
    return np.floor(positions.astype(np.float64) / np.asarray(chunk_shape)).astype(np.int64)


def bins_per_chunk(target: Target) -> tuple[int, ...]:
    """How many bins a chunk has on each axis."""
    bins = target.bin_shape or target.chunk_shape
    return tuple(int(round(c / b)) for c, b in zip(target.chunk_shape, bins))


def binned(name: str | None, attributes: dict[str, Any]) -> tuple[str, list[Any]] | None:
    """The attribute that gives chunks, and its values."""
    if name is None:
        return None
    if name not in attributes:
        raise ArrayError(f"chunk_by_attribute must name a key of vertex_attributes; found {name!r}")
    values = np.asarray(attributes[name])
    if values.dtype.kind == "f" or values.ndim != 1:
        raise ArrayError(f"chunk_by_attribute={name!r} is categorical-only: expected whole numbers or text, found {values.dtype}")
    if values.dtype.kind == "O" and not all(isinstance(v, str) for v in values):
        row = next(i for i, v in enumerate(values) if not isinstance(v, str))
        raise ArrayError(f"chunk_by_attribute={name!r} needs a value of each vertex: expected text, found {values[row]!r} in row {row}")
    return name, [v.item() if isinstance(v, np.generic) else v for v in np.unique(values)]


def check_uniform(by: Any, columns: dict[str, Any], ids: npt.NDArray[Any] | None) -> None:
    """Chunks of an attribute need one value for each object."""
    if by is not None and ids is not None:
        values = np.unique(np.asarray(columns[by[0]]), return_inverse=True)[1].reshape(-1)
        pairs = np.unique(np.column_stack([ids, values]), axis=0)
        if len(pairs) != len(np.unique(ids)):
            raise ArrayError(f"chunk_by_attribute={by[0]!r} needs per-object uniformity: an object has several values")


def merged(before: ReadResult | None, attributes: dict[str, Any], rows: int) -> dict[str, Any]:
    """Columns after those that are there; a column that one side lacks is refused."""
    if before is None:
        return attributes
    if set(before.attributes) != set(attributes):
        raise ArrayError(
            f"the store has the attributes {sorted(before.attributes)}, the new geometry has {sorted(attributes)}: add the same"
        )
    return {n: np.concatenate([before.attributes[n], np.asarray(attributes[n])]) for n in attributes}


def open_level(source: Any, level: int, *kinds: str) -> Any:
    """The level of a store for reading; of several kinds, the first of these that it has."""
    from ..core.store import open_store

    group = source if isinstance(source, Group) else open_store(getattr(source, "store", source), "r")
    dataset = Dataset(Group(group._shared))
    found = dataset.level(int(level))
    return next((found.of_kind(kind) for kind in kinds if len(dataset.kinds) > 1 and kind in dataset.kinds), found)


def check_filter(level: Any, attribute_filter: Mapping[str, Any] | None) -> None:
    """Filters are for stores whose chunks are those of an attribute."""
    if not attribute_filter:
        return
    native = level.dataset.store._shared.dataset()
    entry = next(e for e in native.info()["levels"] if e["level"] == level.index)
    chunked = entry.get("chunk_attribute")
    if chunked is None:
        raise ArrayError("attribute_filter needs a store chunked by an attribute: the level has no chunk_attribute_name")
    for name in attribute_filter:
        if name != chunked:
            raise ArrayError(f"attribute_filter {name!r} does not match what the store is chunked by; it must name a key {chunked!r}")

