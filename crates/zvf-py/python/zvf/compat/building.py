"""What packages are built on: opening and creating stores, metadata, writers, names of arrays."""

from __future__ import annotations

import json
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
from .core.metadata import LevelMetadata, RootMetadata
from .core.store import (
    commit,
    create_store,
    get_resolution_level,
    list_resolution_levels,
    open_store,
    read_level_metadata,
    read_root_metadata,
    remove_resolution_level,
    set_bounds,
)
from .multiresolution.registry import register_coarsen_strategy, register_selection_strategy
from .rechunk import RechunkSpec, rechunk, rechunk_by_attribute
from .sharding import get_shard_info, is_sharded, reshard, shard_store, unshard_store
from .types.graphs import write_graph
from .types.lines import write_lines
from .types.meshes import write_mesh
from .types.points import write_points
from .types.polylines import write_polylines


def _level(level: Group) -> Any:
    from .api.dataset import Dataset

    return Dataset(Group(level._shared)).level(level.level)


def list_chunk_keys(level: Group, array: str = VERTICES) -> list[tuple[int, ...]]:
    """The chunks of a level, in numeric order."""
    return [ref.coords for ref in sorted(_level(level).cells())]


def object_count(level: Group) -> int:
    """How many objects a level has."""
    return len(_level(level).objects)


def read_object_manifests(level: Group, ids: Any = None) -> dict[int, Any]:
    """The fragments of objects."""
    return _level(level).objects.manifests(ids)


def read_all_object_manifests(level: Group) -> list[Any]:
    """The fragments of every object, by its row."""
    return list(_level(level).objects.manifests().values())


def read_object_attributes(level: Group, name: str) -> np.ndarray:
    """An attribute of objects, one row for each."""
    views = _level(level).objects._views()
    if views and name not in views[0]["attributes"]:
        raise KeyError(f"there is no object attribute {name!r}: there is {', '.join(views[0]['attributes']) or 'none'}")
    return np.array([view["attributes"][name] for view in views])


def read_all_groupings(level: Group) -> list[np.ndarray]:
    """The members of each group."""
    groups = _level(level).groups
    return [groups[name].members for name in groups.names()]


def read_group_object_ids(level: Group, group: int) -> np.ndarray:
    """The members of a group."""
    return _level(level).groups.by_id(group).members


def chunks_intersecting_bbox(low: Any, high: Any, chunk_shape: Any) -> list[tuple[int, ...]]:
    """The chunks that a box meets."""
    from .api.grid import Grid

    return sorted(ref.coords for ref in Grid((1,) * len(chunk_shape), tuple(chunk_shape)).cells_in((low, high)))


def level_info(level: Group) -> dict[str, Any]:
    """What the level holds, as the native interface says."""
    return json.loads(level._shared.dataset()._native.summary().wait())["levels"][level.level]


__all__ = [name for name in list(globals()) if not name.startswith("_") and name not in ("annotations", "json", "np", "Any")]
