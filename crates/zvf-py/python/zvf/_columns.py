"""Columns on their way in and out: what each type becomes in a store, and that it comes back as what it was.

```text
given                               stored                                   read by NumPy
numbers, truth values               as they are                              the same
  of them some missing              so, and NAME_valid; floats are NaN       a masked array; floats are NaN
text, categories of it              codes and categories                     text, None where there is none
categories of numbers               codes and categories                     the numbers
dates and times, datetime64         int64, "nanoseconds since 1970-01-01"    datetime64, in UTC
durations, timedelta64              int64, "nanoseconds", "duration"         timedelta64
times of day                        int64, "nanoseconds", "time of day"      timedelta64 since midnight
```

Everything that brings data goes through :func:`columns`, and there is one rule: what cannot be stored as it is raises, or is
named by ``_losses.lose``, which warns with :class:`zvf.LossWarning` and is an error where ``strict=True``.
Not here: positions and indices (``_arrays``), and what a thing is as geometry (``_pieces``).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _zvf
from ._arrays import as_array, given, is_missing, named, numbers
from ._losses import lose
from .errors import ArgumentError, ArgumentTypeError, shown, wrong_type, wrong_value

_UNITS = {"D": "days", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_SINCE = " since 1970-01-01"
_NONE = np.iinfo(np.int64).min  # what NumPy has for no time
_VALIDITY = "validity of "


class _Taken(NamedTuple):
    """A column as arrays of NumPy, from any library."""

    values: np.ndarray
    categories: list[Any] | None = None
    missing: np.ndarray | None = None  # where a row has no value
    meaning: str | None = None  # "datetime", "duration" or "time", a unit of NumPy, and maybe a zone


def columns(attributes: Mapping[str, Any] | list[dict[str, Any]] | None, rows: int | None, what: str = "attributes") -> list[dict[str, Any]]:
    """The columns of a mapping, as the native half takes them; what this returned is returned as it is."""
    if isinstance(attributes, list):
        for entry in attributes:
            raw, dtype, width = entry["array"]
            count = len(raw) // np.dtype(dtype).itemsize // width
            if rows is not None and count != rows:
                raise wrong_value(f"column {entry['name']!r}", f"{rows} rows", str(count))
        return attributes
    given_columns = named(what, attributes)
    found = [entry for name, value in given_columns.items() for entry in column(name, value, rows)]
    made = [entry["name"] for entry in found]
    for name in made:
        if made.count(name) > 1:
            raise ArgumentError(f"{what}: {name!r} says which rows of another column have a value: give yours another name")
    return found


def column(name: str, value: Any, rows: int | None) -> list[dict[str, Any]]:
    """A column as the native half takes it, and what says which rows have a value where it has such rows."""
    if not isinstance(name, str) or not name:
        raise wrong_type("the name of a column", "text", shown(name))
    what = f"column {name!r}"
    taken = _take(name, value, what)
    array, unit, description = taken.values, None, None
    if taken.meaning is not None:
        array, unit, description = _counted(taken, what)
    elif taken.missing is not None and array.dtype.kind == "f":
        array = np.where(taken.missing, np.array(np.nan, dtype=array.dtype), array)
    elif taken.missing is not None and array.ndim > 1:
        raise wrong_value(what, "no missing values among rows of several", f"the shape {array.shape}")
    if array.ndim > 2:
        lose(f"{what}: rows of the shape {array.shape[1:]} are stored as {int(np.prod(array.shape[1:]))} values each")
        array = array.reshape(array.shape[0], -1)
    if rows is not None and array.shape[0] != rows:
        raise wrong_value(what, f"{rows} rows", str(array.shape[0]))
    found = [_native(name, array, taken.categories, unit, description)]
    if taken.missing is not None and array.dtype.kind in "biu" and taken.categories is None and unit is None:
        found.append(_native(f"{name}_valid", ~taken.missing, None, None, _VALIDITY + name))
    return found


def _native(name: str, array: np.ndarray, categories: list[Any] | None, unit: str | None, description: str | None) -> dict[str, Any]:
    return {"name": name, "array": given(array), "categories": categories, "unit": unit, "description": description}


def _take(name: str, value: Any, what: str) -> _Taken:
    """A column of any library."""
    if isinstance(value, Read):
        return value.taken
    if isinstance(value, np.ma.MaskedArray):
        inner = _take_array(np.asarray(value.data), what)
        return _Taken(inner.values, inner.categories, np.ma.getmaskarray(value), inner.meaning)
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):
        own = getattr(value, "array", value)  # of a series of pandas
        if hasattr(own, "categories") and hasattr(own, "codes"):
            return _take_categories(np.asarray(own.codes), list(own.categories), bool(getattr(own, "ordered", False)), what)
        if getattr(dtype, "tz", None) is not None and hasattr(own, "tz_convert"):
            return _Taken(np.asarray(own.tz_convert(None)), meaning=_zoned(f"datetime {dtype.unit}", str(dtype.tz), what))
        if hasattr(dtype, "subtype") and hasattr(dtype, "fill_value"):  # a sparse one
            return _take_array(np.asarray(value), what)
        if hasattr(dtype, "freq") or hasattr(dtype, "closed"):
            raise wrong_type(what, "a type with one value a row", f"{dtype}: write its start, and its end, as columns")
        if hasattr(dtype, "numpy_dtype") and not hasattr(dtype, "pyarrow_dtype"):  # numbers of pandas with a mask
            missing = np.asarray(value.isna(), dtype=bool)
            return _Taken(numbers(value.to_numpy(dtype=dtype.numpy_dtype, na_value=0), what), missing=missing)
    if dtype is None or not isinstance(dtype, np.dtype):
        if hasattr(value, "__arrow_array__") and not hasattr(value, "__arrow_c_stream__"):
            value = value.__arrow_array__()  # an array of pandas that is one of Arrow
        if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
            try:
                return _take_arrow(_zvf.read_arrow_column(name, value), what)
            except ImportError:  # a series of pandas speaks Arrow through pyarrow
                value = value.to_numpy()
    array = as_array(value, what)
    if isinstance(value, (list, tuple)) and array.dtype.kind == "f" and array.ndim == 1:
        if beyond := next((item for item in value if isinstance(item, int) and abs(item) > 2**53), None):
            raise wrong_value(what, "whole numbers, or floats", f"both, and {beyond} is no float: give None where there is no value")
    if isinstance(value, (list, tuple)) and array.dtype.kind == "U" and array.ndim == 1 and not all(isinstance(item, str) for item in value):
        array = np.array(value, dtype=object)  # NumPy made text of numbers
    return _take_array(array, what)


def arrow_table(table: Any) -> dict[str, Any]:
    """The columns of a table that speaks Arrow, by name, for :func:`columns`."""
    found: dict[str, Any] = {}
    for read in _zvf.read_arrow(table):
        if read[0] in found:
            raise ArgumentError(f"the table has two columns {read[0]!r}")
        found[read[0]] = Read(_take_arrow(read, f"column {read[0]!r}"))
    return found


class Read:
    """A column that is read already, which NumPy sees as an array."""

    def __init__(self, taken: _Taken) -> None:
        self.taken = taken

    def __len__(self) -> int:
        return len(self.taken.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        taken = self.taken
        if taken.missing is not None and taken.missing.any() and taken.meaning is None:
            raise ValueError("some rows have no value")
        values = taken.values if taken.categories is None else _decoded(taken.values, taken.categories)
        return np.asarray(values, dtype=dtype)


def _take_arrow(read: tuple[Any, ...], what: str) -> _Taken:
    _, buffer, categories, present, meaning = read
    values = np.asarray(buffer)
    if meaning is not None:
        base, unit, *zone = meaning.split(" ", 2)
        meaning = _zoned(f"{base} {unit}", zone[0], what) if zone else meaning
    if categories is not None and not isinstance(categories, list):
        table = np.asarray(categories)
        if meaning is not None or table.ndim > 1 or len(np.unique(table)) < len(table):  # no categories but packed values
            missing = values < 0
            return _Taken(table[values] if len(table) else np.zeros(len(values), table.dtype), None, missing if missing.any() else None, meaning)
        categories = table.tolist()
    return _Taken(values, categories, None if present is None else ~np.asarray(present), meaning)


def _zoned(meaning: str, zone: str, what: str) -> str:
    if zone.upper() not in ("UTC", "+00:00", "ETC/UTC", "Z"):
        lose(f"{what}: the moments are stored in UTC, and the zone {zone} is not")
    return f"{meaning} UTC"


def _take_categories(codes: np.ndarray, categories: list[Any], is_ordered: bool, what: str) -> _Taken:
    if is_ordered:
        lose(f"{what}: categories are stored, and not that they have an order")
    categories = [c.item() if isinstance(c, np.generic) else c for c in categories]
    codes = np.ascontiguousarray(codes, dtype=np.int32)
    if all(isinstance(c, str) for c in categories) or all(isinstance(c, (bool, int, float)) for c in categories):
        return _Taken(codes, categories)
    if all(hasattr(c, "left") and hasattr(c, "right") for c in categories):
        lose(f"{what}: intervals are stored as text")
        return _Taken(codes, [str(c) for c in categories])
    table = np.empty(len(categories) + 1, dtype=object)
    table[:-1] = categories
    return _take_array(table[codes], what)


def _take_array(array: np.ndarray, what: str) -> _Taken:
    """An array of NumPy."""
    if array.ndim == 0:
        raise wrong_value(what, "one row for each", f"a single value, {shown(array.item())}")
    kind = array.dtype.kind
    if kind == "O":
        return _take_objects(array, what)
    if kind in "UST":
        if kind == "S":
            try:
                array = np.char.decode(array, "utf-8")
            except UnicodeDecodeError as error:
                raise wrong_value(what, "text of UTF-8", str(error)) from None
        return _take_text(array.ravel().tolist(), array.shape)
    if kind in "mM":
        return _take_times(array, what)
    if kind == "c":
        raise wrong_type(what, "numbers", f"{array.dtype}: give .real and .imag as two columns")
    if kind == "V" and array.dtype.names:
        raise wrong_type(what, "numbers", f"fields {', '.join(array.dtype.names)}: give each as a column")
    return _Taken(numbers(array, what))


def _take_times(array: np.ndarray, what: str, zone: str = "") -> _Taken:
    unit = np.datetime_data(array.dtype)[0]
    known = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}.get(unit, unit)
    if known not in _UNITS or (array.dtype.kind == "m" and unit in ("Y", "M")):
        raise wrong_type(what, "times of days to nanoseconds", f"{array.dtype}: give it another unit, with .astype")
    known = "s" if array.dtype.kind == "m" and known == "D" else known
    array = array.astype(f"{array.dtype.kind}8[{known}]")
    return _Taken(array, meaning=f"{'datetime' if array.dtype.kind == 'M' else 'duration'} {known}{zone}")


def _take_text(words: list[Any], shape: tuple[int, ...]) -> _Taken:
    """Text as codes of its different words in their order, -1 where a row has none."""
    known: dict[Any, int] = {}
    first = np.fromiter((known.setdefault(word, len(known)) for word in words), dtype=np.int32, count=len(words))
    present = sorted(word for word in known if isinstance(word, str))
    place = np.full(len(known) + 1, -1, dtype=np.int32)
    place[[known[word] for word in present]] = np.arange(len(present), dtype=np.int32)
    return _Taken(np.ascontiguousarray(place[first].reshape(shape)), [str(word) for word in present])


def _take_objects(array: np.ndarray, what: str) -> _Taken:
    """Python objects of one type, of which some may be missing."""
    flat = array.ravel().tolist()
    kinds = {type(item) for item in flat}
    lacks = np.fromiter((is_missing(item) for item in flat), dtype=bool, count=len(flat)) if kinds - {str} else np.zeros(len(flat), dtype=bool)
    there = [item for item, missing in zip(flat, lacks) if not missing] if lacks.any() else flat

    def all_are(*types: type) -> bool:
        return bool(there) and all(isinstance(item, types) for item in there)

    missing = lacks.reshape(array.shape) if lacks.any() else None
    if all_are(str):
        return _take_text(flat, array.shape)
    if all_are(bool, np.bool_):
        return _Taken(np.array([bool(item) and not gone for item, gone in zip(flat, lacks)]).reshape(array.shape), missing=missing)
    if all_are(int, np.integer) and not any(isinstance(item, bool) for item in there):
        low, high = min(there), max(there)
        if low < _NONE or high >= 2**64 or (low < 0 and high >= 2**63):
            raise wrong_value(what, "whole numbers of 64 bits", str(high if high >= 2**63 else low))
        dtype = np.int64 if high < 2**63 else np.uint64
        return _Taken(np.array([0 if gone else int(item) for item, gone in zip(flat, lacks)], dtype=dtype).reshape(array.shape), missing=missing)
    if all_are(int, float, np.number) and all(not isinstance(item, (int, np.integer)) or abs(int(item)) <= 2**53 for item in there) and not all_are(bool):
        if not any(isinstance(item, bool) for item in there):
            return _Taken(np.array([np.nan if gone else float(item) for item, gone in zip(flat, lacks)]).reshape(array.shape))
    if all_are(datetime.datetime) or all_are(datetime.date) or all_are(np.datetime64):
        return _take_moments(flat, lacks, what, array.shape)
    if all_are(datetime.timedelta) or all_are(np.timedelta64):
        spans = [np.timedelta64("NaT") if gone else getattr(item, "to_timedelta64", lambda i=item: np.timedelta64(i))() for item, gone in zip(flat, lacks)]
        return _take_times(np.array(spans).reshape(array.shape), what)
    if all_are(datetime.time):
        if any(item.tzinfo is not None for item in there):
            raise wrong_type(what, "times of day without a zone", shown(there[0]))
        counts = [_NONE if gone else ((item.hour * 60 + item.minute) * 60 + item.second) * 10**6 + item.microsecond for item, gone in zip(flat, lacks)]
        return _Taken(np.array(counts, dtype=np.int64).reshape(array.shape), meaning="time us")
    if all_are(list, tuple, np.ndarray) and array.ndim == 1 and len({len(item) for item in there}) == 1 and missing is None:
        inner = as_array([list(item) for item in there], what)
        if inner.dtype.kind != "O":
            return _take_array(inner, what)
    raise _objects_found(flat, there, what)


def _take_moments(flat: list[Any], lacks: np.ndarray, what: str, shape: tuple[int, ...]) -> _Taken:
    """Dates, or moments, which are stored in UTC where they have a zone."""
    zones = {getattr(item, "tzinfo", None) for item, gone in zip(flat, lacks) if not gone}
    if len(zones) > 1 and None in zones:
        raise wrong_value(what, "moments with a zone, or without", "both")
    zone = ""
    if None not in zones:
        zone = _zoned("", ", ".join(sorted({str(zone) for zone in zones})), what)
        flat = [item if gone else item.astimezone(datetime.timezone.utc).replace(tzinfo=None) for item, gone in zip(flat, lacks)]

    def moment(item: Any) -> Any:
        return item.to_datetime64() if hasattr(item, "to_datetime64") else np.datetime64(item)

    moments = [np.datetime64("NaT") if gone else moment(item) for item, gone in zip(flat, lacks)]
    return _take_times(np.array(moments).reshape(shape), what, zone)


def _objects_found(flat: list[Any], there: list[Any], what: str) -> ArgumentTypeError:
    """The exception for objects that no column can have: which, where, and what to give instead."""
    from decimal import Decimal

    expected = "numbers of one type, text or times, not an array of Python objects"
    if not there:
        found = "none of them: no row has a value, so that the column has no type" if flat else "none of them"
        return wrong_type(what, expected, found)
    if any(isinstance(item, Decimal) for item in there):
        hint = "give floats where rounding is no harm, or whole numbers of the smallest unit"
        return wrong_type(what, expected, f"{shown(there[0])}: {hint}")
    plain = (int, float, np.number)
    at = next((i for i, item in enumerate(flat) if not is_missing(item) and (isinstance(item, bool) or not isinstance(item, plain))), 0)
    return wrong_type(what, expected, f"{shown(flat[at])} at {at}")


def _counted(taken: _Taken, what: str) -> tuple[np.ndarray, str, str | None]:
    """Times as what they count, the unit, and what they are."""
    base, unit, *zone = (taken.meaning or "").split(" ")
    counts = np.ascontiguousarray(taken.values).astype(np.int64)
    if base == "time" and unit in ("s", "ms"):
        gone = counts == _NONE
        counts, unit = np.where(gone, _NONE, counts * (10**6 if unit == "s" else 10**3)), "us"
    if taken.missing is not None:
        counts = np.where(taken.missing, _NONE, counts)
    if base == "datetime":
        return counts, _UNITS[unit] + _SINCE + "".join(f" {z}" for z in zone), None
    return counts, _UNITS[unit], "duration" if base == "duration" else "time of day"


def fitted(entries: list[dict[str, Any]], known: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    """The columns of a later piece as those of the first ones are: codes of the same categories, and what says which rows have a value.

    ``known`` has the categories of a column, which grow, and by the name of what would say so whether some rows may have no value.
    """
    names = {entry["name"] for entry in entries}
    for entry in list(entries):
        name, categories, validity = entry["name"], entry["categories"], f"{entry['name']}_valid"
        if (entry["description"] or "").startswith(_VALIDITY):
            continue
        before = known.setdefault(validity, validity in names)
        if before and validity not in names:
            entries.append(_native(validity, np.ones(rows, dtype=bool), None, None, _VALIDITY + name))
        elif validity in names and not before:
            raise ArgumentError(f"column {name!r}: rows without a value, and none were among those before: begin with a masked array, numpy.ma")
        if categories is None:
            continue
        if categories != known.setdefault(name, categories):
            more = set(known[name])
            known[name] = [*known[name], *(c for c in categories if c not in more)]
            place = {category: code for code, category in enumerate(known[name])}
            raw, dtype, width = entry["array"]
            codes = np.array([*(place[c] for c in categories), -1], dtype=np.int32)[raw.view(dtype).astype(np.int64)]
            entry.update(array=(codes.view(np.uint8), codes.dtype.name, width), categories=known[name])
    return entries


def flagged(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns of objects, whose text and times have no room for "no value": a column says which rows have one, as it does for numbers."""
    found = []
    for entry in entries:
        raw, dtype, width = entry["array"]
        name, values, words = entry["name"], raw.view(dtype), entry["categories"]
        lacks = np.zeros(len(values), dtype=bool)
        if words is not None:
            lacks, at = values < 0, words.index("") if "" in words else -1
            if at >= 0 and (values == at).any():
                lose(f"column {name!r}: empty text of an object is stored as no value")
                lacks |= values == at
        elif times_of(values.dtype, entry["unit"], entry["description"]) is not None:
            lacks = values == _NONE
        if lacks.any():
            if width > 1:
                raise wrong_value(f"column {name!r}", "no missing values among rows of several", f"{width} values a row")
            stand_in = values[~lacks][0] if not lacks.all() else values.dtype.type(0)
            found.append(_native(f"{name}_valid", ~lacks, None, None, _VALIDITY + name))
            entry = {**entry, "array": given(np.where(lacks, stand_in, values)), "categories": [" "] if words is not None and lacks.all() else words}
        found.append(entry)
    return found


def validity_of(fields: Mapping[str, tuple[Any, str | None]]) -> dict[str, str]:
    """What says which rows have a value, by the column that it is about; ``fields`` are types and descriptions by name."""
    found = {}
    for name, (dtype, description) in fields.items():
        own, of = (description or "").partition(_VALIDITY)[2], name.removesuffix("_valid")
        if own and dtype == "bool" and of != name and of.endswith(own) and of in fields:
            found[of] = name
    return found


def times_of(dtype: Any, unit: str | None, description: str | None) -> str | None:
    """The type of NumPy that numbers with this unit and description are, if they are times."""
    counted, since, zone = (unit or "").partition(_SINCE)
    name = next((short for short, long in _UNITS.items() if long == counted), None)
    if dtype != np.int64 or name is None:
        return None
    if since:
        return f"M8[{name}]" if zone in ("", " UTC") else None
    return f"m8[{name}]" if description in ("duration", "time of day") else None


def _decoded(codes: np.ndarray, categories: list[Any]) -> np.ndarray:
    """The values of codes; numbers are an array of numbers again, masked where there is none."""
    are_numbers = bool(categories) and all(isinstance(value, (bool, int, float)) for value in categories)
    if not are_numbers and codes.size and codes.min() >= -1 and codes.max() < len(categories):
        return np.array([*categories, None], dtype=object)[codes]  # -1 is the last one
    wanted = codes.astype(np.int64)
    gone = (wanted < 0) | (wanted >= len(categories))
    if are_numbers:
        found = np.array(categories)[np.where(gone, 0, wanted)]
        if not gone.any():
            return found
        return np.where(gone, np.nan, found) if found.dtype.kind == "f" else np.ma.masked_array(found, mask=gone)
    return np.array([*categories, None], dtype=object)[np.where(gone, len(categories), wanted)]


def restored(codes: np.ndarray, entry: tuple[Any, ...], valid: np.ndarray | None) -> np.ndarray:
    """A column as it was written, from its stored values, its attributes, and which rows have one."""
    _, _, categories, unit, description = entry
    if categories is not None:
        decoded = _decoded(codes, categories[0])
        if valid is None:
            return decoded
        return np.where(valid, decoded, np.array(None, dtype=object)) if decoded.dtype.kind == "O" else np.ma.masked_array(decoded, mask=~valid)
    times = times_of(codes.dtype, unit, description)
    if times is not None:
        return codes.view(times) if valid is None else np.where(valid, codes, _NONE).view(times)
    if valid is not None and codes.dtype.kind == "U":
        return np.where(valid, codes.astype(object), np.array(None, dtype=object))
    return codes if valid is None else np.ma.masked_array(codes, mask=~valid)
