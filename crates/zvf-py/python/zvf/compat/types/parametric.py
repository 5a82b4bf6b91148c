"""Objects that are coefficients of an equation: planes, lines, spheres, and types of one's own."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core.group import Group, shared_for, write_json
from ..core.store import create_store, open_store
from ..exceptions import ArrayError, translating


@dataclass(frozen=True)
class ParametricTypeDef:
    """A type: its number, its name, and what its coefficients are called."""

    type_id: int
    name: str
    coefficients: Sequence[str] = field(default_factory=list)


_BUILT_IN = (
    ParametricTypeDef(0, "plane", ["A", "B", "C", "D"]),
    ParametricTypeDef(1, "line", ["x0", "y0", "z0", "dx", "dy", "dz"]),
    ParametricTypeDef(2, "sphere", ["cx", "cy", "cz", "r"]),
)


def write_parametric_objects(
    store_path: Any,
    objects: list[dict[str, Any]],
    *,
    object_attributes: dict[str, Any] | None = None,
    groups: dict[int, Any] | None = None,
    group_attributes: dict[str, Any] | None = None,
    custom_types: Sequence[Any] | None = None,
    create_new_store: bool = False,
    store_kwargs: dict[str, Any] | None = None,
    backend: str | None = None,
) -> dict[str, Any]:
    """Write the parametric objects of a store; those it had are replaced."""
    types = [*_BUILT_IN, *(custom_types or [])]
    rows, names, counts = [], [], {}
    for i, thing in enumerate(objects):
        wanted = thing.get("type")
        known = next((t for t in types if wanted == t.name or (isinstance(wanted, int) and wanted == t.type_id)), None)
        if known is None:
            raise ArrayError(f"Object {i}: unknown type {wanted!r}. Known types: {[t.name for t in types]}")
        coefficients = [float(c) for c in thing.get("coefficients", [])]
        if len(coefficients) != len(known.coefficients):
            raise ArrayError(
                f"Object {i} (type '{known.name}'): expected {len(known.coefficients)} coefficients "
                f"({list(known.coefficients)}), got {len(coefficients)}"
            )
        rows.append([float(known.type_id), *coefficients])
        names.append(str(thing.get("name", f"{known.name}_{i}")))
        counts[known.name] = counts.get(known.name, 0) + 1
    if create_new_store:
        group = create_store(store_path, **{"bounds": ([0.0] * 3, [1000.0] * 3), "geometry_types": ["point_cloud"], **(store_kwargs or {})})
    else:
        group = open_store(store_path, "r+")
    group._shared.check_writable()
    folder = group.path / "parametric"
    folder.mkdir(exist_ok=True)
    if rows:
        width = max(len(row) for row in rows)
        table = np.array([row + [float("nan")] * (width - len(row)) for row in rows])
        attributes = {"zv_array": "parametric_objects", "num_objects": len(rows), "max_row_length": width, "dtype": "float64"}
        _write_array(folder / "objects", table, attributes)
        _write_texts(folder / "names", [n.encode() for n in names], {"zv_array": "parametric_names", "num_objects": len(rows)})
    for family, columns in (("object_attributes", object_attributes), ("group_attributes", group_attributes)):
        for name, values in (columns or {}).items():
            array = np.asarray(values)
            (folder / family).mkdir(exist_ok=True)
            write_json(folder / family / "zarr.json", {"attributes": {}, "zarr_format": 3, "node_type": "group"})
            _write_array(folder / family / name, array, {"dtype": str(array.dtype), "shape": list(array.shape)})
    if groups:
        members = [np.array(groups.get(g, []), dtype=np.int64).tobytes() for g in range(max(groups) + 1)]
        _write_texts(folder / "groups", members, {"num_groups": len(members)})
    said = {str(t.type_id): {"name": t.name, "coefficients": list(t.coefficients)} for t in types}
    write_json(folder / "zarr.json", {"attributes": {"parametric_types": said}, "zarr_format": 3, "node_type": "group"})
    group._shared.changed()
    return {"object_count": len(rows), "type_counts": counts}


def _document(shape: Sequence[int], dtype: str, codec: Mapping[str, Any], fill: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(int(n), 1) for n in shape]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": [codec],
        "attributes": dict(attributes),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _write_array(folder: Path, array: np.ndarray, attributes: Mapping[str, Any]) -> None:
    cell = folder.joinpath("c", *["0"] * array.ndim)
    cell.parent.mkdir(parents=True, exist_ok=True)
    cell.write_bytes(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    fill: Any = False if array.dtype.kind == "b" else 0.0 if array.dtype.kind == "f" else 0
    write_json(folder / "zarr.json", _document(array.shape, str(array.dtype), {"name": "bytes", "configuration": {"endian": "little"}}, fill, attributes))


def _write_texts(folder: Path, texts: Sequence[bytes], attributes: Mapping[str, Any]) -> None:
    (folder / "c").mkdir(parents=True, exist_ok=True)
    blob = struct.pack("<I", len(texts)) + b"".join(struct.pack("<I", len(t)) + t for t in texts)
    (folder / "c" / "0").write_bytes(blob)
    write_json(folder / "zarr.json", _document([len(texts)], "variable_length_bytes", {"name": "vlen-bytes", "configuration": {}}, "", attributes))


def read_parametric_objects(store_path: Any, *, backend: str | None = None) -> list[dict[str, Any]]:
    """The parametric objects of a store, in order."""
    group = Group(shared_for(store_path, "r"))
    with translating(ArrayError):
        rows = group._shared.dataset()._native.parametric().wait()
    return [
        {
            "type": kind if kind is not None else f"unknown_{number}",
            "type_id": number,
            "coefficients": coefficients,
            "coefficient_names": called,
            "name": name or f"object_{i}",
        }
        for i, (kind, number, coefficients, called, name) in enumerate(rows)
    ]


__all__ = ["ParametricTypeDef", "read_parametric_objects", "write_parametric_objects"]
