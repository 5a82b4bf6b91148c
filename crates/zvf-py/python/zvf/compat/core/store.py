"""Opening and creating stores, and what is said of them and of their levels."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..constants import DEFAULT_AXES_NAMES, DEFAULT_BOUNDS_SIDE, FORMAT_VERSION, VALID_GEOMETRY_TYPES
from ..exceptions import ExistingStoreError, LevelError, MetadataError, MissingStoreError
from .backends import detect_scheme
from .group import Group, Shared, shared_for, write_json
from .metadata import LevelMetadata, RootMetadata, compute_bin_ratio, get_level_bin_shape

FsGroup = Group
_detect_scheme = detect_scheme


def open_store(
    path: Any,
    mode: str = "r",
    *,
    backend: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    require_zv: bool = True,
    **backend_kwargs: Any,
) -> Group:
    """Open a store: a path, a URL, a handle, a store of zarr."""
    if mode not in ("r", "r+", "a"):
        raise MetadataError(f"mode: expected r or r+, found {mode!r}")
    if isinstance(path, Group):
        return path
    options = {**dict(storage_options or {}), **backend_kwargs}
    shared = shared_for(path, "r" if mode == "r" else "r+", options)
    group = Group(shared)
    if group.is_local:
        if not Path(shared.address).exists():
            raise MissingStoreError(f"Store not found at {path}")
        if Path(shared.address).is_file():  # a packed store
            shared.dataset()
            return group
        if require_zv and "zarr_vectors" not in group.attrs:
            raise MetadataError(f"No root metadata found at {path}: zarr.json has no zarr_vectors block")
    else:
        shared.dataset()
    return group


def create_store(
    path: Any,
    *,
    bounds: Any = None,
    chunk_shape: Sequence[float] | None = None,
    base_bin_shape: Sequence[float] | None = None,
    ndim: int | None = None,
    vertex_dtype: str = "float32",
    axes: Sequence[Any] | None = None,
    geometry_types: Sequence[str] | None = None,
    attribute_specs: Mapping[str, Any] | None = None,
    compressor: Any = None,
    overwrite: bool = False,
    backend: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    crs: Mapping[str, Any] | None = None,
    vertex_encoding: str = "raw",
    links_convention: str | None = None,
    object_index_convention: str | None = None,
    cross_chunk_strategy: str | None = None,
    cross_level_depth: int | None = None,
    cross_level_storage: str | None = None,
    reduction_factor: int | None = None,
    format_capabilities: Sequence[str] | None = None,
    name: str | None = None,
    manifest_layout: str | None = None,
    shard_shape: Any = None,
    **backend_kwargs: Any,
) -> Group:
    """Create a store without geometry."""
    if vertex_encoding != "raw":
        raise MetadataError(f"vertex_encoding: expected raw, found {vertex_encoding!r}: Draco is read, not written")
    if ndim is None:
        ndim = len(bounds[0]) if bounds is not None else len(chunk_shape) if chunk_shape is not None else 3
    if not isinstance(ndim, (int, np.integer)) or not 1 <= ndim <= 8:
        raise MetadataError(f"ndim: expected 1 to 8, found {ndim!r}")
    low, high = ([0.0] * ndim, [DEFAULT_BOUNDS_SIDE] * ndim) if bounds is None else bounds
    low, high = [float(x) for x in low], [float(x) for x in high]
    if not all(np.isfinite(low)) or not all(np.isfinite(high)) or any(a > b for a, b in zip(low, high)):
        raise MetadataError(f"bounds: expected finite corners, the first the lower one, found {low} and {high}")
    chunk = [float(x) for x in chunk_shape] if chunk_shape is not None else [(b - a) or 1.0 for a, b in zip(low, high)]
    if any(not np.isfinite(x) or x <= 0 for x in chunk):
        raise MetadataError(f"chunk_shape: expected sizes above 0, found {chunk}")
    for kind in geometry_types or []:
        if kind not in VALID_GEOMETRY_TYPES:
            raise MetadataError(f"geometry type: expected one of {sorted(VALID_GEOMETRY_TYPES)}, found {kind!r}")
    shared = shared_for(path, "r+", {**dict(storage_options or {}), **backend_kwargs})
    group = Group(shared)
    if not group.is_local:
        raise MetadataError("an empty store cannot be created on an object store: write geometry there at once")
    folder = Path(shared.address)
    if (folder / "zarr.json").exists():
        if not overwrite:
            raise ExistingStoreError(f"there is a store already at {folder}")
        shutil.rmtree(folder)
    names = [_axis(a) for a in axes] if axes else [{"name": n, "type": "space"} for n in DEFAULT_AXES_NAMES[:ndim]]
    block: dict[str, Any] = {
        "zv_version": FORMAT_VERSION,
        "format_capabilities": list(format_capabilities or []),
        "chunk_shape": chunk,
        "bounds": [low, high],
        "geometry_types": list(geometry_types or []),
    }
    if base_bin_shape is not None:
        block["base_bin_shape"] = [float(x) for x in base_bin_shape]
    if attribute_specs:
        block["attribute_specs"] = dict(attribute_specs)
    declared = {
        "crs": crs,
        "links_convention": links_convention,
        "object_index_convention": object_index_convention,
        "cross_chunk_strategy": cross_chunk_strategy,
        "cross_level_depth": cross_level_depth,
        "cross_level_storage": cross_level_storage,
        "reduction_factor": reduction_factor,
    }
    block.update({key: value for key, value in declared.items() if value is not None})
    if manifest_layout not in (None, "vlen", "dense"):
        raise MetadataError(f"manifest_layout: expected vlen or dense, found {manifest_layout!r}")
    if shard_shape is not None:
        cells = [shard_shape] if isinstance(shard_shape, (int, np.integer)) else list(shard_shape)
        if not all(isinstance(n, (int, np.integer)) and n > 0 for n in cells) or (len(cells) != ndim and cells != [shard_shape]):
            raise MetadataError(f"shard_shape: expected a whole number above 0, or one for each of {ndim} axes, found {shard_shape!r}")
        block.update(zv_version="0.9.3", shard_shape=int(shard_shape) if cells == [shard_shape] else [int(n) for n in cells])
    if manifest_layout == "dense":
        tokens = sorted({*block["format_capabilities"], "dense_manifests"})
        block.update(zv_version="0.9.4", manifest_layout="dense", format_capabilities=tokens)
    half = [x / 2 for x in block.get("base_bin_shape", chunk)]
    transforms = [{"type": "scale", "scale": [1.0] * ndim}, {"type": "translation", "translation": half}]
    datasets = [{"path": "0", "coordinateTransformations": transforms}]
    scales = [
        {"version": "0.4", "name": "default", "axes": names, "datasets": datasets, "metadata": {"format": "zarr_vectors"}}
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "0").mkdir(exist_ok=True)
    level = {"level": 0, "object_sparsity": 1.0, "vertex_count": 0, "coarsening_method": "none", "parent_level": None, "arrays_present": []}
    write_json(folder / "0" / "zarr.json", {"attributes": {"zarr_vectors_level": level}, "zarr_format": 3, "node_type": "group"})
    write_json(folder / "zarr.json", {"attributes": {"zarr_vectors": block, "multiscales": scales, **_collection(name, names)}, "zarr_format": 3, "node_type": "group"})
    group._shared.codec = compressor  # type: ignore[attr-defined]
    group._shared.dtype = vertex_dtype  # type: ignore[attr-defined]
    shared.changed()
    return group


def _collection(name: str | None, axes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What OME says of a store that has a name."""
    if name is None:
        return {}
    scene = {"coordinateSystems": [{"name": "world", "axes": list(axes)}], "coordinateTransformations": []}
    nodes = [{"type": "zv:level", "name": "0"}]
    return {"ome": {"version": "0.6", "type": "collection", "name": name, "attributes": {"scene": scene}, "nodes": nodes}}


def _axis(axis: Any) -> dict[str, Any]:
    if isinstance(axis, Mapping):
        return dict(axis)
    found = {"name": axis.name, "type": getattr(axis, "type", "space")}
    if getattr(axis, "unit", None):
        found["unit"] = axis.unit
    return found


def create_resolution_level(root: Group, level: int, level_metadata: LevelMetadata, *, strict: bool = True) -> Group:
    """Create a level without arrays, or state again what one is; its bins become its transform in the root."""
    from .metadata import validate_level_chunk_shape_against_root
    from .stored import change_document, make_groups, writable

    base, number = Group(root._shared), int(level)
    writable(base)
    level_metadata.validate()
    meta = read_root_metadata(base)
    if strict:
        validate_level_chunk_shape_against_root(meta, level_metadata)
    block = level_metadata.to_dict()["zarr_vectors_level"]
    block = {key: value for key, value in block.items() if key not in ("bin_shape", "bin_ratio")}
    make_groups(base, str(number), {"zarr_vectors_level": block})
    finest = meta.effective_bin_shape
    bins = level_metadata.bin_shape or finest
    transforms = [
        {"type": "scale", "scale": [float(own) / float(one) for own, one in zip(bins, finest)]},
        {"type": "translation", "translation": [float(own) / 2.0 for own in bins]},
    ]

    def change(document: dict[str, Any]) -> None:
        scales = document["attributes"].get("multiscales") or [{}]
        kept = [one for one in scales[0].get("datasets") or [] if one.get("path") != str(number)]
        kept.append({"path": str(number), "coordinateTransformations": transforms})
        scales[0]["datasets"] = sorted(kept, key=lambda one: int(one["path"]))
        nodes = (document["attributes"].get("ome") or {}).get("nodes")
        if nodes is not None and all(node.get("name") != str(number) for node in nodes):
            nodes.append({"type": "zv:level", "name": str(number)})

    change_document(base, "", change)
    return Group(base._shared, str(number))


def rebind(
    group: Group, backend: Any = None, *, storage_options: Mapping[str, Any] | None = None, mode: str | None = None, **backend_kwargs: Any
) -> Group:
    """The same store under another mode, or reached in another way: with other options, or as a store of zarr."""
    if backend is not None and not isinstance(backend, str):
        return Group(shared_for(backend, mode or group.mode, storage_options), group._below)
    shared = group._shared
    storage = [*shared.storage, *((str(k), str(v)) for k, v in {**dict(storage_options or {}), **backend_kwargs}.items())]
    return Group(Shared(shared.address, mode or shared.mode, storage, shared.memory), group._below)


def read_root_metadata(root: Group) -> RootMetadata:
    """What the root says."""
    return RootMetadata.from_attrs(Group(root._shared).attrs.to_dict())


def list_resolution_levels(root: Group) -> list[int]:
    """The numbers of the levels."""
    if root.is_local and Path(root._shared.address).is_dir():
        base = Group(root._shared)
        found = [int(n) for n in base.children() if n.isdigit()]
        return sorted(found)
    return [e["level"] for e in root._shared.dataset().info()["levels"]]


def get_resolution_level(root: Group, level: int = 0) -> Group:
    """The node of a level."""
    base = Group(root._shared)
    if base.is_local and Path(root._shared.address).is_dir() and str(int(level)) not in base:
        raise LevelError(f"there is no level {level}: there is {list_resolution_levels(base)}")
    return Group(root._shared, str(int(level)))


def read_level_metadata(root: Group, level: int = 0) -> LevelMetadata:
    """What a level says."""
    if root.is_local and Path(root._shared.address).is_dir():
        found = LevelMetadata.from_attrs(get_resolution_level(root, level).attrs.to_dict())
        return _with_bins(root, int(level), found)
    for entry in root._shared.dataset().info()["levels"]:
        if entry["level"] == level:
            bins = entry.get("bin_shape")
            return LevelMetadata(
                level=level,
                vertex_count=int(entry["vertices"]),
                arrays_present=[],
                bin_shape=tuple(bins) if bins else None,
                chunk_shape=tuple(entry["chunk_shape"]),
                parent_level=entry.get("parent"),
            )
    raise LevelError(f"there is no level {level}")


def _with_bins(group: Group, level: int, found: LevelMetadata) -> LevelMetadata:
    """The bins of a level as the root has them: their ratio is the scale; level 0 has those of the root."""
    from .multiscale import get_level_scale

    root = Group(group._shared)
    base, scale = RootMetadata.from_attrs(root.attrs.to_dict()).effective_bin_shape, get_level_scale(root, level)
    if scale is None or len(scale) != len(base):
        return found
    found.bin_ratio = tuple(scale) if level else None
    if not level:
        found.bin_shape = None
    elif not found.bin_shape:
        found.bin_shape = tuple(float(b) * s for b, s in zip(base, scale))
    return found


def remove_resolution_level(root: Group, level_index: int) -> None:
    """Remove a level; the finest one stays."""
    if int(level_index) == 0:
        raise MetadataError("level 0 cannot be removed")
    base = Group(root._shared)
    base.delete_subtree(str(int(level_index)))
    attributes = base.attrs.to_dict()
    scales = attributes.get("multiscales") or []
    for scale in scales:
        scale["datasets"] = [d for d in scale.get("datasets", []) if d.get("path") != str(int(level_index))]
    base.attrs.update({"multiscales": scales})


def set_bounds(root: Group, new_bounds: Any, *, force: bool = False) -> None:
    """Declare other bounds; ones that leave data outside need ``force``."""
    base = Group(root._shared)
    block = dict(base.attrs["zarr_vectors"])
    low, high = ([float(x) for x in corner] for corner in new_bounds)
    before = block.get("bounds")
    if before and not force and (any(a > b for a, b in zip(low, before[0])) or any(a < b for a, b in zip(high, before[1]))):
        raise MetadataError("the bounds would shrink; pass force=True")
    base.attrs.update({"zarr_vectors": {**block, "bounds": [low, high]}})


def commit(group: Group, message: str = "zarr-vectors write") -> str | None:
    """Plain stores have no transactions to commit."""
    return None


def list_available_ratios(root: Group) -> list[tuple[int, ...]]:
    """For each level, how many bins of the finest level one of its bins has on each axis."""
    meta = read_root_metadata(root)
    levels = [read_level_metadata(root, level) for level in list_resolution_levels(root)]
    return [tuple(own.bin_ratio or compute_bin_ratio(meta.effective_bin_shape, get_level_bin_shape(meta, own))) for own in levels]


def update_level_metadata(
    level_group: Group,
    *,
    arrays_present: Sequence[str] | None = None,
    add_arrays_present: str | Sequence[str] | None = None,
    **fields: Any,
) -> LevelMetadata:
    """Change what a level says of itself; keys that are not named stay."""
    block = dict(level_group.attrs.get("zarr_vectors_level") or {})
    if arrays_present is not None:
        block["arrays_present"] = list(arrays_present)
    if add_arrays_present is not None:
        added = [add_arrays_present] if isinstance(add_arrays_present, str) else list(add_arrays_present)
        block["arrays_present"] = list(dict.fromkeys([*(block.get("arrays_present") or []), *added]))
    block.update(fields)
    level_group.attrs.update({"zarr_vectors_level": block})
    return LevelMetadata.from_attrs(level_group.attrs.to_dict())


def update_root_metadata(root: Group, *, add_capabilities: Sequence[str] = (), **fields: Any) -> RootMetadata:
    """Change what the root says of the store; keys that are not named stay."""
    block = dict(root.attrs.get("zarr_vectors") or {})
    block.update(fields)
    if add_capabilities:
        block["format_capabilities"] = sorted({*(block.get("format_capabilities") or []), *add_capabilities})
    root.attrs.update({"zarr_vectors": block})
    return read_root_metadata(root)


def session_for(group: Group) -> Any:
    """Plain stores have no sessions."""
    return None
