"""Coarser levels, built again after edits."""

from __future__ import annotations

from typing import Any

from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels
from ..exceptions import EditError
from ..multiresolution.recipes import read_recipes


def rebuild_pyramid_from_level(root: Any, source_level: int) -> list[dict[str, Any]]:
    """Build every coarser level again, by the factors that it has and with the objects that it has; one summary for each."""
    group = Group(shared_for(root, "r+"))
    group._shared.check_writable()
    there = list_resolution_levels(group)
    levels = [level for level in there if level > 0]
    if not any(level > int(source_level) for level in levels):
        return []
    if int(source_level) not in there:
        raise EditError(f"source_level={source_level} not present in store (have {there})")
    recipes = read_recipes(group)
    specs = recipes.build(group) if recipes is not None else []
    return [spec for spec in specs if spec["level"] > int(source_level)]
