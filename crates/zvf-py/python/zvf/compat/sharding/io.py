"""Cells in shards: rewriting, and what is there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import zvf

from ..constants import GROUP_ATTRIBUTES, GROUPS, OBJECT_ATTRIBUTES, OBJECT_INDEX
from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels
from ..exceptions import ArrayError, StoreError, translating


def _group(store: Any, mode: str) -> Group:
    group = Group(shared_for(store, mode))
    if mode != "r":
        group._shared.check_writable()
    if not group.is_local:
        raise StoreError("shards are rewritten in folders only")
    return group


#: Families of a level whose arrays have no cell for each chunk of space.
_DENSE = (OBJECT_INDEX, OBJECT_ATTRIBUTES, GROUPS, GROUP_ATTRIBUTES)


def _arrays(group: Group, below: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The arrays below a node: its own by name, then those of each group below."""
    arrays, groups = [], []
    for name in group.children():
        document = group[name]._document()
        path = f"{below}/{name}".strip("/")
        if document.get("node_type") == "array":
            arrays.append((path, document))
        else:
            groups.append((name, path))
    return [*arrays, *(found for name, path in groups for found in _arrays(group[name], path))]


def _arrays_of_chunks(group: Group) -> list[tuple[str, dict[str, Any]]]:
    """The arrays of each level whose cells are those of chunks, and that have some; the finest level first."""
    found = []
    for level in list_resolution_levels(group):
        node = group[str(level)]
        own = [(name, document) for name, document in _arrays(node, str(level)) if name.split("/")[1] not in _DENSE]
        found += [(name, document) for name, document in own if node.list_chunks(name.partition("/")[2])]
    return found


def _shard_shape(document: dict[str, Any]) -> list[int] | None:
    """How many cells a shard of an array has on each axis; nothing where cells are objects of their own."""
    codecs = [codec for codec in document.get("codecs", []) if isinstance(codec, dict)]
    sharding = next((codec for codec in codecs if codec.get("name") == "sharding_indexed"), None)
    if sharding is None:
        return None
    outer = document["chunk_grid"]["configuration"]["chunk_shape"]
    return [int(o) // int(i) for o, i in zip(outer, sharding["configuration"]["chunk_shape"])]


def get_shard_info(store_path: Any) -> dict[str, Any]:
    """Which arrays are in shards, and how large these are; as many shards are counted as the grid of each array has."""
    entries: list[dict[str, Any]] = []
    for name, document in _arrays_of_chunks(_group(store_path, "r")):
        shard = _shard_shape(document)
        if shard is None:
            continue
        grid = [int(n) for n in document["shape"]]
        count = math.prod(-(-cells // each) for cells, each in zip(grid, shard))
        entries.append({"name": name, "grid_shape": grid, "shard_shape": shard, "shard_count": count})
    return {"sharded": bool(entries), "arrays": entries, "shard_count": sum(e["shard_count"] for e in entries)}


def is_sharded(store_path: Any) -> bool:
    """Whether any array is in shards."""
    return bool(get_shard_info(store_path)["sharded"])


def _all_arrays(arrays: Any) -> None:
    if arrays is not None:
        raise ArrayError("arrays: all of a store are in shards or none is; leave arrays out")


def _cells(group: Group) -> dict[str, tuple[int, list[int] | None]]:
    """How many cells each array has that are not empty, and the shape of its shards."""
    return {
        name: (len(group[name.split("/")[0]].list_chunks(name.partition("/")[2])), _shard_shape(document))
        for name, document in _arrays_of_chunks(group)
    }


def shard_store(store_path: Any, shard_shape: Any = 8, *, arrays: Any = None) -> dict[str, Any]:
    """Put cells into shards; codecs stay. Returns what :func:`get_shard_info` does, and what was packed."""
    _all_arrays(arrays)
    group = _group(store_path, "r+")
    if isinstance(shard_shape, (bytes, bytearray)):  # whose items are numbers, too
        raise ArrayError(f"shard_shape: expected positive integers, found {shard_shape!r}")
    with translating(ArrayError):
        shape = [int(shard_shape)] if isinstance(shard_shape, (int, np.integer)) else [int(n) for n in shard_shape]
    if not shape or any(n < 1 for n in shape):
        raise ArrayError(f"shard_shape: expected positive integers, found {shard_shape}")
    ndim = len(group.attrs["zarr_vectors"]["chunk_shape"])
    if len(shape) not in (1, ndim):
        raise ArrayError(f"shard_shape: expected the rank {ndim}, found {len(shape)}")
    before = _cells(group)
    with translating(ArrayError):
        zvf.shard(group._shared.address, cells=shape)
    group._shared.changed()
    info = get_shard_info(group)
    packed = [before[e["name"]][0] for e in info["arrays"] if e["name"] in before and before[e["name"]][1] != e["shard_shape"]]
    each = shape * ndim if len(shape) == 1 else shape
    return {**info, "arrays_sharded": len(packed), "chunks_packed": sum(packed), "shard_shape": each}


def unshard_store(store_path: Any, *, arrays: Any = None) -> dict[str, Any]:
    """Give each cell an object of its own. Returns what :func:`get_shard_info` does, and what was extracted."""
    _all_arrays(arrays)
    group = _group(store_path, "r+")
    extracted = [count for count, shard in _cells(group).values() if shard is not None]
    with translating(ArrayError):
        zvf.unshard(group._shared.address)
    group._shared.changed()
    return {**get_shard_info(group), "arrays_unsharded": len(extracted), "chunks_extracted": sum(extracted)}


def reshard(store_path: Any, shard_shape: Any = None, *, arrays: Any = None) -> dict[str, Any]:
    """Other shards, or none."""
    _all_arrays(arrays)
    if shard_shape is not None:
        return {"action": "shard", **shard_store(store_path, shard_shape)}
    if not is_sharded(store_path):
        return {"action": "noop", "message": "already unsharded", **get_shard_info(store_path)}
    return {"action": "unshard", **unshard_store(store_path)}
