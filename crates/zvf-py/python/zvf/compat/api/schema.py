"""What a store holds, said before it is written: frozen values."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..core.metadata import RootMetadata
from ..exceptions import MetadataError, SchemaConflict


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its name and unit."""

    name: str
    unit: str | None = None
    type: str = "space"

    def to_ngff(self) -> dict[str, str]:
        """As NGFF has it."""
        found = {"name": self.name, "type": self.type}
        return {**found, "unit": self.unit} if self.unit else found


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """What is declared of an attribute."""

    dtype: str = "float32"
    channels: int = 1
    categorical: bool = False
    unit: str | None = None
    description: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the root has it: only what is not the default."""
        found: dict[str, Any] = {"dtype": self.dtype}
        if self.channels != 1:
            found["channels"] = int(self.channels)
        if self.categorical:
            found["categorical"] = True
        found.update({k: v for k, v in (("unit", self.unit), ("description", self.description)) if v})
        return found

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> AttributeSpec:
        """The inverse of :meth:`to_dict`."""
        return cls(
            dtype=str(d.get("dtype", "float32")),
            channels=int(d.get("channels", 1) or 1),
            categorical=bool(d.get("categorical", False)),
            unit=d.get("unit"),
            description=d.get("description"),
        )

    def array_metadata(self) -> dict[str, Any]:
        """What the array of the attribute is told of it."""
        found: dict[str, Any] = {k: v for k, v in (("unit", self.unit), ("description", self.description)) if v}
        return {**found, "declared_categorical": True} if self.categorical else found


@dataclass(frozen=True, slots=True)
class SizeHints:
    """How much is coming."""

    n_vertices: int | None = None
    n_objects: int | None = None
    vertices_per_object: float | None = None


@dataclass(frozen=True, slots=True)
class ResolvedLayout:
    """A layout in numbers."""

    chunk_shape: tuple[float, ...]
    bin_shape: tuple[float, ...]
    shard_shape: int | tuple[int, ...] | None
    compressor: Any
    bounds: tuple[list[float], list[float]]


_CELL_BYTES = 64 << 20
_MAX_SHARD_CELLS = 1 << 20  # in what is written
_SUBCELLS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """How a store is cut into cells."""

    cells: int | Sequence[int] | Literal["auto"] = "auto"
    cell_size: Sequence[float] | None = None
    subcells: int | Literal["auto"] = "auto"
    pack: bool | Literal["auto"] = "auto"
    compression: str | None | Literal["auto"] = "auto"
    target_object_bytes: int = 16 << 20

    def resolve(self, schema: Schema, *, store_kind: str = "local") -> ResolvedLayout:
        """The sizes of chunks, bins and shards for a schema."""
        if schema.bounds is None:
            raise MetadataError("Layout.resolve needs Schema.bounds: cells are a share of the extent")
        low, high = ([float(x) for x in corner] for corner in schema.bounds)
        extent = [b - a for a, b in zip(low, high)]
        chunk = self._chunk(extent, schema)
        subcells = _SUBCELLS if self.subcells == "auto" else max(int(self.subcells), 1)
        pack = store_kind != "local" if self.pack == "auto" else bool(self.pack)
        codec = self.compression
        if codec == "auto":
            codec = os.environ.get("ZARR_VECTORS_COMPRESSION") or "zstd"
        return ResolvedLayout(
            chunk_shape=chunk,
            bin_shape=tuple(x / subcells for x in chunk),
            shard_shape=self._shard(extent, chunk, schema) if pack else None,
            compressor=codec,
            bounds=(low, high),
        )

    def _chunk(self, extent: list[float], schema: Schema) -> tuple[float, ...]:
        if self.cell_size is not None:
            if len(self.cell_size) != len(extent):
                raise MetadataError(f"Layout.cell_size has {len(self.cell_size)} axes but the bounds have {len(extent)}.")
            return tuple(float(x) for x in self.cell_size)
        cells = self.cells
        if isinstance(cells, str):
            count = schema.expected.n_vertices if schema.expected is not None else None
            cells = 1
            if count:
                cells = max(1, math.ceil((count * len(extent) * 4 / _CELL_BYTES) ** (1 / len(extent))))
        counts = [cells] * len(extent) if isinstance(cells, int) else [int(c) for c in cells]
        if len(counts) != len(extent):
            raise MetadataError(f"Layout.cells has {len(counts)} axes but the bounds have {len(extent)}.")
        return tuple((e / c if c > 0 else e) or 1.0 for e, c in zip(extent, counts))

    def _shard(self, extent: list[float], chunk: tuple[float, ...], schema: Schema) -> int:
        cells = math.prod(max(1, math.floor(e / c) + 1) for e, c in zip(extent, chunk))
        count = schema.expected.n_vertices if schema.expected is not None else None
        if not count:
            return 8
        a_cell = max(count * len(extent) * 4 / cells, 1.0)
        return max(1, int(min(self.target_object_bytes / a_cell, _MAX_SHARD_CELLS) ** (1 / len(extent))))


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where and how a store is reached."""

    backend: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    branch: str | None = None

    def resolve_backend(self, url: str) -> str | None:
        """The backend that is forced, or ``None``."""
        return self.backend or os.environ.get("ZARR_VECTORS_BACKEND") or None


_SCOPES = ("vertex", "object", "link")


@dataclass(frozen=True, slots=True)
class Schema:
    """What a store holds."""

    ndim: int = 3
    bounds: tuple[Sequence[float], Sequence[float]] | None = None
    axes: Sequence[Axis] | None = None
    kind: str = "point_cloud"
    position_dtype: str = "float32"
    vertex_attributes: Mapping[str, AttributeSpec] = field(default_factory=dict)
    object_attributes: Mapping[str, AttributeSpec] = field(default_factory=dict)
    link_attributes: Mapping[str, AttributeSpec] = field(default_factory=dict)
    expected: SizeHints | None = None
    layout: Layout = field(default_factory=Layout)

    def __post_init__(self) -> None:
        if self.bounds is not None:
            if len(self.bounds) != 2 or len(self.bounds[0]) != len(self.bounds[1]):
                raise MetadataError(f"Schema.bounds: expected two corners of one rank, found {self.bounds}")
            if len(self.bounds[0]) != self.ndim:
                object.__setattr__(self, "ndim", len(self.bounds[0]))
        if self.axes is not None and len(self.axes) != self.ndim:
            raise MetadataError(f"Schema.axes: expected {self.ndim} as the bounds have, found {len(self.axes)}")

    def with_bounds(self, lo: Sequence[float], hi: Sequence[float]) -> Schema:
        """The same with these corners."""
        return replace(self, bounds=(tuple(lo), tuple(hi)), ndim=len(lo))

    def spec_for(self, name: str, scope: str = "vertex") -> AttributeSpec | None:
        """What is declared of an attribute."""
        return self._scope(scope).get(name)

    def _scope(self, scope: str) -> Mapping[str, AttributeSpec]:
        return {"vertex": self.vertex_attributes, "object": self.object_attributes, "link": self.link_attributes}[scope] or {}

    def to_root_block(self) -> dict[str, Any]:
        """The declarations as the root has them."""
        found = {s: {n: spec.to_dict() for n, spec in self._scope(s).items()} for s in _SCOPES}
        return {s: specs for s, specs in found.items() if specs}

    @classmethod
    def from_store(cls, root_meta: RootMetadata, level_meta: Any = None) -> Schema:
        """The schema that a store says it has."""
        chunk, bins = root_meta.chunk_shape, root_meta.base_bin_shape
        ratios = {round(c / b) for c, b in zip(chunk, bins) if b} if chunk and bins else set()
        declared = root_meta.attribute_specs or {}
        specs = {s: {n: AttributeSpec.from_dict(d) for n, d in (declared.get(s) or {}).items()} for s in _SCOPES}
        bounds = root_meta.bounds
        return cls(
            ndim=int(root_meta.sid_ndim or 3),
            bounds=(tuple(bounds[0]), tuple(bounds[1])) if bounds else None,
            kind=(root_meta.geometry_types or ["point_cloud"])[0],
            vertex_attributes=specs["vertex"],
            object_attributes=specs["object"],
            link_attributes=specs["link"],
            layout=Layout(cell_size=tuple(chunk) or None, subcells=ratios.pop() if len(ratios) == 1 else "auto"),
        )

    def diff(self, other: Schema) -> list[str]:
        """Where two schemas contradict each other; what only one says is no contradiction."""
        found: list[str] = []
        if self.ndim != other.ndim:
            found.append(f"ndim: {self.ndim} != {other.ndim}")
        if self.kind and other.kind and self.kind != other.kind:
            found.append(f"kind: {self.kind} != {other.kind}")
        if self.bounds and other.bounds:
            for corner, a, b in zip(("min", "max"), self.bounds, other.bounds):
                if [float(x) for x in a] != [float(x) for x in b]:
                    found.append(f"bounds {corner}: {list(a)} != {list(b)}")
        mine, theirs = self.layout.cell_size, other.layout.cell_size
        if mine is not None and theirs is not None and [float(x) for x in mine] != [float(x) for x in theirs]:
            found.append(f"cell size: {list(mine)} != {list(theirs)}")
        for scope in _SCOPES:
            ours, yours = self._scope(scope), other._scope(scope)
            for name in sorted(set(ours) & set(yours)):
                if ours[name].to_dict() != yours[name].to_dict():
                    found.append(f"{scope} attribute {name!r}: {ours[name].to_dict()} != {yours[name].to_dict()}")
        return found


__all__ = ["AttributeSpec", "Axis", "Layout", "ResolvedLayout", "Schema", "SchemaConflict", "SizeHints", "StorageOptions"]
