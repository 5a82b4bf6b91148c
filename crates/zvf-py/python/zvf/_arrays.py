"""Arrays on their way in: contiguous, native, of a type that a store can hold; and on their way out: views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_KINDS = "biuf"


def view(buffer: Any) -> np.ndarray:
    """The array that a buffer of the native half is; nothing is copied, and the buffer lives as long as it."""
    return np.asarray(buffer)


def numbers(value: Any, what: str) -> np.ndarray:
    """An array of numbers in native byte order and C order; at most one copy is made."""
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise TypeError(f"{what}: an array of Python objects; give numbers of one type")
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"{what}: expected numbers, found {array.dtype}")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (2, 4, 8):
        raise TypeError(f"{what}: {array.dtype} cannot be stored; use float64")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def positions(value: Any, what: str = "positions", dtype: Any = None) -> np.ndarray:
    """Positions as a two-dimensional array of float32 or float64."""
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise TypeError(f"{what}: an array of Python objects; give numbers of one type")
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"{what}: expected numbers, found {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{what}: expected two axes, rows and coordinates, found the shape {array.shape}")
    if not 1 <= array.shape[1] <= 8:
        raise ValueError(f"{what}: expected 1 to 8 coordinates a row, found {array.shape[1]}")
    if dtype is None:
        dtype = array.dtype if array.dtype.newbyteorder("=") in (np.float32, np.float64) else np.float64
        if array.dtype.kind == "f" and array.dtype.itemsize == 2:
            dtype = np.float32
    found = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("="))
    if found.size and not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0][0])
        raise ValueError(f"{what}: expected finite coordinates, found {found[row].tolist()} in row {row}")
    return found


def given(array: np.ndarray) -> tuple[np.ndarray, str, int]:
    """An array as the native half takes it: bytes, type, values a row."""
    width = 1
    for extent in array.shape[1:]:
        width *= extent
    if width == 0:
        raise ValueError(f"a column without values a row: the shape is {array.shape}")
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8), array.dtype.name, width


def indices(value: Any, what: str, below: int | None = None) -> np.ndarray:
    """An array of whole numbers as int64, none negative, and all below ``below``."""
    array = np.asarray(value)
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what}: expected whole numbers, found {array.dtype}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{what}: expected numbers of 63 bits, found {array.max()}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    low, high = int(array.min()), int(array.max())
    if low < 0:
        raise ValueError(f"{what}: expected no negative numbers, found {low}")
    if below is not None and high >= below:
        raise ValueError(f"{what}: expected numbers below {below}, found {high}")
    return array


def column(name: str, value: Any, rows: int | None, unit: str | None = None, description: str | None = None) -> dict[str, Any]:
    """A column as the native half takes it; text becomes categories."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a column: expected text, found {name!r}")
    categories: list[str] | None = None
    if hasattr(value, "categories") and hasattr(value, "codes"):  # pandas.Categorical
        categories = [str(c) for c in value.categories]
        array = np.ascontiguousarray(value.codes, dtype=np.int32)
    else:
        array = np.asarray(value)
        if array.dtype.kind in "UST" or (array.dtype.kind == "O" and _is_text(array)):
            flat = list(array.ravel())
            missing = np.array([word is None for word in flat])
            plain = np.array(["" if word is None else word for word in flat], dtype=str)
            words, codes = np.unique(plain, return_inverse=True)
            codes = codes.reshape(-1).astype(np.int32)
            if missing.any():
                present = np.unique(codes[~missing])  # the text that stands for nothing is no category
                codes = np.where(missing, -1, np.searchsorted(present, codes)).astype(np.int32)
                words = words[present]
            categories = [str(word) for word in words]
            array = np.ascontiguousarray(codes.reshape(array.shape))
        else:
            array = numbers(array, f"column {name!r}")
    if array.ndim == 0:
        raise ValueError(f"column {name!r}: expected one row for each, found a single value")
    if array.ndim > 2:
        array = array.reshape(array.shape[0], -1)
    if rows is not None and array.shape[0] != rows:
        raise ValueError(f"column {name!r}: expected {rows} rows, found {array.shape[0]}")
    return {
        "name": name,
        "array": given(array),
        "categories": categories,
        "unit": unit,
        "description": description,
    }


def _is_text(array: np.ndarray) -> bool:
    words = [word for word in array.flat if word is not None]
    return bool(words) and all(isinstance(word, str) for word in words)


def columns(attributes: Mapping[str, Any] | None, rows: int | None) -> list[dict[str, Any]]:
    """The columns of a mapping."""
    if attributes is None:
        return []
    if not isinstance(attributes, Mapping):
        raise TypeError(f"attributes: expected a mapping of names to arrays, found {type(attributes).__name__}")
    return [column(name, value, rows) for name, value in attributes.items()]


def join_lines(lines: Sequence[Any], dtype: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Many arrays of positions as one, and the offsets of each in it."""
    parts = [positions(line, f"line {i}", dtype) for i, line in enumerate(lines)]
    if not parts:
        raise ValueError("lines: expected at least one")
    axes = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != axes:
            raise ValueError(f"line {i}: expected {axes} coordinates a row as the first line has, found {part.shape[1]}")
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    kind = np.result_type(*{part.dtype for part in parts})
    return np.concatenate(parts).astype(kind, copy=False), offsets
