"""Coarser levels, built as the reference builds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zvf._jobs import command

from ..api.dataset import Dataset
from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels, read_level_metadata
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
    for (bins, objects), level in zip(pairs, levels):
        meta = read_level_metadata(group, level)
        specs.append(
            {
                "level": level,
                "objects_kept": len(Dataset(Group(group._shared)).level(level).objects.ids()),
                "vertex_count": meta.vertex_count,
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


def coarsen_level(store_path: Any, source_level: int = 0, target_level: int = 1, *, coarsen_factor: float = 2.0, sparsity_factor: float = 1.0, **words: Any) -> dict[str, Any]:
    """Build one level from the one before it; levels in between must be there."""
    group = Group(shared_for(store_path, "r+"))
    if target_level != source_level + 1 or source_level != 0:
        raise CoarseningError("one level is built from level 0 as level 1; see build_pyramid for more")
    report = build_pyramid(group, factors=[(coarsen_factor, sparsity_factor)], **words)
    return dict(report["level_specs"][0])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
