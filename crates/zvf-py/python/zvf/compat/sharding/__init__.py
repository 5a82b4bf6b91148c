"""Cells in shards."""

from __future__ import annotations

from .io import get_shard_info, is_sharded, reshard, shard_store, unshard_store

__all__ = ["get_shard_info", "is_sharded", "reshard", "shard_store", "unshard_store"]
