"""Root and level metadata as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..exceptions import MetadataError


@dataclass
class NgffAxis:
    """An axis as NGFF has it."""

    name: str
    type: str = "space"
    unit: str | None = None


@dataclass
class RootMetadata:
    """What the root says of a store."""

    spatial_index_dims: list[dict[str, Any]] = field(default_factory=list)
    chunk_shape: tuple[float, ...] = ()
    bounds: Any = None
    geometry_types: list[str] = field(default_factory=list)
    base_bin_shape: tuple[float, ...] | None = None
    zv_version: str = "0.9.2"
    format_capabilities: list[str] = field(default_factory=list)
    attribute_specs: dict[str, Any] | None = None
    links_convention: str | None = None
    object_index_convention: str | None = None
    cross_chunk_strategy: str | None = None

    @property
    def bins_per_chunk(self) -> tuple[int, ...]:
        """How many bins a chunk has on each axis."""
        bins = self.base_bin_shape or self.chunk_shape
        return tuple(round(c / b) for c, b in zip(self.chunk_shape, bins))

    @property
    def effective_bin_shape(self) -> tuple[float, ...]:
        """The size of a bin: that of a chunk where there are no bins."""
        return self.base_bin_shape or self.chunk_shape

    def validate(self) -> None:
        """Fails when what is said contradicts itself."""
        if self.bounds is not None and any(a > b for a, b in zip(*self.bounds)):
            raise MetadataError(f"bounds: the first corner must be the lower one, found {self.bounds}")
        for chunk, size in zip(self.chunk_shape, self.base_bin_shape or self.chunk_shape):
            if size <= 0 or abs(chunk / size - round(chunk / size)) > 1e-9:
                raise MetadataError(f"base_bin_shape must divide chunk_shape: {self.base_bin_shape} and {self.chunk_shape}")

    @property
    def sid_ndim(self) -> int:
        """How many axes there are."""
        return len(self.spatial_index_dims) or len(self.chunk_shape)

    @classmethod
    def from_attrs(cls, attrs: Mapping[str, Any]) -> RootMetadata:
        """From the attributes of a root."""
        block = dict(attrs.get("zarr_vectors") or {})
        scales = attrs.get("multiscales") or [{}]
        axes = list(scales[0].get("axes") or [])
        return cls(
            spatial_index_dims=axes,
            chunk_shape=tuple(float(x) for x in block.get("chunk_shape") or ()),
            bounds=block.get("bounds"),
            geometry_types=list(block.get("geometry_types") or []),
            base_bin_shape=tuple(block["base_bin_shape"]) if block.get("base_bin_shape") else None,
            zv_version=str(block.get("zv_version", "0.0.0")),
            format_capabilities=list(block.get("format_capabilities") or []),
            attribute_specs=block.get("attribute_specs"),
            links_convention=block.get("links_convention"),
            object_index_convention=block.get("object_index_convention"),
            cross_chunk_strategy=block.get("cross_chunk_strategy"),
        )


@dataclass
class LevelMetadata:
    """What a level says of itself."""

    level: int = 0
    vertex_count: int = 0
    arrays_present: list[str] = field(default_factory=list)
    bin_shape: tuple[float, ...] | None = None
    bin_ratio: tuple[int, ...] | None = None
    chunk_shape: tuple[float, ...] | None = None
    object_sparsity: float = 1.0
    coarsening_method: str = "none"
    parent_level: int | None = None
    chunk_attribute_name: str | None = None
    chunk_attribute_values: list[Any] | None = None
    chunk_dims: list[str] | None = None

    def validate(self) -> None:
        """Fails when what is said makes no sense."""
        if not 0.0 < self.object_sparsity <= 1.0:
            raise MetadataError(f"object_sparsity: expected a share above 0 and at most 1, found {self.object_sparsity}")

    @classmethod
    def from_attrs(cls, attrs: Mapping[str, Any]) -> LevelMetadata:
        """From the attributes of a level."""
        block = dict(attrs.get("zarr_vectors_level") or {})
        shape = lambda key: tuple(block[key]) if block.get(key) else None
        return cls(
            level=int(block.get("level", 0)),
            vertex_count=int(block.get("vertex_count", 0)),
            arrays_present=list(block.get("arrays_present") or []),
            bin_shape=shape("bin_shape"),
            bin_ratio=shape("bin_ratio"),
            chunk_shape=shape("chunk_shape"),
            object_sparsity=float(block.get("object_sparsity", 1.0)),
            coarsening_method=str(block.get("coarsening_method", "none")),
            parent_level=block.get("parent_level"),
            chunk_attribute_name=block.get("chunk_attribute_name"),
            chunk_attribute_values=block.get("chunk_attribute_values"),
            chunk_dims=block.get("chunk_dims"),
        )


def compute_bin_shape(base_bin_shape: tuple[float, ...], bin_ratio: tuple[int, ...]) -> tuple[float, ...]:
    """The size of a bin, by that of the finest level and their ratio."""
    if len(base_bin_shape) != len(bin_ratio):
        raise MetadataError(f"bin_ratio: expected the rank {len(base_bin_shape)}, found {len(bin_ratio)}")
    return tuple(float(b) * int(r) for b, r in zip(base_bin_shape, bin_ratio))


def compute_bin_ratio(base_bin_shape: tuple[float, ...], level_bin_shape: tuple[float, ...]) -> tuple[int, ...]:
    """How many bins of the finest level one of another has on each axis."""
    found = []
    for base, own in zip(base_bin_shape, level_bin_shape):
        ratio = own / base
        if round(ratio) < 1 or abs(ratio - round(ratio)) > 1e-6:
            raise MetadataError(f"a bin of {own} is no whole multiple of one of {base}")
        found.append(round(ratio))
    return tuple(found)


def get_level_chunk_shape(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[float, ...]:
    """The size of a chunk of a level."""
    own = level_meta.chunk_shape if level_meta is not None else None
    return tuple(float(c) for c in own or root_meta.chunk_shape)


def get_level_bin_shape(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[float, ...]:
    """The size of a bin of a level."""
    if level_meta is not None and level_meta.bin_shape:
        return tuple(float(b) for b in level_meta.bin_shape)
    ratio = level_meta.bin_ratio if level_meta is not None and level_meta.bin_ratio else (1,) * len(root_meta.effective_bin_shape)
    return compute_bin_shape(root_meta.effective_bin_shape, ratio)


def chunk_scale_from_root(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[int, ...]:
    """How many chunks of the root one of a level has on each axis."""
    return compute_bin_ratio(root_meta.chunk_shape, get_level_chunk_shape(root_meta, level_meta))


chunk_scale_factor = chunk_scale_from_root


def validate_bin_shape_divides_chunk(chunk_shape: tuple[float, ...], bin_shape: tuple[float, ...]) -> None:
    """Fails unless a chunk has a whole number of bins on each axis."""
    RootMetadata(chunk_shape=chunk_shape, base_bin_shape=bin_shape).validate()
