"""Coarser levels, built again after edits."""

from __future__ import annotations

from typing import Any

from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels
from ..multiresolution.coarsen import _factors_of, build_pyramid


def rebuild_pyramid_from_level(root: Any, source_level: int = 0) -> list[dict[str, Any]]:
    """Build every coarser level again, by the factors that it has; one summary for each."""
    group = Group(shared_for(root, "r+"))
    levels = [level for level in list_resolution_levels(group) if level > 0]
    if not levels:
        return []
    report = build_pyramid(group, factors=_factors_of(group, levels))
    return [spec for spec in report["level_specs"] if spec["level"] > int(source_level)]
