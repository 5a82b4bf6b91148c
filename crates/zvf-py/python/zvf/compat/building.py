"""What packages are built on: opening and creating stores, metadata, writers, names of arrays."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .constants import (
    CAP_FRAGMENT_INDEX,
    CAP_MULTISCALE_LINKS,
    CAP_PRESERVED_OBJECT_IDS,
    CAP_SHARED_FRAGMENTS,
    COARSEN_PER_OBJECT,
    DEFAULT_CROSS_LEVEL_DEPTH,
    DEFAULT_CROSS_LEVEL_STORAGE,
    FORMAT_VERSION,
    FRAGMENT_ATTRIBUTES,
    GROUP_ATTRIBUTES,
    GROUPS,
    LINK_ATTRIBUTES,
    LINK_FRAGMENTS,
    LINKS,
    LINKS_IMPLICIT_BRANCHES,
    LINKS_IMPLICIT_SEQUENTIAL,
    OBJECT_ATTRIBUTES,
    OBJECT_INDEX,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
    XLEVEL_EXPLICIT,
    XLEVEL_NONE,
)
from .core.group import Group
from .core.metadata import (
    LevelMetadata,
    RootMetadata,
    chunk_scale_factor,
    chunk_scale_from_root,
    compute_bin_ratio,
    compute_bin_shape,
    get_level_bin_shape,
    get_level_chunk_shape,
    validate_bin_shape_divides_chunk,
)
from .core.multiscale import (
    get_level_scale,
    get_level_translation,
    read_multiscale_metadata,
    write_multiscale_metadata,
)
from .core.store import (
    commit,
    create_resolution_level,
    create_store,
    session_for,
    update_level_metadata,
    update_root_metadata,
    get_resolution_level,
    list_available_ratios,
    list_resolution_levels,
    open_store,
    read_level_metadata,
    read_root_metadata,
    remove_resolution_level,
    set_bounds,
)
from .core.writing import cell_arrays as per_chunk_array_paths
from .core.writing import end_presence_deferral
from .exceptions import ArrayError, MissingArrayError, ShardOwnershipError, StoreError
from .multiresolution.registry import register_coarsen_strategy, register_selection_strategy
from .rechunk import RechunkSpec, rechunk, rechunk_by_attribute
from .sharding import get_shard_info, reshard, shard_store, unshard_store
from .types.graphs import write_graph
from .types.lines import write_lines
from .types.meshes import write_mesh
from .types.points import write_points
from .types.polylines import write_polylines


def _level(level: Group) -> Any:
    from .api.dataset import Dataset

    return Dataset(Group(level._shared)).level(level.level)


def list_chunk_keys(level_group: Group, array_name: str = VERTICES) -> list[tuple[int, ...]]:
    """The chunks of a level, in numeric order."""
    return [ref.coords for ref in sorted(_level(level_group).cells())]


def object_count(level_group: Group) -> int:
    """How many objects a level has."""
    return len(_level(level_group).objects)


def read_object_manifests(level_group: Group, ids: Any = None) -> dict[int, Any]:
    """The fragments of objects."""
    return _level(level_group).objects.manifests(ids)


def read_all_object_manifests(level_group: Group) -> list[Any]:
    """The fragments of every object, by its row."""
    return list(_level(level_group).objects.manifests().values())


def read_object_attributes(level_group: Group, attr_name: str, dtype: Any = None) -> np.ndarray:
    """An attribute of objects, one row for each; the fill value where an object has none."""
    level = _level(level_group)
    known = level.attribute_names("object")
    if attr_name not in known:
        raise MissingArrayError(f"Array 'object_attributes/{attr_name}' not found in level {level.index}: there is {', '.join(known) or 'none'}")
    path = f"{OBJECT_ATTRIBUTES}/{attr_name}"
    stored = level_group[path]._document() if path in level_group else {}
    values = [view["attributes"].get(attr_name) for view in level.objects._views()]
    if any(value is None for value in values):
        fill = stored.get("fill_value")
        fill = float("nan") if fill in (None, "NaN") else fill
        like = next((value for value in values if value is not None), fill)
        absent = [fill] * len(like) if isinstance(like, list) else fill
        values = [absent if value is None else value for value in values]
    kind = stored.get("data_type")
    return np.array(values, dtype=dtype or (kind if str(kind) in np.sctypeDict else None))


def _groups(level_group: Group) -> Any:
    """The groups of a level; one without any is refused."""
    found = _level(level_group).groups
    if not len(found) and GROUPS not in level_group:
        raise MissingArrayError(f"Array 'groups' not found in level {level_group.level}")
    return found


def read_all_groupings(level_group: Group) -> list[Any]:
    """The members of each group: a list, or a range where the group is stored as one."""
    groups = _groups(level_group)
    return [groups._members(view) for view in groups._views()]


def read_group_object_ids(level_group: Group, group_id: int) -> Any:
    """The members of a group: a list, or a range where the group is stored as one."""
    groups = _groups(level_group)
    views = groups._views()
    if not 0 <= int(group_id) < len(views):
        raise ArrayError(f"Group ID {group_id} out of range [0, {len(views)})")
    return groups._members(views[int(group_id)])


def array_is_sharded(level_group: Group, array_name: str) -> bool:
    """Whether the cells of one array are in shards."""
    if not isinstance(level_group, Group):
        raise StoreError(
            f"array_is_sharded() takes a level Group and an array name, got {type(level_group).__name__}; for a whole "
            f"store see get_shard_info()"
        )
    if array_name not in level_group:
        return False
    return level_group[array_name]._is_sharded


def is_sharded(level_group: Any, array_name: str | None = None) -> bool:
    """Whether the cells of an array of a level are in shards; without a name, whether any of a store are."""
    if array_name is None:
        return bool(get_shard_info(level_group)["sharded"])
    return array_is_sharded(level_group, array_name)


def rebuild_presence(level_group: Group, array_name: str | None = None, *, on_sharded: str = "derive") -> list[str]:
    """Write the list of chunks that have a cell again: of one array, whose keys come back, or of all, whose paths do.

    For all arrays it then ends what :func:`defer_presence` declared, unless arrays in shards were left out.
    """
    if array_name is not None:
        return level_group.derive_nonempty_chunks(array_name, on_sharded=on_sharded)
    names = per_chunk_array_paths(level_group)
    rebuilt = [name for name in names if on_sharded != "skip" or not array_is_sharded(level_group, name)]
    for name in rebuilt:
        level_group.derive_nonempty_chunks(name, on_sharded=on_sharded)
    if rebuilt == names and level_group.presence_deferred():
        end_presence_deferral(level_group)
    return rebuilt


def refresh_arrays_present(level_group: Group) -> list[str]:
    """Write the families of arrays that a level has again; returns them."""
    families = {path.split("/")[0] for path in per_chunk_array_paths(level_group)}
    families |= {name for name in (OBJECT_INDEX, OBJECT_ATTRIBUTES, GROUPS, GROUP_ATTRIBUTES) if name in level_group}
    update_level_metadata(level_group, arrays_present=sorted(families))
    return sorted(families)


def expand_manifest_blocks(blocks: Any) -> list[tuple[tuple[int, ...], int]]:
    """Pairs of a chunk and one or more fragments, as pairs of a chunk and one fragment."""
    found = []
    for chunk, fragments in blocks:
        numbers = [fragments] if isinstance(fragments, (int, np.integer)) else fragments
        found += [(tuple(int(c) for c in chunk), int(n)) for n in numbers]
    return found


def level_grid_layout(bounds: Any, chunk_shape: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first chunk of a grid, and how many there are on each axis."""
    from .api.grid import Grid

    grid = Grid.plan(bounds, cell_size=chunk_shape)
    return grid.anchor, grid.shape


#: The methods of :class:`Group` that stay as they are.
GROUP_SUPPORTED_METHODS: frozenset[str] = frozenset(
    {
        "array_exists",
        "attrs",
        "batched_writes",
        "children",
        "chunk_exists",
        "delete_subtree",
        "derive_nonempty_chunks",
        "list_chunks",
        "path",
        "presence_deferred",
        "read_array",
        "read_array_attrs",
        "read_array_meta",
        "read_bytes",
        "read_vlen_element",
        "read_vlen_elements",
        "require_group",
        "standalone_array_exists",
        "url",
        "write_array_meta",
        "write_bytes",
        "write_cells",
    }
)


def level_info(level: Group) -> dict[str, Any]:
    """What the level holds, as the native interface says."""
    return level._shared.dataset()._native.summary().wait()["levels"][level.level]


#: What writes and reads single cells and rows of objects, by module; it is imported when it is used.
_OF_CELLS = {
    "cell_reads": "CellBatch CellColumn CellReadError FragmentColumn read_cells read_neighbourhood",
    "fragments": "decode_fragment_index decode_object_manifests_csr encode_object_manifests_csr",
    "layout": "StoreLayout store_layout",
    "linking": "create_link_attributes_array create_links_array create_links_family finalize_links intra_offsets link_attributes_group_path "
    "link_family_policy links_group_path links_has_perm links_path parse_offsets write_link_attribute_cells write_link_cells",
    "object_layer": "ManifestCSR OBJECT_INDEX_LAYOUT_DENSE OBJECT_INDEX_LAYOUT_V1 OBJECT_INDEX_LAYOUT_V2 OBJECT_INDEX_MANIFEST_BUCKET "
    "OBJECT_SHARD_ROW_MULTIPLE ObjectManifestWriter aligned_regions commit_object_index concurrency_contract is_dense_index "
    "object_manifest_writer object_shard_rows read_all_object_manifests_csr read_object_manifests_csr reserve_object_rows "
    "write_object_attribute_columns write_object_attributes write_object_manifests",
    "writing": "cell_objects create_attribute_array create_fragment_attribute_array create_vertices_array defer_presence open_write_session "
    "read_vertex_fragment_index set_presence shard_of shard_transaction write_chunk_attributes write_chunk_fragment_attributes "
    "write_chunk_fragments write_chunk_vertices",
}

#: Where else here the functions are that read chunks, which need this module themselves.
_ELSEWHERE = {
    **{name: f"zvf.compat.core.{module}" for module, names in _OF_CELLS.items() for name in names.split()},
    **dict.fromkeys(
        (
            "chunk_vertex_count",
            "read_chunk_attributes",
            "read_chunk_fragment_attributes",
            "read_chunk_vertices",
            "read_fragment",
            "read_object_vertices",
        ),
        "zvf.compat.core.arrays",
    ),
    **dict.fromkeys(("assign_chunks", "chunks_intersecting_bbox", "compute_grid_shape", "neighbouring_chunk_keys"), "zvf.compat.spatial.chunking"),
    "chunk_local_to_global_offsets": "zvf.compat.spatial.boundary",
}


#: What to use for names of the reference that are not here.
_INSTEAD = {
    **dict.fromkeys(("write_links", "write_link_attributes", "write_chunk_links", "write_chunk_link_attributes", "create_link_segments"), "write_link_cells, then finalize_links"),
    **dict.fromkeys(("read_links", "read_link_arrays", "read_chunk_links", "iter_link_cells"), "read_cells of the arrays below links"),
    **dict.fromkeys(("write_groupings", "write_groupings_attributes", "create_groupings_array"), "groups= of write_points and its kin, or ds.edit()"),
    **dict.fromkeys(("create_object_index_array", "create_object_attributes_array", "shard_object_layer"), "reserve_object_rows"),
    **dict.fromkeys(("write_object_index", "encode_object_manifest_blocks"), "write_object_manifests of arrays, then commit_object_index"),
    "ObjectIndexAppender": "object_manifest_writer",
    "patch_object_manifests": "ds.edit()",
    "stored_objects": "rebuild_presence, which reads what is stored",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    instead = _INSTEAD.get(name, 'what the guide "From zarr-vectors to zvf" names instead')
    raise AttributeError(f"zvf.compat.building has no {name!r}: use {instead}")


_NOT_OURS = ("annotations", "np", "Any", "import_module", "ArrayError", "MissingArrayError", "StoreError")
__all__ = [*_ELSEWHERE] + [name for name in list(globals()) if not name.startswith("_") and name not in _NOT_OURS]
