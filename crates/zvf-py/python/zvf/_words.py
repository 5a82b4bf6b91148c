"""The words of a query, as the native half takes them, and options of commands."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UnknownNameError

if TYPE_CHECKING:
    from .datasets import Dataset

#: Every word that a query has.
WORDS = (
    "box",
    "half_open_box",
    "ball",
    "half_spaces",
    "prism",
    "mode",
    "objects",
    "groups",
    "where",
    "attributes",
    "order",
    "limit",
    "level",
    "kind",
    "unknown_objects",
    "allow_missing",
    "object_ids",
    "increment_only",
    "uncached",
    "places",
)


_UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9, "b": 1}


def byte_count(value: Any) -> int | None:
    """A number of bytes, or text such as ``"256KiB"``."""
    if value is None or isinstance(value, (int, np.integer)):
        return None if value is None else int(value)
    text = str(value).strip().lower()
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return int(float(text.removesuffix(unit)) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        raise ValueError(f"a number of bytes: expected one such as 65536 or '256KiB', found {value!r}") from None


def plain(dataset: Dataset, name: str, value: Any) -> Any:
    """The value of a word as the native half takes it."""
    make = _MAKERS.get(name)
    return value if make is None else make(dataset, name, value)


def _corner(name: str, value: Any) -> list[float]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise TypeError(f"{name}: expected a list of coordinates, found {value!r}")
    return [float(x) for x in array]


def _items(name: str, value: Any, count: int, expected: str) -> Any:
    """A value of so many items."""
    try:
        items = list(value)
    except TypeError:
        items = []
    if isinstance(value, (str, bytes, Mapping)) or len(items) != count:
        raise TypeError(f"{name}: expected {expected}, found {value!r}")
    return items


def _box(_: Dataset, name: str, value: Any) -> Any:
    low, high = _items(name, value, 2, "the lowest and the highest corner, such as ([0, 0, 0], [1, 1, 1])")
    return _corner(name, low), _corner(name, high)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, found {value!r}") from None


def _ball(_: Dataset, name: str, value: Any) -> Any:
    centre, radius = _items(name, value, 2, "a centre and a radius, such as ([0, 0, 0], 1.5)")
    return _corner(name, centre), _number(name, radius)


def _half_spaces(_: Dataset, name: str, value: Any) -> Any:
    expected = "pairs of a normal and an offset, such as [([1, 0, 0], 0.5)]"
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: expected {expected}, found {value!r}")
    pairs = [_items(name, pair, 2, expected) for pair in value]
    return [(_corner(name, normal), _number(name, offset)) for normal, offset in pairs]


def _prism(dataset: Dataset, name: str, value: Any) -> Any:
    expected = "an outline, the two axes it is on, and a lowest and a highest corner"
    outline, axes, limits = _items(name, value, 3, expected)
    points = np.asarray(outline)
    if points.dtype.kind not in "iuf" or points.ndim != 2 or points.shape[1] != 2:
        raise TypeError(f"{name}: expected the outline as pairs of coordinates, found {outline!r}")
    numbers = [operator.index(axis) for axis in _items(name, axes, 2, expected)]
    if any(not 0 <= axis < dataset.ndim for axis in numbers) or numbers[0] == numbers[1]:
        raise ValueError(f"{name}: expected two different axes from 0 to {dataset.ndim - 1}, found {axes!r}")
    return [[float(a), float(b)] for a, b in points], numbers, _box(dataset, name, limits)


def _objects(_: Dataset, name: str, value: Any) -> list[int]:
    array = np.asarray(sorted(value) if isinstance(value, (set, frozenset)) else value)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected whole numbers, found {array.dtype}")
    ids = [int(i) for i in array.ravel()]
    if ids and not (-(2**63) <= min(ids) and max(ids) < 2**63):
        raise ValueError(f"{name}: expected numbers of 64 bits, found {max(ids, key=abs)}")
    return ids


def _groups(dataset: Dataset, name: str, value: Any) -> list[int]:
    wanted = [value] if isinstance(value, (str, int, np.integer)) else list(value)
    names = list(dataset.groups) if any(isinstance(group, str) for group in wanted) else []
    found = []
    for group in wanted:
        if isinstance(group, str) and group not in names:
            known = ", ".join(names) or "none"
            raise UnknownNameError(f"there is no group {group!r}: there is {known}", class_name="InvalidArgument", op="query")
        found.append(names.index(group) if isinstance(group, str) else count_of(name, group))
    return found


def _attributes(_: Dataset, name: str, value: Any) -> list[str]:
    if not isinstance(value, str) and not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: expected names of columns, found {value!r}")
    names = [value] if isinstance(value, str) else [str(v) for v in value]
    if any("\0" in n for n in names):
        raise ValueError(f"{name}: a name has no zero byte")
    return names


def _level(_: Dataset, name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return value
    number = getattr(value, "number", value)
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{name}: expected a number, or zvf.max_vertices(n) and its like, found {value!r}") from None
    if not 0 <= number < 2**32:
        raise ValueError(f"{name}: expected a number from 0 on, found {number}")
    return number


def count_of(name: str, value: Any) -> int:
    """A number that counts something."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, found {value!r}") from None
    if number < 0:
        raise ValueError(f"{name}: expected no negative number, found {number}")
    return number


def _text(_: Dataset, name: str, value: Any) -> str:
    if not isinstance(value, str):
        hint = ', such as "mass > 3"' if name == "where" else ""
        raise TypeError(f"{name}: expected text{hint}, found {value!r}")
    return value


_MAKERS: Mapping[str, Any] = {
    "box": _box,
    "half_open_box": _box,
    "ball": _ball,
    "half_spaces": _half_spaces,
    "prism": _prism,
    "objects": _objects,
    "groups": _groups,
    "attributes": _attributes,
    "level": _level,
    "limit": lambda _, name, value: count_of(name, value),
    **dict.fromkeys(("where", "mode", "order", "kind", "unknown_objects"), _text),
}


def options(words: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as options of a command."""
    args: list[str] = []
    for name, value in words.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            args.append(option)
        elif isinstance(value, (list, tuple, np.ndarray)):
            args.append(f"{option}={','.join(str(v) for v in value)}")
        else:
            args.append(f"{option}={value}")
    return args
