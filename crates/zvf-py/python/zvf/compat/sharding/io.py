"""Cells in shards: rewriting, and what is there."""

from __future__ import annotations

from typing import Any

import numpy as np

import zvf

from ..core.group import Group, shared_for
from ..exceptions import ArrayError, StoreError, translating


def _group(store: Any, mode: str) -> Group:
    group = Group(shared_for(store, mode))
    if mode != "r":
        group._shared.check_writable()
    if not group.is_local:
        raise StoreError("shards are rewritten in folders only")
    return group


def _arrays(group: Group, below: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name in group.children():
        node = group[name]
        document = node._document()
        path = f"{below}/{name}".strip("/")
        if document.get("node_type") == "array":
            found.append((path, document))
        else:
            found += _arrays(node, path)
    return found


def get_shard_info(store_path: Any) -> dict[str, Any]:
    """Which arrays are in shards, and how large these are."""
    entries = []
    group = _group(store_path, "r")
    for name, document in _arrays(group):
        sharding = [c for c in document.get("codecs", []) if isinstance(c, dict) and c.get("name") == "sharding_indexed"]
        if not sharding or not document.get("data_type"):
            continue
        if name.split("/")[1:2] and any(part in name for part in ("object_index", "groups")):
            continue
        outer = document["chunk_grid"]["configuration"]["chunk_shape"]
        inner = sharding[0]["configuration"]["chunk_shape"]
        folder = group.path / name
        count = sum(1 for p in folder.rglob("*") if p.is_file() and p.name != "zarr.json")
        entries.append(
            {
                "name": name,
                "grid_shape": tuple(document["shape"]),
                "shard_shape": tuple(int(o) // int(i) for o, i in zip(outer, inner)),
                "shard_count": count,
            }
        )
    return {"sharded": bool(entries), "arrays": entries, "shard_count": sum(e["shard_count"] for e in entries)}


def is_sharded(store_path: Any) -> bool:
    """Whether any array is in shards."""
    return bool(get_shard_info(store_path)["sharded"])


def _all_arrays(arrays: Any) -> None:
    if arrays is not None:
        raise ArrayError("arrays: all of a store are in shards or none is; leave arrays out")


def _cells(group: Group) -> dict[str, int]:
    """How many objects each array has that is not in shards."""
    return {name: sum(1 for path in (group.path / name / "c").rglob("*") if path.is_file()) for name, _ in _arrays(group)}


def shard_store(store_path: Any, shard_shape: Any = 8, *, arrays: Any = None) -> dict[str, Any]:
    """Put cells into shards; codecs stay. Returns what :func:`get_shard_info` does, and what was packed."""
    _all_arrays(arrays)
    group = _group(store_path, "r+")
    shape = [shard_shape] if isinstance(shard_shape, (int, np.integer)) else list(shard_shape)
    if not shape or any(int(n) < 1 for n in shape):
        raise ArrayError(f"shard_shape: expected positive integers, found {shard_shape}")
    ndim = len(group.attrs["zarr_vectors"]["chunk_shape"])
    if len(shape) not in (1, ndim):
        raise ArrayError(f"shard_shape: expected the rank {ndim}, found {len(shape)}")
    before = _cells(group)
    with translating(ArrayError):
        zvf.shard(group._shared.address, cells=[int(n) for n in shape])
    group._shared.changed()
    info = get_shard_info(group)
    names = [entry["name"] for entry in info["arrays"]]
    packed = sum(before.get(name, 0) for name in names)
    whole = [int(n) for n in (shape * ndim if len(shape) == 1 else shape)]
    return {**info, "arrays_sharded": len(names), "chunks_packed": packed, "shard_shape": whole}


def unshard_store(store_path: Any, *, arrays: Any = None) -> dict[str, Any]:
    """Give each cell an object of its own. Returns what :func:`get_shard_info` does, and what was extracted."""
    _all_arrays(arrays)
    group = _group(store_path, "r+")
    names = [entry["name"] for entry in get_shard_info(group)["arrays"]]
    with translating(ArrayError):
        zvf.unshard(group._shared.address)
    group._shared.changed()
    after = _cells(group)
    extracted = sum(after.get(name, 0) for name in names)
    return {**get_shard_info(group), "arrays_unsharded": len(names), "chunks_extracted": extracted}


def reshard(store_path: Any, shard_shape: Any = None, *, arrays: Any = None) -> dict[str, Any]:
    """Other shards, or none."""
    _all_arrays(arrays)
    if shard_shape is not None:
        return {"action": "shard", **shard_store(store_path, shard_shape)}
    if not is_sharded(store_path):
        return {"action": "noop", "message": "already unsharded", **get_shard_info(store_path)}
    return {"action": "unshard", **unshard_store(store_path)}
