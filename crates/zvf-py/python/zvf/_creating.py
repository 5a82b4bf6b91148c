"""The words of :func:`zvf.create` as the native half takes them: codecs, sizes of chunks, axes, declarations.

Not here: the words of a query (``_words``), and arrays (``_arrays``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import named, sizes
from ._words import as_json, byte_count, count_of, items_of, number_of, text_of
from .errors import shown, wrong_type, wrong_value

_NAMES = "xyzwuvab"
_BYTES_A_VERTEX = 16
CHUNK_BYTES = 256 << 10  # of a chunk, unless another size is given


def codecs_json(codec: Any) -> str | None:
    """The steps of a codec: ``None``, ``"zstd"``, ``"zstd:9"``, ``"gzip"``, ``"blosc"``, or steps as Zarr has them."""
    if codec is None or codec == "none":
        return None
    if isinstance(codec, str):
        name, _, level = codec.partition(":")
        if name not in ("zstd", "gzip", "blosc") or (level and not level.lstrip("-").isdecimal()):
            raise wrong_value("codec", "none, zstd, gzip or blosc, and maybe a level, such as zstd:9", shown(codec))
        settings: dict[str, Any] = {"level": int(level)} if level else {"zstd": {"level": 3}}.get(name, {})
        if name == "blosc":
            settings = {"clevel": int(level or 5), "cname": "zstd", "shuffle": "shuffle", "typesize": 4, "blocksize": 16384}
        return json.dumps([{"name": name, "configuration": settings}])
    steps = codec if isinstance(codec, (list, tuple)) else [codec]
    found = [step.to_dict() if hasattr(step, "to_dict") else step for step in steps]
    if not all(isinstance(step, Mapping) and isinstance(step.get("name"), str) for step in found):
        raise wrong_type("codec", "a name, or steps as Zarr has them", shown(codec))
    return as_json("codec", found)


def chunk_shape_for(points: np.ndarray, chunk: Any) -> list[float]:
    """The shape of chunks: as given, or such that a chunk has about so many bytes."""
    ndim = points.shape[1]
    if chunk is not None and not isinstance(chunk, str):
        return sizes("chunk", chunk, ndim)
    if not len(points):
        return [1.0] * ndim
    return chunk_shape_of(len(points), points.min(axis=0).astype(np.float64), points.max(axis=0), chunk_bytes_of(chunk))


def chunk_shape_of(count: int, low: np.ndarray, high: np.ndarray, chunk_bytes: int | None = None) -> list[float]:
    """The shape of chunks of about so many bytes, of so many points between two corners."""
    extent = (high - low).clip(min=0)
    cells = max(count / max((chunk_bytes or CHUNK_BYTES) // _BYTES_A_VERTEX, 1), 1.0)
    largest = float(extent.max()) or 1.0
    wide = extent > largest * 1e-6
    # Cubes, as many as are wanted over the axes that have an extent.
    volume = float(np.prod(extent[wide])) if wide.any() else 1.0
    edge = (volume / cells) ** (1.0 / max(int(wide.sum()), 1)) if wide.any() else 1.0
    edge = max(edge, largest * 1e-6) * (1.0 + 1e-9)
    return [float(np.float32(edge))] * len(extent)


def chunk_bytes_of(chunk: Any) -> int | None:
    """The bytes of a chunk, where these were given and not its size."""
    count = byte_count("chunk", chunk) if isinstance(chunk, str) else None
    if count == 0:
        raise wrong_value("chunk", "at least 1 byte", shown(chunk))
    return count


def axes_of(axes: Any, unit: str | None, ndim: int) -> list[tuple[str, str | None, str]]:
    """Name, unit and type of each axis."""
    expected = f"{ndim} axes, each a name or a mapping with one"
    if unit is not None:
        text_of("unit", unit)
    if axes is None or (isinstance(axes, (list, tuple)) and not axes):
        return [_axis(name, unit) for name in _NAMES[:ndim]]
    return [_axis(axis, unit) for axis in items_of("axes", axes, ndim, expected)]


def _axis(axis: Any, unit: str | None) -> tuple[str, str | None, str]:
    if isinstance(axis, str):
        return axis, unit, "time" if axis == "t" else "space"
    get = axis.get if isinstance(axis, Mapping) else lambda k: getattr(axis, k, None)
    name = get("name")
    if not isinstance(name, str):
        raise wrong_type("axes", "a name, or a mapping with one, for each", shown(axis))
    own = get("unit") or unit
    return name, None if own is None else str(own), str(get("type") or get("kind") or "space")


def shard_of(shard: Any) -> list[int]:
    """How many chunks a shard has on each axis."""
    expected = "how many chunks a shard has on each axis, such as [2, 2, 2]"
    if isinstance(shard, (str, bytes)) or not hasattr(shard, "__iter__"):
        raise wrong_type("shard", expected, shown(shard))
    counts = [count_of("shard", n) for n in shard]
    if not counts or 0 in counts:
        raise wrong_value("shard", expected, shown(shard))
    return counts


def folder_of(path: Any) -> str:
    """The folder to which data beyond the memory limit is spilled."""
    try:
        return os.fsdecode(os.fspath(path))
    except TypeError:
        raise wrong_type("scratch", "a folder", shown(path)) from None


def declared_of(declared: Any) -> list[tuple[Any, ...]]:
    """What is declared of attributes, one after the other."""
    found = []
    for scope, specs in named("declared", declared, "scopes to attributes").items():
        for name, spec in named(f"declared[{scope!r}]", specs, "names to what is declared of them").items():
            said = named(f"declared[{scope!r}][{name!r}]", spec, "words to values")
            channels, categorical = count_of("channels", said.get("channels") or 1), bool(said.get("categorical", False))
            words = [None if said.get(key) is None else str(said[key]) for key in ("unit", "description")]
            found.append((str(scope), str(name), str(said.get("dtype", "float32")), channels, categorical, *words))
    return found


def binned_of(binned_by: tuple[str, Sequence[Any]]) -> tuple[str, list[float | None], list[str | None]]:
    """The attribute whose values are the first axis of chunks, and these: numbers and words."""
    name, values = items_of("binned_by", binned_by, 2, "the name of an attribute and its values")
    return (
        text_of("binned_by", name),
        [None if isinstance(v, str) else number_of("binned_by", v) for v in values],
        [str(v) if isinstance(v, str) else None for v in values],
    )
