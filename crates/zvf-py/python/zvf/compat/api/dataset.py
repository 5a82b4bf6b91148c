"""Datasets: the entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .._api_version import parse_version, satisfies
from ..core.backends import detect_scheme
from ..core.group import Group
from ..core.store import create_store, list_resolution_levels, open_store, read_root_metadata
from ..core.user_metadata import Metadata
from ..exceptions import ArrayError, ExistingStoreError, FormatError, LevelError, MetadataError, StoreError
from .level import Level
from .result import ReadResult
from .schema import Layout, Schema, SchemaConflict, StorageOptions
from .select import Query


class Dataset:
    """A store, addressed by what is in it."""

    def __init__(self, group: Group, *, storage: StorageOptions | None = None) -> None:
        self._group = group
        self._storage = storage or StorageOptions()
        self._meta: Any = None
        self._levels: dict[int, Level] = {}
        self._schema: Schema | None = None

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._group.url

    @property
    def store(self) -> Group:
        """The handle below."""
        return self._group

    @property
    def _root_meta(self) -> Any:
        if self._meta is None:
            self._meta = read_root_metadata(self._group)
        return self._meta

    @property
    def format_version(self) -> tuple[int, ...]:
        """The version of the format, as numbers."""
        return parse_version(self._root_meta.zv_version or "0.0.0")

    @property
    def capabilities(self) -> frozenset[str]:
        """Features that the store announces."""
        return frozenset(self._root_meta.format_capabilities)

    def supports(self, capability: str) -> bool:
        """Whether a feature is announced."""
        return capability in self.capabilities

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return int(self._root_meta.sid_ndim or 3)

    @property
    def bounds(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The lowest and the highest corner."""
        raw = self._root_meta.bounds
        if not raw:
            raise MetadataError(f"{self.url} declares no bounds")
        return np.asarray(raw[0], dtype=np.float64), np.asarray(raw[1], dtype=np.float64)

    @property
    def axes(self) -> tuple[dict[str, str], ...]:
        """Name, type and unit of each axis."""
        return tuple(dict(axis) for axis in self._root_meta.spatial_index_dims)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of geometry."""
        return tuple(self._root_meta.geometry_types)

    def kind_of(self, level: int = 0) -> str:
        """The kind that a read is decoded as."""
        if not self.kinds:
            raise MetadataError(f"{self.url} declares no geometry_types: write geometry to it first")
        # Of several kinds, meshes come first whatever was written first: points are what a composite is of.
        return "point_cloud" if len(self.kinds) > 1 and "point_cloud" in self.kinds else self.kinds[0]

    @property
    def levels(self) -> tuple[int, ...]:
        """The numbers of the resolutions."""
        return tuple(list_resolution_levels(self._group))

    def level(self, index: int = 0) -> Level:
        """One resolution."""
        index = int(index)
        if index not in self._levels:
            if index not in self.levels:
                raise LevelError(f"there is no level {index}: there is {list(self.levels)}")
            self._levels[index] = Level(self, index)
        return self._levels[index]

    def __getitem__(self, index: int) -> Level:
        return self.level(index)

    def __iter__(self) -> Iterator[Level]:
        return iter(self.level(i) for i in self.levels)

    def resolution(self, *, scale: float) -> Level:
        """The level whose cells are about this large."""
        sizes = [(abs(float(np.mean(self.level(i).scale)) - float(scale)), i) for i in self.levels if self.level(i).scale]
        if not sizes:
            raise MetadataError(f"{self.url} has no level with a known cell size")
        return self.level(min(sizes)[1])

    @property
    def metadata(self) -> Metadata:
        """What applications keep in the store."""
        return Metadata(self._group)

    @property
    def groups(self) -> Any:
        """The groups of level 0."""
        return self.level(0).groups

    @property
    def headers(self) -> Any:
        """Headers of other formats."""
        from ..headers import HeaderRegistry

        return HeaderRegistry(self._group)

    def select(self, **kw: Any) -> Query:
        """A query."""
        level = kw.get("level")
        return self.level(0 if level is None else int(level)).select(**kw)

    def read(self, **kw: Any) -> ReadResult:
        """The answer to ``select(**kw)``."""
        return self.select(**kw).read()

    async def aread(self, **kw: Any) -> ReadResult:
        """The same in asyncio."""
        return await self.select(**kw).aread()

    # Writing.

    def add_points(
        self,
        positions: npt.ArrayLike,
        *,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_ids: npt.ArrayLike | None = None,
        object_attributes: Mapping[str, npt.ArrayLike] | None = None,
        groups: Mapping[int, Sequence[int]] | None = None,
        layout: Layout | None = None,
        on_out_of_bounds: Literal["raise", "ignore", "expand"] = "raise",
    ) -> dict[str, Any]:
        """Write points; a second call adds to the first."""
        from ..types.points import write_points

        return self._write(
            write_points,
            positions,
            layout=layout,
            vertex_attributes=attributes,
            object_ids=object_ids,
            object_attributes=object_attributes,
            groups=groups,
            out_of_bounds=on_out_of_bounds,
        )

    def add_polylines(
        self,
        polylines: Sequence[npt.ArrayLike],
        *,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_attributes: Mapping[str, npt.ArrayLike] | None = None,
        groups: Mapping[int, Sequence[int]] | None = None,
        layout: Layout | None = None,
        streamlines: bool = False,
        on_out_of_bounds: Literal["raise", "ignore", "expand"] = "raise",
    ) -> dict[str, Any]:
        """Write polylines, or streamlines."""
        from ..types.polylines import write_polylines

        return self._write(
            write_polylines,
            polylines,
            layout=layout,
            vertex_attributes=attributes,
            object_attributes=object_attributes,
            groups=groups,
            geometry_type="streamline" if streamlines else "polyline",
            out_of_bounds=on_out_of_bounds,
        )

    def add_lines(
        self,
        endpoints: npt.ArrayLike,
        *,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_attributes: Mapping[str, npt.ArrayLike] | None = None,
        layout: Layout | None = None,
        on_out_of_bounds: Literal["raise", "ignore", "expand"] = "raise",
    ) -> dict[str, Any]:
        """Write lines of two ends: an array of the shape (M, 2, D)."""
        from ..types.lines import write_lines

        return self._write(
            write_lines,
            endpoints,
            layout=layout,
            vertex_attributes=attributes,
            object_attributes=object_attributes,
            out_of_bounds=on_out_of_bounds,
        )

    def add_mesh(
        self,
        vertices: npt.ArrayLike,
        faces: npt.ArrayLike,
        *,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_ids: npt.ArrayLike | None = None,
        layout: Layout | None = None,
        on_out_of_bounds: Literal["raise", "ignore", "expand"] = "raise",
    ) -> dict[str, Any]:
        """Write a mesh."""
        from ..types.meshes import write_mesh

        return self._write(
            write_mesh,
            vertices,
            faces,
            layout=layout,
            vertex_attributes=attributes,
            object_attributes=object_attributes,
            object_ids=object_ids,
            out_of_bounds=on_out_of_bounds,
        )

    def add_graph(
        self,
        positions: npt.ArrayLike,
        edges: npt.ArrayLike,
        *,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        edge_attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_attributes: Mapping[str, npt.ArrayLike] | None = None,
        object_ids: npt.ArrayLike | None = None,
        tree: bool = False,
        layout: Layout | None = None,
        on_out_of_bounds: Literal["raise", "ignore", "expand"] = "raise",
    ) -> dict[str, Any]:
        """Write a graph, or a skeleton."""
        from ..types.graphs import write_graph

        return self._write(
            write_graph,
            positions,
            edges,
            layout=layout,
            vertex_attributes=attributes,
            link_attributes=edge_attributes,
            object_attributes=object_attributes,
            object_ids=object_ids,
            kind="skeleton" if tree else "graph",
            out_of_bounds=on_out_of_bounds,
        )

    def _write(self, writer: Any, *data: Any, layout: Layout | None = None, **words: Any) -> dict[str, Any]:
        for word, value in words.items():
            if word in _MAPPINGS and value is not None and not isinstance(value, Mapping):
                raise ArrayError(f"{_MAPPINGS[word]}: expected a mapping, found {type(value).__name__}")
        schema = Schema.from_store(self._root_meta)
        if layout is None and self._schema is not None:
            layout = self._schema.layout
        resolved = (layout or schema.layout).resolve(schema, store_kind=_kind_of_url(self.url))
        words = {k: dict(v) if isinstance(v, Mapping) else v for k, v in words.items() if v is not None}
        words = {k: v for k, v in words.items() if not (isinstance(v, dict) and not v)}
        _check_declared(schema, words)
        if self._schema is not None:
            words["dtype"] = self._schema.position_dtype
        elif getattr(self._group._shared, "dtype", None):
            words["dtype"] = self._group._shared.dtype
        report = writer(
            self._group,
            *data,
            chunk_shape=resolved.chunk_shape,
            bin_shape=resolved.bin_shape,
            shard_shape=resolved.shard_shape,
            compressor=resolved.compressor,
            **words,
        )
        self._forget()
        _stamp(self, schema, words)
        return report

    def _forget(self) -> None:
        self._meta = None
        self._levels.clear()
        self._group._shared.reader = None

    def editing(self, *, level: int = 0, in_place: bool = False, **kw: Any) -> Any:
        """A batch of edits, applied together."""
        from .edit import EditPlan

        return EditPlan(self, level=level, in_place=in_place, **kw)

    def build_pyramid(self, *, factors: Sequence[tuple[float, float]], method: str = "per_object", **kw: Any) -> dict[str, Any]:
        """Build coarser levels: a factor for bins and one for objects for each."""
        from ..multiresolution.coarsen import build_pyramid

        report = build_pyramid(self._group, factors=list(factors), method=method, **kw)
        self._forget()
        return report

    def validate(self, *, level: int = 3) -> Any:
        """Check the store."""
        from ..validate import validate

        return validate(self._group, level=level)

    def commit(self, message: str = "zarr-vectors write") -> str | None:
        """Plain stores have nothing to commit."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._group, self._storage)

    def __repr__(self) -> str:
        return f"Dataset({self.url!r}, {', '.join(self.kinds) or 'empty'}, levels={list(self.levels)})"


def _again(group: Group, storage: StorageOptions) -> Dataset:
    return Dataset(group, storage=storage)


#: Words of the writers that are mappings, as the methods of a dataset call them.
_MAPPINGS = {
    "vertex_attributes": "attributes",
    "object_attributes": "object_attributes",
    "link_attributes": "edge_attributes",
    "groups": "groups",
}
_SCOPES = {"vertex_attributes": "vertex", "object_attributes": "object", "link_attributes": "link"}


def _check_declared(schema: Schema, words: Mapping[str, Any]) -> None:
    for word, scope in _SCOPES.items():
        for name, value in (words.get(word) or {}).items():
            spec = schema.spec_for(name, scope)
            if spec is None:
                continue
            array = np.asarray(value[0] if isinstance(value, list) and value else value)
            if array.dtype != np.dtype(spec.dtype):
                raise SchemaConflict(f"{scope} attribute {name!r} is declared {spec.dtype!r} but was given {str(array.dtype)!r}")
            channels = int(array.shape[-1]) if array.ndim > 1 else 1
            if channels != int(spec.channels):
                raise SchemaConflict(f"{scope} attribute {name!r} is declared with {spec.channels} channel(s) but was given {channels}.")


def _stamp(dataset: Dataset, schema: Schema, words: Mapping[str, Any]) -> None:
    """Puts the unit and the description of a declaration on the array."""
    for word, scope in _SCOPES.items():
        for name in words.get(word) or {}:
            spec = schema.spec_for(name, scope)
            extra = spec.array_metadata() if spec is not None else {}
            node = dataset.level(0).store
            if extra and node.is_local and f"{word}/{name}" in node:
                node.write_array_meta(f"{word}/{name}", extra)


def _kind_of_url(url: str) -> str:
    return "local" if detect_scheme(url) in ("", "file") else "object"


def open(source: Any, *, mode: Literal["r", "r+"] = "r", storage: StorageOptions | None = None) -> Dataset:
    """Open a dataset: a path, a URL, a handle, a store of zarr or obstore."""
    storage = storage or StorageOptions()
    return Dataset(open_store(source, mode, storage_options=storage.options), storage=storage)


def create(target: Any, *, schema: Schema, storage: StorageOptions | None = None) -> Dataset:
    """Create a dataset without geometry."""
    storage = storage or StorageOptions()
    resolved = schema.layout.resolve(schema, store_kind=_kind_of_url(str(target)))
    group = create_store(
        target,
        bounds=resolved.bounds,
        chunk_shape=resolved.chunk_shape,
        base_bin_shape=resolved.bin_shape,
        compressor=resolved.compressor,
        ndim=schema.ndim,
        vertex_dtype=schema.position_dtype,
        axes=[axis.to_ngff() for axis in schema.axes] if schema.axes else None,
        geometry_types=[schema.kind] if schema.kind else None,
        attribute_specs=schema.to_root_block() or None,
        storage_options=storage.options,
    )
    made = Dataset(group, storage=storage)
    made._schema = schema
    return made


def open_or_create(
    target: Any,
    *,
    schema: Schema,
    storage: StorageOptions | None = None,
    on_conflict: Literal["raise", "keep"] = "raise",
) -> Dataset:
    """Open a dataset, or create it where there is none."""
    storage = storage or StorageOptions()
    try:
        group = open_store(target, "r+", storage_options=storage.options)
    except StoreError:
        return create(target, schema=schema, storage=storage)
    found = Dataset(group, storage=storage)
    differences = [] if on_conflict == "keep" else schema.diff(Schema.from_store(found._root_meta))
    if differences:
        raise SchemaConflict(
            f"{found.url} already exists and disagrees with the schema it was opened with:\n  "
            + "\n  ".join(differences)
            + "\nPass on_conflict='keep' to use the store's own values."
        )
    return found


async def aopen(source: Any, *, storage: StorageOptions | None = None) -> Dataset:
    """Open a dataset without blocking the loop."""
    return await asyncio.to_thread(open, source, storage=storage)


def require_format(dataset: Dataset, spec: str) -> None:
    """Raise unless the format of a store satisfies ``spec``, such as ``">=0.9,<0.11"``."""
    found = dataset.format_version
    if satisfies(found, spec) is not None:
        raise FormatError(
            f"{dataset.url} is on-disk format {'.'.join(map(str, found))}, which does not satisfy {spec!r}: an older "
            f"store must be rewritten from source, and a newer one needs a newer zarr-vectors."
        )


__all__ = ["Dataset", "ExistingStoreError", "FormatError", "aopen", "create", "open", "open_or_create", "require_format"]
