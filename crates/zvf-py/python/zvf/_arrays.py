"""Arrays on their way in: contiguous, native, of a type that a store can hold; and on their way out: views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._losses import lose
from .errors import SpaceError, shown, wrong_type, wrong_value

_KINDS = "biuf"


def view(buffer: Any) -> np.ndarray:
    """The array that a buffer of the native half is; nothing is copied, and the buffer lives as long as it."""
    return np.asarray(buffer)


def as_array(value: Any, what: str) -> np.ndarray:
    """What was given as an array of NumPy; rows of different lengths are refused by the name of the argument."""
    if hasattr(value, "__cuda_array_interface__"):
        raise wrong_type(what, "an array in the memory of this machine", f"one on a device, {type(value).__name__}: copy it first, with .get() or .cpu()")
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


def is_missing(item: Any) -> bool:
    """Whether a row has no value: ``None``, NaN, or what pandas has for it."""
    return item is None or (isinstance(item, float) and item != item) or type(item).__name__ in ("NAType", "NaTType")


def _of_objects(array: np.ndarray, what: str) -> np.ndarray:
    """The numbers that an array of Python objects has; what is none is refused, and where."""
    flat = array.ravel().tolist()
    at = next((i for i, item in enumerate(flat) if isinstance(item, bool) or not isinstance(item, (int, float, np.number))), None)
    found = np.zeros(0) if at is not None or not flat else np.array(flat)
    if found.dtype.kind in "iu" or (len(found) and not any(isinstance(item, int) and abs(item) > 2**53 for item in flat)):
        return found.reshape(array.shape)
    lacks = at is not None and is_missing(flat[at])
    said = "none of them" if not flat else f"no value at {at}" if lacks else f"{shown(flat[at or 0])} at {at or 0}"
    raise wrong_type(what, "numbers of one type, not an array of Python objects", said)


def numbers(value: Any, what: str) -> np.ndarray:
    """An array of numbers in native byte order and C order; at most one copy is made."""
    array = as_array(value, what)
    if array.dtype.kind == "O":
        array = _of_objects(array, what)
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
        array = _of_objects(array, what)
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
    if array.dtype.kind in "iuf" and array.dtype.itemsize >= 8 and array.dtype != found.dtype and not _is_exact(array, found):
        lose(f"{what}: {array.dtype} is stored as {found.dtype}, which rounds some coordinates")
    if found.size and not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0][0])
        raise wrong_value(what, "finite coordinates", f"{found[row].tolist()} in row {row}")
    return found


def _is_exact(array: np.ndarray, found: np.ndarray) -> bool:
    """Whether no number became another one: floats have all whole numbers up to a power of 2, and not all beyond."""
    if array.dtype.kind == "f":
        return bool(np.array_equal(array, found.astype(array.dtype), equal_nan=True))
    most = 2 ** (np.finfo(found.dtype).nmant + 1)
    if not array.size or (int(array.max()) <= most and int(array.min()) >= -most):
        return True
    return all(int(a) == int(b) for a, b in zip(array.ravel().tolist(), found.ravel().tolist()))


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
    if array.dtype.kind == "O":
        array = _of_objects(array, what)
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


def named(what: str, value: Any, of: str = "names to arrays") -> dict[Any, Any]:
    """A mapping as it was given, or an empty one for nothing."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_type(what, f"a mapping of {of}", shown(value))
    return dict(value)


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


def _with_missing(value: Any, what: str) -> np.ndarray:
    """The values of one line, as objects where some are missing, so that those of all lines can be joined."""
    dtype = getattr(value, "dtype", np.dtype(float))
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "biu" and np.ma.is_masked(value):
        return np.array(value.tolist(), dtype=object)
    to_list = getattr(value, "to_pylist", None)
    if to_list is not None or not isinstance(dtype, np.dtype):
        items = list(value) if to_list is None else to_list()
        if any(is_missing(item) for item in items):
            return np.array(items, dtype=object)
    return as_array(value, what)


def column_of_lines(name: str, value: Any, cuts: np.ndarray) -> Any:
    """A column of lines: one array over all vertices, or one for each line."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O" and value.ndim and len(value) == cuts[-1]:
        return value
    expected = f"{cuts[-1]} rows, or an array for each of {len(cuts) - 1} lines"
    if not hasattr(value, "__len__"):
        raise wrong_type(f"column {name!r}", expected, shown(value))
    if len(value) == len(cuts) - 1:
        arrays = [_with_missing(v, f"column {name!r}") for v in value]
        if all(a.ndim and len(a) == n for a, n in zip(arrays, np.diff(cuts))):
            return np.concatenate(arrays)
    if len(value) == cuts[-1]:
        return as_array(value, f"column {name!r}")
    raise wrong_value(f"column {name!r}", expected, f"{len(value)} rows")
