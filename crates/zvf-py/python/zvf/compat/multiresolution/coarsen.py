"""Coarser levels: vertices and objects as the reference makes them and, by the switch ``pyramid``, all that these have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zvf import _zvf

from .._config import config
from ..api.dataset import Dataset
from ..constants import VALID_XLEVEL_STORAGE
from ..core.group import Group, shared_for
from ..core.metadata import get_level_bin_shape, get_level_chunk_shape
from ..core.store import list_resolution_levels, read_level_metadata, read_root_metadata
from ..exceptions import CoarseningError, translating
from .recipes import LevelRecipe, Recipes, read_recipes
from .registry import require_coarsen_strategy, require_selection_strategy

_METHOD = "per_object"


def build_pyramid(
    store_path: Any,
    *,
    factors: Sequence[tuple[float, float]],
    chunk_scale_factors: Sequence[int | Sequence[int]] | None = None,
    sparsity_strategy: str = "random",
    sparsity_seed: int | None = None,
    cross_level_depth: int = 1,
    cross_level_storage: str = "explicit",
    method: str = _METHOD,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build one level for each pair of a factor for bins and one for objects, each over the level below.

    All levels that are there are replaced, in one step. Without ``sparsity_seed`` the objects that stay are others each time.
    """
    if cross_level_storage not in VALID_XLEVEL_STORAGE:
        raise ValueError(f"cross_level_storage: expected one of {sorted(VALID_XLEVEL_STORAGE)}, found {cross_level_storage!r}")
    if cross_level_depth < -1:
        raise ValueError(f"cross_level_depth: expected -1 or more, found {cross_level_depth}")
    pairs = [_pair(number, pair) for number, pair in enumerate(factors)]
    if chunk_scale_factors is not None and len(chunk_scale_factors) != len(pairs):
        raise ValueError(f"chunk_scale_factors length {len(chunk_scale_factors)} != factors length {len(pairs)}")
    group = _writable(store_path)
    if method != _METHOD:
        words = {"sparsity_strategy": sparsity_strategy, "sparsity_seed": sparsity_seed, "cross_level_storage": cross_level_storage}
        scales = chunk_scale_factors or [1] * len(pairs)
        specs = [_by_strategy(group, method, at, pair, scale, words, options) for at, (pair, scale) in enumerate(zip(pairs, scales))]
    else:
        _refuse_options(options)
        scales = [_scale(group, scale) for scale in chunk_scale_factors or [1] * len(pairs)]
        rows = _rows_of(group)
        kept = [_kept(rows, objects, sparsity_strategy, sparsity_seed) for _, objects in pairs]
        specs = build_levels(group, pairs, scales, kept, cross_level_depth, cross_level_storage, config.pyramid == "full")
    return {
        "levels_created": len(specs),
        "level_specs": specs,
        "method": method,
        "cross_level_depth": cross_level_depth,
        "cross_level_storage": cross_level_storage,
    }


def coarsen_level(
    store_path: Any,
    source_level: int,
    target_level: int,
    *,
    coarsen_factor: float = 1.0,
    sparsity_factor: float = 1.0,
    chunk_scale_factor: int | Sequence[int] = 1,
    sparsity_strategy: str = "random",
    sparsity_seed: int | None = None,
    cross_level_storage: str = "none",
    method: str = _METHOD,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build one level from another.

    Levels below it are built again as they are: by the factors that they have, with the objects that they have. Levels
    above it go.
    """
    group = _writable(store_path)
    pair = (float(coarsen_factor), float(sparsity_factor))
    words = {"sparsity_strategy": sparsity_strategy, "sparsity_seed": sparsity_seed, "cross_level_storage": cross_level_storage}
    if method != _METHOD:
        return _by_strategy(group, method, int(source_level), pair, chunk_scale_factor, words, options, int(target_level))
    _refuse_options(options)
    there = [level for level in list_resolution_levels(group) if 0 < level < int(target_level)]
    if int(target_level) != len(there) + 1 or int(source_level) not in (0, *there):
        raise CoarseningError(f"level {target_level} cannot be built from {source_level}: there is {[0, *there]}")
    scale, rows, root = _scale(group, chunk_scale_factor), _rows_of(group), read_root_metadata(group)
    below = read_level_metadata(group, int(source_level)) if int(source_level) else None
    bins = tuple(b * pair[0] for b in get_level_bin_shape(root, below))
    # A level is built from the one below it, whose chunks nest in its own.
    last = get_level_chunk_shape(root, read_level_metadata(group, there[-1])) if there else root.chunk_shape
    chunk = tuple(max(c * scale, least) for c, least in zip(get_level_chunk_shape(root, below), last))
    chosen = _kept(rows, pair[1], sparsity_strategy, sparsity_seed)
    ids = Dataset(Group(group._shared)).level(0).objects.ids(present=False)
    dropped = frozenset() if chosen is None else frozenset(np.delete(ids, chosen).tolist())
    before = read_recipes(group, there)
    own = LevelRecipe(bins, chunk, 1.0 / max(pair[1], 1.0), dropped)
    depth, storage = (1, cross_level_storage) if before is None or before.storage == "none" else (before.depth, before.storage)
    full = config.pyramid == "full" or (before is not None and before.full)  # what levels below have stays
    return Recipes((*(before.levels if before else ()), own), depth, storage, full).build(group)[-1]


def _writable(store_path: Any) -> Group:
    group = Group(shared_for(store_path, "r+"))
    group._shared.check_writable()
    return group


def _pair(number: int, pair: Any) -> tuple[float, float]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"factors[{number}] must be a (coarsen_factor, sparsity_factor) tuple; found {pair!r}")
    return float(pair[0]), float(pair[1])


def _refuse_options(options: Mapping[str, Any] | None) -> None:
    if options:
        raise CoarseningError(f"method={_METHOD!r} takes no extra options; found {sorted(options)}: they belong to a registered method")


def _by_strategy(
    group: Group, method: str, source: int, pair: tuple[float, float], scale: Any, words: Mapping[str, Any], options: Any, target: int | None = None
) -> dict[str, Any]:
    """A level by a method that another package registered."""
    build = require_coarsen_strategy(method)
    to = source + 1 if target is None else target
    made: dict[str, Any] = build(
        store_path=group, source_level=source, target_level=to, coarsen_factor=pair[0], sparsity_factor=pair[1],
        chunk_scale_factor=scale, **words, **dict(options or {}),
    )  # fmt: skip
    group._shared.changed()
    return made


def _scale(group: Group, scale: Any) -> int:
    """How many chunks one of the level covers on each axis: the same on all of them."""
    ndim = read_root_metadata(group).sid_ndim
    each = [int(n) for n in scale] if isinstance(scale, (tuple, list)) else [int(scale)] * ndim
    if len(each) != ndim:
        raise CoarseningError(f"chunk_scale_factor rank {len(each)} != sid_ndim {ndim}")
    if any(n < 1 for n in each):
        raise CoarseningError(f"chunk_scale_factor must be positive integers per axis, found {scale}")
    if len(set(each)) > 1:
        raise CoarseningError(f"chunk_scale_factor: expected one factor for all axes, found {tuple(each)}: this build scales chunks alike")
    return each[0]


def _rows_of(group: Group) -> int:
    """How many objects there are to choose from: one, where the level has no index."""
    level = Dataset(Group(group._shared)).level(0)
    slots = len(level.objects)
    return slots if slots else min(level.vertex_count, 1)


def _kept(rows: int, factor: float, strategy: str, seed: int | None) -> npt.NDArray[np.int64] | None:
    """The rows of the objects that stay, ascending; ``None`` is all of them."""
    if factor <= 1.0 or rows < 2:
        return None
    count = max(1, round(rows * (1.0 / factor)))
    if strategy != "random":
        nothing = dict.fromkeys(("lengths", "attribute_values", "representative_points", "bin_shape"))
        chosen = require_selection_strategy(strategy)(rows, count, seed=seed, attribute_mode="max", **nothing)
        return np.sort(np.asarray(chosen, dtype=np.int64))
    if count >= rows:
        return None
    return np.sort(np.random.default_rng(seed).choice(rows, size=count, replace=False)).astype(np.int64)


def build_levels(
    group: Group, factors: Sequence[tuple[float, float]], scales: Sequence[int], kept: Sequence[Any], depth: int, storage: str, full: bool
) -> list[dict[str, Any]]:
    """Build a level for each pair of factors, of the objects at the rows ``kept``, and return what is said of each.

    ``full`` levels have attributes of vertices, edges, faces and groups too.
    """
    chosen = [None if some is None else [int(row) for row in some] for some in kept]
    rows = _rows_of(group)
    if not rows:
        return []
    with translating(CoarseningError):
        job = _zvf.build_levels(group._shared.address, list(factors), list(scales), chosen, int(depth), storage, full)
        vertices = job.wait()
    group._shared.changed()
    return [
        {
            "level": number,
            "vertex_count": count,
            "object_count": rows if some is None else len(some),
            "objects_kept": rows if some is None else len(some),
            "source_objects": rows,
            "method": _METHOD,
            "preserves_object_ids": True,
            "shared_fragments": True,
            "coarsen_factor": bins,
            "sparsity_factor": objects,
            "bin_shape": read_level_metadata(group, number).bin_shape,
        }
        for number, (count, some, (bins, objects)) in enumerate(zip(vertices, kept, factors), 1)
    ]


__all__ = ["build_levels", "build_pyramid", "coarsen_level"]
