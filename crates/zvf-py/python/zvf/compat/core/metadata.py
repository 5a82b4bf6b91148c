"""Root and level metadata as values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from .. import constants as c
from ..exceptions import ConventionError, MetadataError


class NgffAxis(TypedDict, total=False):
    """An axis as NGFF has it."""

    name: str
    type: str
    unit: str


def build_axes_metadata(dim_names: Sequence[str], dim_types: Sequence[str], dim_units: Sequence[str | None]) -> list[dict[str, str]]:
    """Axes as NGFF has them; a unit that is none is left out."""
    if not len(dim_names) == len(dim_types) == len(dim_units):
        raise MetadataError(f"axes: expected lists of one length, found {len(dim_names)} names, {len(dim_types)} types, {len(dim_units)} units")
    if "space" not in dim_types:
        raise MetadataError("axes: expected at least one of the type 'space'")
    axes = ({"name": n, "type": t, "unit": u} for n, t, u in zip(dim_names, dim_types, dim_units))
    return [{k: v for k, v in axis.items() if v or k != "unit"} for axis in axes]  # type: ignore[misc]


_RANKS = {"time": 0, "channel": 1, "space": 3}  # of any other type: 2


def validate_axes(axes: Sequence[Mapping[str, Any]]) -> None:
    """Fails unless axes have names of their own, are in the order of NGFF, and two of them are of space."""
    if len(axes) < 2 or sum(axis.get("type") == "space" for axis in axes) < 2:
        raise MetadataError(f"axes: expected at least 2 axes of space, found {list(axes)}")
    names, rank = set(), 0
    for number, axis in enumerate(axes):
        if "name" not in axis:
            raise MetadataError(f"axis {number} has no name")
        if axis["name"] in names:
            raise MetadataError(f"two axes have the name {axis['name']!r}")
        names.add(axis["name"])
        own = _RANKS.get(str(axis.get("type", "space")), 2)
        if own < rank:
            raise MetadataError(f"axis {number} {axis['name']!r}: NGFF has time first, then channel, others, space; found {axis.get('type')!r} after a later one")
        rank = own


def build_coordinate_transforms(scale: Sequence[float], translation: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """A scale, and a translation where there is one, as NGFF has them."""
    found: list[dict[str, Any]] = [{"type": "scale", "scale": list(scale)}]
    return found if translation is None else [*found, {"type": "translation", "translation": list(translation)}]


def validate_conventions(
    links_convention: str,
    object_index_convention: str,
    cross_chunk_strategy: str,
    num_spatial_chunks: int | None = None,
    has_links_array: bool | None = None,
    has_object_index: bool | None = None,
    geometry_type: str | None = None,
) -> None:
    """Fails for a convention that is none, or that a store of so many chunks cannot have."""
    for name, value, known in (
        ("links_convention", links_convention, c.VALID_LINKS_CONVENTIONS),
        ("object_index_convention", object_index_convention, c.VALID_OBJIDX_CONVENTIONS),
        ("cross_chunk_strategy", cross_chunk_strategy, c.VALID_CROSS_CHUNK_STRATEGIES),
    ):
        if value not in known:
            raise ConventionError(f"Invalid {name} {value!r}: expected one of {sorted(known)}")
    if object_index_convention == c.OBJIDX_IDENTITY and (num_spatial_chunks or 0) > 1:
        raise ConventionError(f"object_index_convention='identity' is for a single chunk, found {num_spatial_chunks} chunks")


def requires_links_array(convention: str) -> bool:
    """Whether links are stored under this convention."""
    return convention == c.LINKS_EXPLICIT


def requires_object_index(convention: str, num_chunks: int) -> bool:
    """Whether objects need an index."""
    return convention != c.OBJIDX_IDENTITY and (num_chunks > 1 or convention == c.OBJIDX_STANDARD)


@dataclass
class RootMetadata:
    """What the root says of a store."""

    spatial_index_dims: list[dict[str, Any]]
    chunk_shape: tuple[float, ...]
    bounds: Any
    geometry_types: list[str]
    zv_version: str = c.FORMAT_VERSION
    crs: dict[str, Any] | None = None
    links_convention: str = c.LINKS_IMPLICIT_SEQUENTIAL
    object_index_convention: str = c.OBJIDX_STANDARD
    cross_chunk_strategy: str = c.CROSS_CHUNK_EXPLICIT
    reduction_factor: int = c.DEFAULT_REDUCTION_FACTOR
    base_bin_shape: tuple[float, ...] | None = None
    cross_level_depth: int = c.DEFAULT_CROSS_LEVEL_DEPTH
    cross_level_storage: str = c.DEFAULT_CROSS_LEVEL_STORAGE
    format_capabilities: list[str] = field(default_factory=list)
    attribute_specs: dict[str, Any] | None = None

    @property
    def bins_per_chunk(self) -> tuple[int, ...]:
        """How many bins a chunk has on each axis."""
        return tuple(round(whole / part) for whole, part in zip(self.chunk_shape, self.effective_bin_shape))

    @property
    def effective_bin_shape(self) -> tuple[float, ...]:
        """The size of a bin: that of a chunk where there are no bins."""
        return self.chunk_shape if self.base_bin_shape is None else self.base_bin_shape

    @property
    def sid_ndim(self) -> int:
        """How many axes there are."""
        return len(self.spatial_index_dims) or len(self.chunk_shape)

    def validate(self) -> None:
        """Fails when what is said makes no sense, or contradicts itself."""
        _check_version(self.zv_version)
        if self.cross_level_storage not in c.VALID_XLEVEL_STORAGE:
            raise MetadataError(f"cross_level_storage: expected one of {sorted(c.VALID_XLEVEL_STORAGE)}, found {self.cross_level_storage!r}")
        if self.cross_level_depth < -1:
            raise MetadataError(f"cross_level_depth must be at least -1, found {self.cross_level_depth}")
        validate_axes(self.spatial_index_dims)
        ndim = len(self.spatial_index_dims)
        _check_sizes("chunk_shape", self.chunk_shape, ndim)
        if self.bounds is None or len(self.bounds) != 2 or any(len(corner) != ndim for corner in self.bounds):
            raise MetadataError(f"bounds: expected two corners of {ndim} axes, found {self.bounds}")
        unknown = [kind for kind in self.geometry_types if kind not in c.VALID_GEOMETRY_TYPES]
        if unknown:
            raise MetadataError(f"Unknown geometry_type {unknown[0]!r}: expected one of {sorted(c.VALID_GEOMETRY_TYPES)}")
        validate_conventions(self.links_convention, self.object_index_convention, self.cross_chunk_strategy)
        if self.reduction_factor < 2:
            raise MetadataError(f"reduction_factor must be at least 2, found {self.reduction_factor}")
        if self.base_bin_shape is not None:
            _check_sizes("base_bin_shape", self.base_bin_shape, ndim)
            validate_bin_shape_divides_chunk(self.chunk_shape, self.base_bin_shape)

    def is_complete(self) -> bool:
        """Whether everything is said, and makes sense."""
        if not self.spatial_index_dims or not self.chunk_shape or not self.bounds or not all(len(corner) for corner in self.bounds):
            return False
        try:
            self.validate()
        except (MetadataError, ConventionError):
            return False
        return True

    def to_dict(self) -> dict[str, Any]:
        """As the attributes of a root have it; the axes are in the block of NGFF."""
        block: dict[str, Any] = {
            "zv_version": self.zv_version,
            "chunk_shape": list(self.chunk_shape),
            "bounds": [list(corner) for corner in self.bounds],
            "geometry_types": self.geometry_types,
            "crs": self.crs,
            "links_convention": self.links_convention,
            "object_index_convention": self.object_index_convention,
            "cross_chunk_strategy": self.cross_chunk_strategy,
            "cross_level_depth": self.cross_level_depth,
            "cross_level_storage": self.cross_level_storage,
            "reduction_factor": self.reduction_factor,
        }
        if self.base_bin_shape is not None:
            block["base_bin_shape"] = list(self.base_bin_shape)
        if self.format_capabilities:
            block["format_capabilities"] = list(self.format_capabilities)
        specs = {scope: {n: dict(spec) for n, spec in named.items()} for scope, named in (self.attribute_specs or {}).items() if named}
        if self.attribute_specs:
            block["attribute_specs"] = specs
        return {"zarr_vectors": block}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], *, strict: bool = True) -> RootMetadata:
        """From the attributes of a root; without ``strict``, what is missing is empty."""
        if "zarr_vectors" not in d:
            raise MetadataError("Root metadata must contain a 'zarr_vectors' block")
        found = cls.from_attrs(d)
        needed = ("zv_version", "chunk_shape", "bounds", "geometry_types") if strict else ("zv_version",)
        for key in needed:
            if key not in d["zarr_vectors"]:
                raise MetadataError(f"Missing required root metadata key: {key!r}")
        if strict and not found.spatial_index_dims:
            raise MetadataError("Missing required root metadata: the axes in multiscales[0].axes")
        found.bounds = found.bounds or ([], [])
        return found

    @classmethod
    def from_attrs(cls, attrs: Mapping[str, Any]) -> RootMetadata:
        """From the attributes of a root, as far as they say it."""
        block = dict(attrs.get("zarr_vectors") or {})
        scales = attrs.get("multiscales") or [{}]
        bounds = block.get("bounds")
        plain = ("crs", "links_convention", "object_index_convention", "cross_chunk_strategy", "reduction_factor", "cross_level_depth", "cross_level_storage", "attribute_specs")
        return cls(
            spatial_index_dims=list(scales[0].get("axes") or []),
            chunk_shape=tuple(float(x) for x in block.get("chunk_shape") or ()),
            bounds=(list(bounds[0]), list(bounds[1])) if bounds else None,
            geometry_types=list(block.get("geometry_types") or []),
            base_bin_shape=tuple(block["base_bin_shape"]) if block.get("base_bin_shape") else None,
            zv_version=str(block.get("zv_version", "0.0.0")),
            format_capabilities=list(block.get("format_capabilities") or []),
            **{key: block[key] for key in plain if block.get(key) is not None},
        )


def _check_version(version: str) -> None:
    try:
        parts = tuple(int(part) for part in version.split("."))
    except (ValueError, AttributeError) as error:
        raise MetadataError(f"zv_version {version!r} is not a valid X.Y[.Z] string") from error
    if parts < (0, 9):
        raise MetadataError(f"store zv_version is {version}: 0.9 or later is expected, an older store must be rewritten from source")


def _check_sizes(name: str, sizes: Sequence[float], ndim: int) -> None:
    if len(sizes) != ndim:
        raise MetadataError(f"{name} length {len(sizes)} != spatial_index_dims length {ndim}")
    if any(size <= 0 for size in sizes):
        raise MetadataError(f"All {name} values must be > 0, found {tuple(sizes)}")


@dataclass
class LevelMetadata:
    """What a level says of itself."""

    level: int
    vertex_count: int
    arrays_present: list[str]
    bin_shape: tuple[float, ...] | None = None
    bin_ratio: tuple[float, ...] | None = None
    chunk_shape: tuple[float, ...] | None = None
    object_sparsity: float = 1.0
    coarsening_method: str = "none"
    parent_level: int | None = None
    chunk_dims: list[str] | None = None
    chunk_attribute_name: str | None = None
    chunk_attribute_values: list[Any] | None = None
    preserves_object_ids: bool = False
    inherited_num_objects: int | None = None
    shared_fragments: bool = False
    fragments_tile: bool = False

    def validate(self) -> None:
        """Fails when what is said makes no sense."""
        if self.level < 0 or self.vertex_count < 0:
            raise MetadataError(f"level and vertex_count must be at least 0, found {self.level} and {self.vertex_count}")
        if not 0.0 < self.object_sparsity <= 1.0:
            raise MetadataError(f"object_sparsity: expected a share above 0 and at most 1, found {self.object_sparsity}")
        if self.level == 0:
            if self.bin_shape is not None or self.parent_level is not None:
                raise MetadataError("level 0 has the bins of the root and no parent: bin_shape and parent_level must be None")
        elif self.bin_shape is None or self.parent_level is None:
            raise MetadataError(f"level {self.level} must have a bin_shape and a parent_level")
        elif self.bin_ratio is not None and any(ratio < 1 for ratio in self.bin_ratio):
            raise MetadataError(f"bin_ratio values must be at least 1, found {self.bin_ratio}")
        if self.chunk_shape is not None:
            _check_sizes("chunk_shape", self.chunk_shape, len(self.chunk_shape))
        if (self.chunk_attribute_name is None) != (self.chunk_attribute_values is None):
            raise MetadataError("chunk_attribute_name and chunk_attribute_values must be either both set or both None")
        if self.chunk_attribute_values is not None and not self.chunk_attribute_values:
            raise MetadataError("chunk_attribute_values must not be empty")
        if self.preserves_object_ids:
            if self.level == 0:
                raise MetadataError("level 0 has the ids that others preserve: preserves_object_ids must be False")
            if self.inherited_num_objects is None or self.inherited_num_objects < 0:
                raise MetadataError(f"preserves_object_ids needs inherited_num_objects of at least 0, found {self.inherited_num_objects}")

    def to_dict(self) -> dict[str, Any]:
        """As the attributes of a level have it."""
        block: dict[str, Any] = {
            "level": self.level,
            "bin_shape": list(self.bin_shape) if self.bin_shape else None,
            "bin_ratio": list(self.bin_ratio) if self.bin_ratio else None,
            "object_sparsity": self.object_sparsity,
            "vertex_count": self.vertex_count,
            "coarsening_method": self.coarsening_method,
            "parent_level": self.parent_level,
            "arrays_present": self.arrays_present,
        }
        for name in ("chunk_shape", "chunk_dims", "chunk_attribute_name", "chunk_attribute_values", "inherited_num_objects"):
            value = getattr(self, name)
            if value is not None:
                block[name] = [v.item() if isinstance(v, np.generic) else v for v in value] if isinstance(value, (list, tuple)) else value
        block.update({name: True for name in ("preserves_object_ids", "shared_fragments", "fragments_tile") if getattr(self, name)})
        return {"zarr_vectors_level": block}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> LevelMetadata:
        """From the attributes of a level."""
        if "zarr_vectors_level" not in d:
            raise MetadataError("Level metadata must contain a 'zarr_vectors_level' block")
        for key in ("level", "vertex_count", "arrays_present"):
            if key not in d["zarr_vectors_level"]:
                raise MetadataError(f"Missing required level metadata key: {key!r}")
        return cls.from_attrs(d)

    @classmethod
    def from_attrs(cls, attrs: Mapping[str, Any]) -> LevelMetadata:
        """From the attributes of a level, as far as they say it."""
        block = dict(attrs.get("zarr_vectors_level") or {})
        block.setdefault("bin_shape", block.get("bin_size"))

        def sizes(key: str) -> tuple[float, ...] | None:
            return tuple(float(x) for x in block[key]) if block.get(key) else None

        plain = ("object_sparsity", "coarsening_method", "parent_level", "chunk_dims", "chunk_attribute_name", "chunk_attribute_values")
        plain += ("preserves_object_ids", "inherited_num_objects", "shared_fragments", "fragments_tile")
        return cls(
            level=int(block.get("level", 0)),
            vertex_count=int(block.get("vertex_count", 0)),
            arrays_present=list(block.get("arrays_present") or []),
            bin_shape=sizes("bin_shape"),
            bin_ratio=sizes("bin_ratio"),
            chunk_shape=sizes("chunk_shape"),
            **{key: block[key] for key in plain if block.get(key) is not None},
        )

    @classmethod
    def from_parent(
        cls,
        root_meta: RootMetadata,
        parent_meta: LevelMetadata | None,
        *,
        level: int,
        vertex_count: int,
        arrays_present: list[str],
        bin_scale_from_parent: float | Sequence[float] = 1.0,
        chunk_scale_from_parent: int | Sequence[int] = 1,
        object_sparsity: float = 1.0,
        coarsening_method: str | None = None,
        preserves_object_ids: bool = False,
        inherited_num_objects: int | None = None,
        shared_fragments: bool = False,
        parent_level: int | None = None,
    ) -> LevelMetadata:
        """What a level says whose bins and chunks are so many times those of the level below; ``None`` is level 0."""
        below = get_level_bin_shape(root_meta, parent_meta)
        bins = [b * f for b, f in zip(below, _factors("bin_scale_from_parent", bin_scale_from_parent, len(below)))]
        scale = _factors("chunk_scale_from_parent", chunk_scale_from_parent, len(below))
        if any(abs(f - round(f)) > 1e-9 for f in scale):
            raise MetadataError(f"chunk_scale_from_parent: expected whole numbers, found {scale}: chunks nest")
        chunk = tuple(b * f for b, f in zip(get_level_chunk_shape(root_meta, parent_meta), scale))
        own = any(abs(a - b) >= 1e-9 for a, b in zip(chunk, root_meta.chunk_shape))
        found = cls(
            level=level,
            vertex_count=int(vertex_count),
            arrays_present=list(arrays_present),
            bin_shape=tuple(bins),
            bin_ratio=tuple(a / b if b else 1.0 for a, b in zip(bins, root_meta.effective_bin_shape)),
            chunk_shape=chunk if own else None,
            object_sparsity=object_sparsity,
            coarsening_method=coarsening_method,  # type: ignore[arg-type]
            parent_level=parent_level if parent_level is not None else parent_meta.level if parent_meta is not None else 0,
            preserves_object_ids=preserves_object_ids,
            inherited_num_objects=inherited_num_objects,
            shared_fragments=shared_fragments,
        )
        found.validate()
        validate_level_chunk_shape_against_root(root_meta, found)
        return found


def _factors(name: str, value: Any, ndim: int) -> tuple[float, ...]:
    found = tuple(float(x) for x in value) if isinstance(value, (tuple, list)) else (float(value),) * ndim
    if len(found) != ndim:
        raise MetadataError(f"{name}: expected {ndim} axes, found {len(found)}")
    if any(factor <= 0 for factor in found):
        raise MetadataError(f"{name}: expected factors above 0, found {found}")
    return found


def compute_bin_shape(base_bin_shape: tuple[float, ...], bin_ratio: tuple[int, ...]) -> tuple[float, ...]:
    """The size of a bin, by that of the finest level and their ratio."""
    if len(base_bin_shape) != len(bin_ratio):
        raise MetadataError(f"bin_ratio: expected the rank {len(base_bin_shape)}, found {len(bin_ratio)}")
    return tuple(b * r for b, r in zip(base_bin_shape, bin_ratio))


def compute_bin_ratio(base_bin_shape: tuple[float, ...], level_bin_shape: tuple[float, ...]) -> tuple[int, ...]:
    """How many bins of the finest level one of another has on each axis."""
    if len(base_bin_shape) != len(level_bin_shape):
        raise MetadataError(f"level_bin_shape: expected the rank {len(base_bin_shape)}, found {len(level_bin_shape)}")
    ratios = [own / base for base, own in zip(base_bin_shape, level_bin_shape)]
    if any(abs(ratio - round(ratio)) > 1e-9 for ratio in ratios):
        raise MetadataError(f"bins of {level_bin_shape} are no whole multiples of those of {base_bin_shape}: a ratio is not an integer")
    return tuple(round(ratio) for ratio in ratios)


def validate_bin_shape_divides_chunk(chunk_shape: tuple[float, ...], bin_shape: tuple[float, ...]) -> None:
    """Fails unless a chunk has a whole number of bins on each axis."""
    for axis, (chunk, size) in enumerate(zip(chunk_shape, bin_shape)):
        if size <= 0 or abs(chunk / size - round(chunk / size)) > 1e-9:
            raise MetadataError(f"chunk_shape[{axis}]={chunk} is not an integer multiple of base_bin_shape[{axis}]={size}: bins must divide chunks")


def get_level_chunk_shape(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[float, ...]:
    """The size of a chunk of a level."""
    own = level_meta.chunk_shape if level_meta is not None else None
    return tuple(float(size) for size in own or root_meta.chunk_shape)


def get_level_bin_shape(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[float, ...]:
    """The size of a bin of a level."""
    if level_meta is not None and level_meta.bin_shape:
        return tuple(float(b) for b in level_meta.bin_shape)
    base = tuple(float(b) for b in root_meta.effective_bin_shape)
    ratio = level_meta.bin_ratio if level_meta is not None and level_meta.bin_ratio else None
    return base if ratio is None else tuple(float(b) for b in compute_bin_shape(base, ratio))  # type: ignore[arg-type]


def _whole_ratios(sizes: Sequence[float], below: Sequence[float], whose: str) -> tuple[int, ...]:
    if len(sizes) != len(below):
        raise MetadataError(f"chunk_shape: expected the rank {len(below)} of that of {whose}, found {len(sizes)}")
    if any(b <= 0 for b in below):
        raise MetadataError(f"chunk_shape of {whose} must be > 0, found {tuple(below)}")
    ratios = [float(a) / float(b) for a, b in zip(sizes, below)]
    if any(round(r) < 1 or abs(r - round(r)) > 1e-9 for r in ratios):
        raise MetadataError(f"chunk_shape {tuple(sizes)} is not a positive integer multiple of that of {whose}, {tuple(below)}: chunks nest")
    return tuple(round(r) for r in ratios)


def chunk_scale_from_root(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[int, ...]:
    """How many chunks of the root one of a level has on each axis."""
    return _whole_ratios(get_level_chunk_shape(root_meta, level_meta), root_meta.chunk_shape, "the root")


def chunk_scale_factor(root_meta: RootMetadata, level_meta: LevelMetadata | None) -> tuple[int, ...]:
    """The old name of :func:`chunk_scale_from_root`."""
    warnings.warn("chunk_scale_factor() is deprecated; use chunk_scale_from_root()", DeprecationWarning, stacklevel=2)
    return chunk_scale_from_root(root_meta, level_meta)


def level_factor(root_meta: RootMetadata, level_meta: LevelMetadata, parent_meta: LevelMetadata | None) -> tuple[float, ...]:
    """How many times larger bins of a level are than those of the level below; on all axes the same, or it fails."""
    own, below = get_level_bin_shape(root_meta, level_meta), get_level_bin_shape(root_meta, parent_meta)
    factors = tuple(float(a) / float(b) if b else 1.0 for a, b in zip(own, below))
    if any(abs(factor - factors[0]) > 1e-9 for factor in factors):
        raise MetadataError(f"factors of bins are not uniform: {factors}; one number cannot say them")
    return factors


def level_chunk_scale(root_meta: RootMetadata, level_meta: LevelMetadata, parent_meta: LevelMetadata | None) -> tuple[int, ...]:
    """How many chunks of the level below one of a level has on each axis."""
    below = get_level_chunk_shape(root_meta, parent_meta)
    return _whole_ratios(get_level_chunk_shape(root_meta, level_meta), below, "the level below")


def validate_level_chunk_shape_against_root(root_meta: RootMetadata, level_meta: LevelMetadata) -> None:
    """Fails unless chunks of a level that has its own nest in those of the root, and its bins in them where they are smaller."""
    if level_meta.chunk_shape is None:
        return
    chunk_scale_from_root(root_meta, level_meta)
    bins = level_meta.bin_shape if level_meta.bin_shape is not None or level_meta.level else root_meta.effective_bin_shape
    for axis, (chunk, size) in enumerate(zip(level_meta.chunk_shape, bins or ())):
        if size <= 0 or (size <= chunk and abs(chunk / size - round(chunk / size)) > 1e-9):
            raise MetadataError(f"bin_shape[{axis}]={size} of level {level_meta.level} does not divide chunk_shape[{axis}]={chunk}")
