"""Coarser levels, built as the reference builds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from zvf._jobs import command

from ..api.dataset import Dataset
from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels, read_level_metadata, read_root_metadata
from ..exceptions import CoarseningError, translating
from .registry import registered_coarsen_strategies


def build_pyramid(
    store_path: Any,
    *,
    factors: Sequence[tuple[float, float]],
    method: str = "per_object",
    cross_level_storage: str | None = None,
    cross_level_depth: int | None = None,
    sparsity_strategy: str = "random",
    sparsity_seed: int = 0,
    **unused: Any,
) -> dict[str, Any]:
    """Build one level for each pair of a factor for bins and one for objects."""
    group = Group(shared_for(store_path, "r+"))
    group._shared.check_writable()
    if method != "per_object":
        known = ("per_object", *registered_coarsen_strategies())
        raise CoarseningError(f"method: expected one of {', '.join(known)} that this build runs, found {method!r}")
    pairs = [(float(a), float(b)) for a, b in factors]
    args = ["pyramid", group._shared.address, "--in-place", f"--seed={int(sparsity_seed)}"]
    args += [f"--reference={_number(a)},{_number(b)}" for a, b in pairs]
    if sparsity_strategy != "random":
        args.append(f"--sparsity-strategy={sparsity_strategy}")
    if cross_level_storage is not None:
        args.append(f"--cross-level-storage={cross_level_storage}")
    if cross_level_depth is not None:
        args.append(f"--cross-level-depth={int(cross_level_depth)}")
    with translating(CoarseningError):
        command(*args, storage=group._shared.storage)
    group._shared.changed()
    levels = [i for i in list_resolution_levels(group) if i > 0]
    specs = []
    sources = len(Dataset(Group(group._shared)).level(0).objects)
    for (bins, objects), level in zip(pairs, levels):
        meta = read_level_metadata(group, level)
        specs.append(
            {
                "level": level,
                "objects_kept": len(Dataset(Group(group._shared)).level(level).objects.ids()),
                "source_objects": sources,
                "object_count": len(Dataset(Group(group._shared)).level(level).objects.ids()),
                "vertex_count": meta.vertex_count,
                "method": method,
                "coarsen_factor": bins,
                "sparsity_factor": objects,
                "bin_shape": meta.bin_shape,
            }
        )
    return {
        "levels_created": len(levels),
        "level_specs": specs,
        "method": method,
        "cross_level_depth": 1 if cross_level_depth is None else int(cross_level_depth),
        "cross_level_storage": cross_level_storage or "explicit",
    }


def coarsen_level(
    store_path: Any, source_level: int = 0, target_level: int = 1, *, coarsen_factor: float = 1.0, sparsity_factor: float = 1.0, **words: Any
) -> dict[str, Any]:
    """Build one level from another: all are built again, those that are there by the factors that they have."""
    group = Group(shared_for(store_path, "r+"))
    there = [level for level in list_resolution_levels(group) if 0 < level < int(target_level)]
    if int(target_level) != len(there) + 1 or int(source_level) not in (0, *there):
        raise CoarseningError(f"level {target_level} cannot be built from {source_level}: there is {[0, *there]}")
    factors = _factors_of(group, there)
    # Each factor is over the level before; what the coarser of them skip, the last one makes up for.
    before = math.prod(bins for bins, _ in factors[int(source_level) :])
    kept = math.prod(objects for _, objects in factors[int(source_level) :])
    factors.append((float(coarsen_factor) / before, max(float(sparsity_factor) / kept, 1.0)))
    return dict(build_pyramid(group, factors=factors, **words)["level_specs"][-1])


def _factors_of(group: Group, levels: Sequence[int]) -> list[tuple[float, float]]:
    """The factors of levels that are there: of bins and of objects, each over the level before."""
    base = read_root_metadata(group).effective_bin_shape
    found, before, share = [], base, 1.0
    for level in levels:
        meta = read_level_metadata(group, level)
        own = meta.bin_shape or tuple(b * r for b, r in zip(base, meta.bin_ratio or (1,) * len(base)))
        found.append((round(own[0] / before[0], 6) or 1.0, share / (meta.object_sparsity or 1.0)))
        before, share = own, meta.object_sparsity or 1.0
    return found


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
