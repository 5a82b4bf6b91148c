"""How a store is laid out, as it is found, and what this package does with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..constants import LINKS, OBJECT_INDEX
from .group import Group
from .linking import link_family_policy
from .object_layer import OBJECT_INDEX_LAYOUT_DENSE, OBJECT_INDEX_LAYOUT_V1, OBJECT_INDEX_LAYOUT_V2, is_dense_index, object_shard_rows
from .store import get_resolution_level, list_resolution_levels

_FIRST_READER = {OBJECT_INDEX_LAYOUT_V2: (0, 9, 2), OBJECT_INDEX_LAYOUT_DENSE: (0, 9, 4)}


@dataclass(frozen=True)
class StoreLayout:
    """How a store and one of its levels are laid out; ``min_reader`` is the oldest zarr-vectors that reads all of it."""

    created_by: str | None
    format_capabilities: tuple[str, ...]
    shard_shape: tuple[int, ...] | int | None
    object_index: str | None
    link_policy: dict[int, tuple[bool, str]] = field(default_factory=dict)
    presence_deferred: bool = False
    min_reader: str = "0.9.0"
    object_shard_rows: int | None = None


def store_layout(root_or_level: Group, *, level: int = 0) -> StoreLayout:
    """The layout of a store, and of the level that is given, else of the one with this number."""
    root = Group(root_or_level._shared)
    block = root.attrs.get("zarr_vectors") or {}
    number = root_or_level.level if root_or_level._below else int(level)
    index, policies, deferred, rows = None, {}, False, None
    if number in list_resolution_levels(root):
        group = get_resolution_level(root, number)
        if OBJECT_INDEX in group:
            index = OBJECT_INDEX_LAYOUT_DENSE if is_dense_index(group) else group.read_array_meta(OBJECT_INDEX).get("layout") or OBJECT_INDEX_LAYOUT_V1
        for name in group[LINKS].children() if LINKS in group else []:
            if (policy := link_family_policy(group, int(name))) is not None:
                policies[int(name)] = (policy[2], policy[3])
        deferred, rows = group.presence_deferred(), object_shard_rows(group)
    oldest = max((0, 9, 0), _FIRST_READER.get(str(index), (0, 9, 0)), (0, 9, 3) if deferred else (0, 9, 0))
    shard = block.get("shard_shape")
    return StoreLayout(
        created_by=block.get("zv_version"),
        format_capabilities=tuple(block.get("format_capabilities") or ()),
        shard_shape=tuple(shard) if isinstance(shard, list) else shard,
        object_index=index,
        link_policy=policies,
        presence_deferred=deferred,
        min_reader=".".join(map(str, oldest)),
        object_shard_rows=rows,
    )
