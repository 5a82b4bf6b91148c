"""The transforms of levels, as NGFF has them in the root."""

from __future__ import annotations

from typing import Any

from .group import Group
from .metadata import get_level_bin_shape
from .store import list_resolution_levels, read_level_metadata, read_root_metadata


def write_multiscale_metadata(root: Group) -> list[dict[str, Any]]:
    """Write the transforms again, from the bins of the levels; returns what was written."""
    meta = read_root_metadata(root)
    base = meta.effective_bin_shape
    datasets = []
    for number in list_resolution_levels(root):
        bins = get_level_bin_shape(meta, read_level_metadata(root, number)) if number else base
        scale = {"type": "scale", "scale": [own / one if one else 1.0 for own, one in zip(bins, base)]}
        translation = {"type": "translation", "translation": [own / 2.0 for own in bins]}
        datasets.append({"path": str(number), "coordinateTransformations": [scale, translation]})
    axes = [{k: v for k, v in axis.items() if k in ("name", "type", "unit") and v} for axis in meta.spatial_index_dims]
    name = ((root.attrs.get("multiscales") or [{}])[0]).get("name", "default")
    block = {"version": "0.4", "name": name, "axes": axes, "datasets": datasets, "metadata": {"format": "zarr_vectors"}}
    root.attrs.update({"multiscales": [block]})
    return [block]


def read_multiscale_metadata(root: Group) -> list[dict[str, Any]] | None:
    """The transforms that are there."""
    found = root.attrs.get("multiscales")
    return list(found) if found else None


def _transform(root: Group, level: int, kind: str) -> list[float] | None:
    for dataset in (read_multiscale_metadata(root) or [{}])[0].get("datasets", []):
        if dataset.get("path") == str(int(level)):
            for one in dataset.get("coordinateTransformations", []):
                if one.get("type") == kind:
                    return [float(x) for x in one[kind]]
    return None


def get_level_scale(root: Group, level: int) -> list[float] | None:
    """The scale of a level; ``None`` where it has none."""
    return _transform(root, level, "scale")


def get_level_translation(root: Group, level: int) -> list[float] | None:
    """The translation of a level; ``None`` where it has none."""
    return _transform(root, level, "translation")


def read_level_transform(root: Group, level: int) -> tuple[list[float] | None, list[float] | None]:
    """The scale and the translation of a level; ``None`` for what it has not."""
    return get_level_scale(root, level), get_level_translation(root, level)
