"""How levels that are there are built again, when level 0 is written again.

Levels of the reference follow from level 0, the sizes of their bins and chunks, and the objects that they keep: so what
writes level 0 again builds them again. Levels of another method are not dropped unseen: such a write is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..api.dataset import Dataset
from ..constants import CAP_MULTISCALE_LINKS
from ..core.group import Group
from ..core.metadata import get_level_bin_shape, get_level_chunk_shape
from ..core.store import list_resolution_levels, read_level_metadata, read_root_metadata
from ..exceptions import CoarseningError


@dataclass(frozen=True)
class LevelRecipe:
    """One level: its bins and chunks, the share of objects it says it has, and the ids of those it has not."""

    bin_shape: tuple[float, ...]
    chunk_shape: tuple[float, ...]
    share: float
    dropped: frozenset[int]


@dataclass(frozen=True)
class Recipes:
    """All levels but the first, and how they are linked."""

    levels: tuple[LevelRecipe, ...]
    depth: int
    storage: str
    full: bool = False  # whether they have more than vertices and objects

    def scaled(self, shapes: Mapping[int, Sequence[float]], root: Sequence[float]) -> Recipes:
        """The same levels with chunks of these shapes, by the number of the level; others have those of the root."""
        sizes = [tuple(float(x) for x in shapes.get(number, root)) for number in range(1, len(self.levels) + 1)]
        return replace(self, levels=tuple(replace(own, chunk_shape=size) for own, size in zip(self.levels, sizes)))

    def first(self, count: int) -> Recipes:
        """The first so many of them."""
        return replace(self, levels=self.levels[:count])

    def factors(self, bins: Sequence[float], chunk: Sequence[float]) -> tuple[list[tuple[float, float]], list[int]]:
        """The factors over the level below, of bins and objects, and of chunks, where level 0 has these sizes."""
        pairs: list[tuple[float, float]] = []
        scales: list[int] = []
        for number, own in enumerate(self.levels, 1):
            factor, scale = _ratio(own.bin_shape, bins), _ratio(own.chunk_shape, chunk)
            if factor is None:
                raise CoarseningError(f"level {number} has bins of {own.bin_shape}, which are no multiple of {tuple(bins)} on all axes alike")
            if scale is None or scale < 1 or scale != int(scale):
                raise CoarseningError(f"level {number} has chunks of {own.chunk_shape}: no whole multiple of {tuple(chunk)} on all axes alike")
            pairs.append((factor, 1.0 / own.share))
            scales.append(int(scale))
            bins, chunk = own.bin_shape, own.chunk_shape
        return pairs, scales

    def build(self, group: Group) -> list[dict[str, Any]]:
        """Build the levels of a store that has its level 0."""
        from .coarsen import build_levels

        root = read_root_metadata(group)
        pairs, scales = self.factors(root.effective_bin_shape, root.chunk_shape)
        ids = Dataset(Group(group._shared)).level(0).objects.ids(present=False).tolist()
        kept = [[row for row, i in enumerate(ids) if i not in own.dropped] if own.dropped else None for own in self.levels]
        return build_levels(group, pairs, scales, kept, self.depth, self.storage, self.full)


def _ratio(sizes: Sequence[float], below: Sequence[float]) -> float | None:
    """By how much sizes differ, on all axes alike."""
    ratios = [a / b for a, b in zip(sizes, below)]
    if len(sizes) != len(below) or max(ratios) - min(ratios) > 1e-9 * max(ratios):
        return None
    return float(round(ratios[0])) if abs(ratios[0] - round(ratios[0])) < 1e-9 else ratios[0]


def read_recipes(group: Group, levels: Sequence[int] | None = None) -> Recipes | None:
    """How the levels above the first are built again; ``None`` where there are none. Fails for those of another method."""
    there = [level for level in list_resolution_levels(group) if level > 0] if levels is None else list(levels)
    if not there:
        return None
    root, dataset = read_root_metadata(group), Dataset(Group(group._shared))
    known = set(dataset.level(0).objects.ids().tolist())
    found = []
    for number, level in enumerate(there, 1):
        meta = read_level_metadata(group, level)
        if level != number or meta.coarsening_method != "per_object" or not meta.shared_fragments:
            raise CoarseningError(
                f"level {level} was made by {meta.coarsening_method!r} and cannot be built again here: this would drop it. Remove the "
                "coarser levels first (building.remove_resolution_level, or `zvf pyramid --levels 0`) and build them again afterwards."
            )
        own = set(dataset.level(level).objects.ids().tolist())
        found.append(
            LevelRecipe(get_level_bin_shape(root, meta), get_level_chunk_shape(root, meta), meta.object_sparsity or 1.0, frozenset(known - own))
        )
    linked = CAP_MULTISCALE_LINKS in root.format_capabilities
    full = any(_is_full(group, level) for level in there)
    return Recipes(tuple(found), root.cross_level_depth, root.cross_level_storage if linked else "none", full)


def _is_full(group: Group, level: int) -> bool:
    """Whether a level says that it has more than the reference's levels have."""
    said = group[str(level)].attrs["zarr_vectors_level"].get("zvf.reference") or {}
    return bool(said.get("content") == "full")


__all__ = ["LevelRecipe", "Recipes", "read_recipes"]
