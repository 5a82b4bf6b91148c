"""Coarser levels, built again after edits."""

from __future__ import annotations

from typing import Any

from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels, read_level_metadata, read_root_metadata
from ..multiresolution.coarsen import build_pyramid


def rebuild_pyramid_from_level(store: Any, level: int = 0) -> list[dict[str, Any]]:
    """Build every coarser level again; one summary for each."""
    group = Group(shared_for(store, "r+"))
    levels = [i for i in list_resolution_levels(group) if i > int(level)]
    base = read_root_metadata(group).base_bin_shape or read_root_metadata(group).chunk_shape
    factors, before = [], base
    for number in levels:
        meta = read_level_metadata(group, number)
        own = meta.bin_shape or before
        factors.append((round(own[0] / before[0], 6) or 1.0, 1.0 / (meta.object_sparsity or 1.0)))
        before = own
    return list(build_pyramid(group, factors=factors)["level_specs"])
