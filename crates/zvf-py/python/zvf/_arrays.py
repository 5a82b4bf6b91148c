"""Arrays on their way in: contiguous, native, of a type that a store can hold; and on their way out: views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import ArgumentTypeError, SpaceError, shown, wrong_type, wrong_value

_KINDS = "biuf"


def view(buffer: Any) -> np.ndarray:
    """The array that a buffer of the native half is; nothing is copied, and the buffer lives as long as it."""
    return np.asarray(buffer)


def as_array(value: Any, what: str) -> np.ndarray:
    """What was given as an array of NumPy; rows of different lengths are refused by the name of the argument."""
    if hasattr(value, "__iter__") and not any(hasattr(value, name) for name in ("__getitem__", "__array__", "__array_interface__")):
        value = list(value)  # a set, or what yields its items one by one
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        if value.dtype.kind != "f":
            raise wrong_value(what, "no masked values but of floats, where NaN stands for one", f"{np.ma.count_masked(value)} of {value.dtype}")
        value = value.filled(np.nan)
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise wrong_value(what, "an array, or lists whose rows have one length", f"{shown(value)}: {error}") from None


def _objects_found(array: np.ndarray, what: str) -> ArgumentTypeError:
    """The exception for an array of Python objects: which of them is no number, and where."""
    flat = array.ravel()
    at = next((i for i, item in enumerate(flat) if isinstance(item, bool) or not isinstance(item, (int, float, np.number))), 0)
    found = f"{shown(flat[at])} at {at}" if len(flat) else "none of them"
    hint = ": NaN stands for a number that is missing" if len(flat) and _is_missing(flat[at]) else ""
    return wrong_type(what, "numbers of one type, not an array of Python objects", f"{found}{hint}")


def numbers(value: Any, what: str) -> np.ndarray:
    """An array of numbers in native byte order and C order; at most one copy is made."""
    array = as_array(value, what)
    if array.dtype.kind == "O":
        raise _objects_found(array, what)
    if array.dtype.kind not in _KINDS:
        hint = ": write them as numbers, with .astype('int64')" if array.dtype.kind in "mM" else ""
        raise wrong_type(what, "numbers", f"{array.dtype}{hint}")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (2, 4, 8):
        raise wrong_type(what, "floats of 16, 32 or 64 bits", str(array.dtype))
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def positions(value: Any, what: str = "positions", dtype: Any = None) -> np.ndarray:
    """Positions as a two-dimensional array of float32 or float64."""
    array = as_array(value, what)
    if array.dtype.kind == "O":
        raise _objects_found(array, what)
    if array.dtype.kind not in _KINDS:
        raise wrong_type(what, "numbers", str(array.dtype))
    if array.ndim != 2:
        raise wrong_value(what, "two axes, rows and coordinates", f"the shape {array.shape}")
    if not 1 <= array.shape[1] <= 8:
        raise wrong_value(what, "1 to 8 coordinates a row", str(array.shape[1]))
    if dtype is None:
        dtype = array.dtype if array.dtype.newbyteorder("=") in (np.float32, np.float64) else np.float64
        if array.dtype.kind == "f" and array.dtype.itemsize == 2:
            dtype = np.float32
    found = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("="))
    if found.size and not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0][0])
        raise wrong_value(what, "finite coordinates", f"{found[row].tolist()} in row {row}")
    return found


def given(array: np.ndarray) -> tuple[np.ndarray, str, int]:
    """An array as the native half takes it: bytes, type, values a row."""
    width = 1
    for extent in array.shape[1:]:
        width *= extent
    if width == 0:
        raise wrong_value("a column", "at least one value a row", f"the shape {array.shape}")
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8), array.dtype.name, width


def indices(value: Any, what: str, below: int | None = None) -> np.ndarray:
    """An array of whole numbers as int64, none negative, and all below ``below``."""
    array = as_array(value, what)
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise wrong_type(what, "whole numbers", str(array.dtype))
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) > np.iinfo(np.int64).max:
        raise wrong_value(what, "numbers of 63 bits", str(array.max()))
    array = np.ascontiguousarray(array, dtype=np.int64)
    low, high = int(array.min()), int(array.max())
    if low < 0:
        raise wrong_value(what, "no negative numbers", str(low))
    if below is not None and high >= below:
        raise wrong_value(what, f"numbers below {below}", str(high))
    return array


_MOST_IDS = 1 << 28  # of a range that a store has in a few bytes


def ids_between(span: Sequence[int], what: str) -> np.ndarray:
    """The ids from the first of ``span`` to below the second."""
    low, high = span
    if high - low > _MOST_IDS:
        raise SpaceError(f"{what}: expected at most {_MOST_IDS} ids, found {high - low}", class_name="LimitExceeded", op="read")
    return np.arange(low, high, dtype=np.int64)


def column(name: str, value: Any, rows: int | None, unit: str | None = None, description: str | None = None) -> dict[str, Any]:
    """A column as the native half takes it; text becomes categories."""
    if not isinstance(name, str) or not name:
        raise wrong_type("the name of a column", "text", shown(name))
    categories: list[str] | None = None
    if hasattr(value, "categories") and hasattr(value, "codes"):  # pandas.Categorical
        categories = [str(c) for c in value.categories]
        array = np.ascontiguousarray(value.codes, dtype=np.int32)
    else:
        array = as_array(value, f"column {name!r}")
        if array.ndim == 0:
            raise wrong_value(f"column {name!r}", "one row for each", f"a single value, {shown(value)}")
        if array.dtype.kind in "UST" or (array.dtype.kind == "O" and _is_text(array)):
            array, categories = _categories(array, f"column {name!r}")
        else:
            array = numbers(array, f"column {name!r}")
    if array.ndim > 2:
        array = array.reshape(array.shape[0], -1)
    if rows is not None and array.shape[0] != rows:
        raise wrong_value(f"column {name!r}", f"{rows} rows", str(array.shape[0]))
    return {
        "name": name,
        "array": given(array),
        "categories": categories,
        "unit": unit,
        "description": description,
    }


def _is_missing(word: Any) -> bool:
    """Whether a row has no text: ``None``, NaN as pandas has it, or its ``NA``."""
    return word is None or (isinstance(word, float) and word != word) or type(word).__name__ == "NAType"


def _is_text(array: np.ndarray) -> bool:
    """Whether an array of Python objects is text, which some rows may lack."""
    words = [word for word in array.flat if not _is_missing(word)]
    return bool(words) and all(isinstance(word, str) for word in words)


def _categories(array: np.ndarray, what: str) -> tuple[np.ndarray, list[str]]:
    """Text as codes of its different words, -1 where a row has none, and these words."""
    try:
        flat = list(np.char.decode(array, "utf-8").ravel() if array.dtype.kind == "S" else array.ravel())
    except UnicodeDecodeError as error:
        raise wrong_value(what, "text of UTF-8", str(error)) from None
    missing = np.array([_is_missing(word) for word in flat], dtype=bool)
    plain = np.array(["" if lacks else word for word, lacks in zip(flat, missing)], dtype=str)
    words, codes = np.unique(plain, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int32)
    if missing.any():
        present = np.unique(codes[~missing])  # the text that stands for nothing is no category
        codes = np.where(missing, -1, np.searchsorted(present, codes)).astype(np.int32)
        words = words[present]
    return np.ascontiguousarray(codes.reshape(array.shape)), [str(word) for word in words]


def named(what: str, value: Any, of: str = "names to arrays") -> dict[Any, Any]:
    """A mapping as it was given, or an empty one for nothing."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_type(what, f"a mapping of {of}", shown(value))
    return dict(value)


def columns(attributes: Mapping[str, Any] | None, rows: int | None, what: str = "attributes") -> list[dict[str, Any]]:
    """The columns of a mapping."""
    return [column(name, value, rows) for name, value in named(what, attributes).items()]


def sizes(what: str, value: Any, ndim: int) -> list[float]:
    """A size of each axis: one number for all of them, or one for each."""
    expected = f"a size above 0, or one for each of {ndim} axes"
    array = as_array(value, what)
    if array.dtype.kind not in "iuf":
        raise wrong_type(what, expected, shown(value))
    if array.ndim > 1 or array.shape not in ((), (1,), (ndim,)):
        raise wrong_value(what, expected, shown(value))
    found = np.broadcast_to(array.astype(np.float64), (ndim,))
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise wrong_value(what, expected, shown(value))
    return [float(x) for x in found]


def join_lines(lines: Sequence[Any], dtype: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Many arrays of positions as one, and the offsets of each in it."""
    if isinstance(lines, (str, bytes, Mapping)) or not hasattr(lines, "__iter__"):
        raise wrong_type("lines", "arrays of positions, one for each line", shown(lines))
    parts = [positions(line, f"line {i}", dtype) for i, line in enumerate(lines)]
    if not parts:
        raise wrong_value("lines", "at least one", "none")
    axes = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != axes:
            raise wrong_value(f"line {i}", f"{axes} coordinates a row as the first line has", str(part.shape[1]))
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    kind = np.result_type(*{part.dtype for part in parts})
    return np.concatenate(parts).astype(kind, copy=False), offsets


def column_of_lines(name: str, value: Any, cuts: np.ndarray) -> Any:
    """A column of lines: one array over all vertices, or one for each line."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O" and value.ndim and len(value) == cuts[-1]:
        return value
    expected = f"{cuts[-1]} rows, or an array for each of {len(cuts) - 1} lines"
    if not hasattr(value, "__len__"):
        raise wrong_type(f"column {name!r}", expected, shown(value))
    if len(value) == len(cuts) - 1:
        arrays = [as_array(v, f"column {name!r}") for v in value]
        if all(a.ndim and len(a) == n for a, n in zip(arrays, np.diff(cuts))):
            return np.concatenate(arrays)
    if len(value) == cuts[-1]:
        return as_array(value, f"column {name!r}")
    raise wrong_value(f"column {name!r}", expected, f"{len(value)} rows")
