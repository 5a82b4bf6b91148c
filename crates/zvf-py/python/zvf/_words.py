"""The words of a query, as the native half takes them, and options of commands."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import as_array
from .errors import UnknownNameError, shown, wrong_type, wrong_value

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


def byte_count(name: str, value: Any) -> int | None:
    """A number of bytes, or text such as ``"256KiB"``."""
    expected = "a number of bytes, such as 65536 or '256KiB'"
    if value is None:
        return None
    if not isinstance(value, (int, float, str, np.integer, np.floating)) or isinstance(value, bool):
        raise wrong_type(name, expected, shown(value))
    text = str(value).strip().lower()
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        count = int(text) if isinstance(value, (int, np.integer)) else int(float(text.removesuffix(unit)) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        raise wrong_value(name, expected, shown(value)) from None
    if not 0 <= count < 2**63:
        raise wrong_value(name, expected, shown(value))
    return count


def plain(dataset: Dataset, name: str, value: Any) -> Any:
    """The value of a word as the native half takes it."""
    make = _MAKERS.get(name)
    return value if make is None else make(dataset, name, value)


def corner(name: str, value: Any) -> list[float]:
    """Coordinates of one point."""
    if type(value) in (list, tuple) and all(type(x) is float or (type(x) is int and abs(x) < 2**63) for x in value):
        return [float(x) for x in value]  # an array of numpy takes longer than the rest of a small question
    array = as_array(value, name)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise wrong_type(name, "a list of coordinates", shown(value))
    return [float(x) for x in array.tolist()]


def items_of(name: str, value: Any, count: int, expected: str) -> Any:
    """A value of so many items."""
    try:
        items = list(value)
    except TypeError:
        items = []
    if isinstance(value, (str, bytes, Mapping)) or len(items) != count:
        raise wrong_type(name, expected, shown(value))
    return items


def corners(name: str, value: Any) -> tuple[list[float], list[float]]:
    """The lowest and the highest corner of a box."""
    low, high = items_of(name, value, 2, "the lowest and the highest corner, such as ([0, 0, 0], [1, 1, 1])")
    return corner(name, low), corner(name, high)


def _box(_: Dataset, name: str, value: Any) -> Any:
    return corners(name, value)


def number_of(name: str, value: Any) -> float:
    """A number, with a fraction or without."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise wrong_type(name, "a number", shown(value)) from None


def _ball(_: Dataset, name: str, value: Any) -> Any:
    centre, radius = items_of(name, value, 2, "a centre and a radius, such as ([0, 0, 0], 1.5)")
    return corner(name, centre), number_of(name, radius)


def _half_spaces(_: Dataset, name: str, value: Any) -> Any:
    expected = "pairs of a normal and an offset, such as [([1, 0, 0], 0.5)]"
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise wrong_type(name, expected, shown(value))
    pairs = [items_of(name, pair, 2, expected) for pair in value]
    return [(corner(name, normal), number_of(name, offset)) for normal, offset in pairs]


def _prism(dataset: Dataset, name: str, value: Any) -> Any:
    expected = "an outline, the two axes it is on, and a lowest and a highest corner"
    outline, axes, limits = items_of(name, value, 3, expected)
    points = as_array(outline, name)
    if points.dtype.kind not in "iuf" or points.ndim != 2 or points.shape[1] != 2:
        raise wrong_type(name, "the outline as pairs of coordinates", shown(outline))
    numbers = [whole_of(name, axis) for axis in items_of(name, axes, 2, expected)]
    if any(not 0 <= axis < dataset.ndim for axis in numbers) or numbers[0] == numbers[1]:
        raise wrong_value(name, f"two different axes from 0 to {dataset.ndim - 1}", shown(axes))
    return [[float(a), float(b)] for a, b in points], numbers, _box(dataset, name, limits)


def _objects(_: Dataset, name: str, value: Any) -> list[int]:
    array = as_array(sorted(value) if isinstance(value, (set, frozenset)) and all(isinstance(i, (int, np.integer)) for i in value) else value, name)
    if array.size and array.dtype.kind not in "iu":
        raise wrong_type(name, "whole numbers", str(array.dtype))
    ids = [int(i) for i in array.ravel()]
    if ids and not (-(2**63) <= min(ids) and max(ids) < 2**63):
        raise wrong_value(name, "numbers of 64 bits", str(max(ids, key=abs)))
    return ids


def _groups(dataset: Dataset, name: str, value: Any) -> list[int]:
    if not isinstance(value, (str, int, np.integer)) and not hasattr(value, "__iter__"):
        raise wrong_type(name, "numbers or names of groups", shown(value))
    wanted = [value] if isinstance(value, (str, int, np.integer)) else list(value)
    names = list(dataset.groups) if any(isinstance(group, str) for group in wanted) else []
    found = []
    for group in wanted:
        if isinstance(group, str) and group not in names:
            known = ", ".join(names) or "none"
            raise UnknownNameError(f"there is no group {group!r}: there is {known}", class_name="InvalidArgument", op="query")
        found.append(names.index(group) if isinstance(group, str) else count_of(name, group))
    return found


def _attributes(dataset: Dataset, name: str, value: Any) -> list[str]:
    if not isinstance(value, str) and not hasattr(value, "__iter__"):
        raise wrong_type(name, "names of columns", shown(value))
    names = [value] if isinstance(value, str) else [str(v) for v in value]
    if any("\0" in n for n in names):
        raise wrong_value(name, "names without a zero byte", shown(names))
    # A column comes with what says which of its rows have a value.
    flags = {n if scope == "vertex" else f"{scope}.{n}": own for scope, n, _, own in dataset._columns() if own} if names else {}
    more = [n.removesuffix(n.rpartition(".")[2]) + flags[n] if "." in n and n in flags else flags[n] for n in names if n in flags]
    return [*names, *(n for n in more if n not in names)]


_RULES = ("max_vertices", "max_bytes", "max_error")


def _level(dataset: Dataset, name: str, value: Any) -> Any:
    expected = "a number, or zvf.max_vertices(n) and its like"
    if isinstance(value, tuple):
        if len(value) != 2 or value[0] not in _RULES:
            raise wrong_type(name, expected, shown(value))
        return value[0], number_of(name, value[1])
    number = getattr(value, "number", value)
    try:
        number = operator.index(number)
    except TypeError:
        raise wrong_type(name, expected, shown(value)) from None
    if number < 0:
        raise wrong_value(name, "a number from 0 on", str(number))
    return dataset.level(number).number if number else 0  # one that is not there is refused


def whole_of(name: str, value: Any) -> int:
    """A whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(name, "a whole number", shown(value)) from None


def count_of(name: str, value: Any) -> int:
    """A number that counts something."""
    number = whole_of(name, value)
    if number < 0:
        raise wrong_value(name, "no negative number", str(number))
    if number >= 2**63:
        raise wrong_value(name, "a number of 63 bits", shown(number))
    return number


def text_of(name: str, value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        hint = ', such as "mass > 3"' if name == "where" else ""
        raise wrong_type(name, f"text{hint}", shown(value))
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
    **dict.fromkeys(("where", "mode", "order", "kind", "unknown_objects"), lambda _, name, value: text_of(name, value)),
}


def as_json(name: str, value: Any) -> str:
    """A value as JSON."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise wrong_type(name, "what JSON has", f"{shown(value)}: {error}") from None


_OPTION = re.compile(r"(')?--([a-z][a-z0-9-]*)(?: <[^>]*>)?(?(1)')")


def in_python(message: str) -> str:
    """What a command says, with its options as the keywords that they are here.

    >>> in_python("give another name, or --overwrite to replace it")
    'give another name, or overwrite=True to replace it'
    >>> in_python("invalid value 'x' for '--cell-size <SIZE>'; see \\"zvf --help\\"")
    'invalid value \\'x\\' for \\'cell_size\\'; see "zvf --help"'
    """

    def keyword(found: re.Match[str]) -> str:
        name = found[2].replace("-", "_")
        if name == "help":
            return found[0]
        return "overwrite=True" if name == "overwrite" else f"'{name}'"

    return _OPTION.sub(keyword, message)


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
