"""A lazy frame of polars over a dataset: the selected columns and rows become arguments of a query.

polars hands over its predicate as an expression. Parts that zvf can express become a condition, which is
never stricter than the predicate. The whole predicate is applied to every batch afterwards, so that other parts
(functions, casts, order of text) cost reading, and never give a wrong row.

```text
pl.col("fa") > 0.3                  not (fa <= 0.3)      polars keeps NaN here, so must the condition
pl.col("side") == "left"            side = 'left'
pl.col("n").is_in([1, 2])           n in (1, 2)
pl.col("position").arr.get(2) < 5   z <= 5               an axis; chunks beyond are not read
a & b, a | b, ~a                    and, or, pushed inwards
```
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .datasets import Dataset
    from .queries import Query

_EXACT = 1 << 53
"""64-bit floats do not distinguish all whole numbers from here on."""

_NEGATED = {"Gt": "LtEq", "GtEq": "Lt", "Lt": "GtEq", "LtEq": "Gt", "Eq": "NotEq", "NotEq": "Eq"}
_MIRRORED = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq", "NotEq": "NotEq"}


def scan(dataset: Dataset) -> Any:
    """The lazy frame over the finest level."""
    import polars
    from polars.io.plugins import register_io_source

    empty = polars.DataFrame(dataset.select(limit=1).read())

    def source(columns: Any, predicate: Any, rows: Any, batch: Any) -> Iterator[Any]:
        query = pushed(dataset, columns, predicate)
        if rows is not None and predicate is None:
            query = query.limit(rows)
        for part in query.batches():
            frame = polars.DataFrame(part)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(columns) if columns is not None else frame

    return register_io_source(source, schema=empty.schema)


def pushed(dataset: Dataset, columns: Any, predicate: Any) -> Query:
    """The query for what polars wants: all its rows, and the columns that it or its predicate needs."""
    words: dict[str, Any] = {}
    level = dataset.level(0)
    needed = None if columns is None else set(columns)
    if predicate is not None:
        if needed is not None:
            needed |= set(predicate.meta.root_names())
        condition = Condition(dataset).text(predicate)
        if condition is not None:
            words["where"] = condition
    if needed is not None:
        words["attributes"] = [name for name in level.attributes if name in needed]
    return dataset.select(**words)


class Condition:
    """Expressions of polars as conditions, as far as that can be."""

    def __init__(self, dataset: Dataset) -> None:
        columns = dataset.level(0).info().get("attributes", [])
        times = {name for scope, name, _, missing in dataset._columns() if scope == "vertex" and missing == ""}  # in units of their own
        self.columns = {c["name"]: c for c in columns if c["scope"] == "vertex" and c.get("width") == 1 and c["name"] not in times}
        self.axes = [axis["name"] for axis in dataset.axes]

    def text(self, predicate: Any) -> str | None:
        """A condition that holds wherever the predicate does; ``None`` where there is nothing to say."""
        try:
            tree = json.loads(predicate.meta.serialize(format="json"))
        except Exception:  # an expression with a Python function in it has no JSON
            return None
        return self._tree(tree, negated=False)

    def _tree(self, tree: Any, *, negated: bool) -> str | None:
        if not isinstance(tree, dict):
            return None
        if "BinaryExpr" in tree:
            node = tree["BinaryExpr"]
            operator = node["op"]
            if operator in ("And", "LogicalAnd", "Or", "LogicalOr"):
                both = ("And" in operator) != negated
                return self._join(node["left"], node["right"], both, negated)
            return self._comparison(node["left"], operator, node["right"], negated)
        function = tree.get("Function")
        if isinstance(function, dict) and isinstance(function.get("function"), dict):
            return self._function(function["input"], function["function"].get("Boolean"), negated)
        return None

    def _join(self, left: Any, right: Any, both: bool, negated: bool) -> str | None:
        sides = [self._tree(left, negated=negated), self._tree(right, negated=negated)]
        said = [f"({side})" for side in sides if side is not None]
        if both:
            return " and ".join(said) or None
        return " or ".join(said) if len(said) == 2 else None

    def _function(self, given: list[Any], function: Any, negated: bool) -> str | None:
        if function == "Not":
            return self._tree(given[0], negated=not negated)
        if not isinstance(function, dict) or negated:
            return None
        if "IsBetween" in function:
            closed = function["IsBetween"]["closed"]
            low = self._comparison(given[0], "GtEq" if closed in ("Both", "Left") else "Gt", given[1], False)
            high = self._comparison(given[0], "LtEq" if closed in ("Both", "Right") else "Lt", given[2], False)
            return " and ".join(f"({side})" for side in (low, high) if side is not None) or None
        if "IsIn" in function:
            values = _values(given[1])
            said = [self._comparison(given[0], "Eq", _Literal(value), False) for value in values or []]
            return " or ".join(f"({side})" for side in said if side) if said and all(said) else None
        return None

    def _comparison(self, left: Any, operator: str, right: Any, negated: bool) -> str | None:
        if operator not in _NEGATED:
            return None
        column = self._column(left)
        if column is None:
            column, right, operator = self._column(right), left, _MIRRORED[operator]
        value = right.value if isinstance(right, _Literal) else _literal(right)
        if column is None or value is None:
            return None
        name, dtype = column
        operator = _NEGATED[operator] if negated else operator
        if isinstance(value, str):
            if dtype != "text" or operator not in ("Eq", "NotEq"):
                return None
            quoted = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            return f"{name} = {quoted}" if operator == "Eq" else f"not ({name} = {quoted})"
        return None if dtype == "text" else _number(name, dtype, operator, value)

    def _column(self, tree: Any) -> tuple[str, str] | None:
        """The column that is meant and its type: an attribute, or an axis."""
        if not isinstance(tree, dict):
            return None
        name = tree.get("Column")
        if isinstance(name, str) and name in self.columns and "`" not in name:
            column = self.columns[name]
            return f"`{name}`", "text" if column.get("categories") is not None else str(column.get("dtype", ""))
        function = tree.get("Function")
        if isinstance(function, dict) and isinstance(function.get("function"), dict):
            array = function["function"].get("ArrayExpr")
            if isinstance(array, dict) and "Get" in array and function["input"][0].get("Column") == "position":
                axis = _literal(function["input"][1])
                if isinstance(axis, int) and 0 <= axis < len(self.axes) and self.axes[axis] not in self.columns:
                    return f"`{self.axes[axis]}`", "axis"
        return None


class _Literal:
    """A value that stands for an expression."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _number(name: str, dtype: str, operator: str, value: float) -> str | None:
    """A comparison with a number: what NaN does is what it does in polars, and rounding to the type only widens it."""
    if isinstance(value, bool) or abs(value) >= _EXACT or value != value:
        return None
    rounded = float(np.float32(value)) if dtype in ("float32", "float16", "axis") else float(value)
    if dtype == "float16":
        rounded = float(np.float16(value))
    low, high = min(rounded, float(value)), max(rounded, float(value))
    if low in (float("-inf"), float("inf")) or high == float("inf"):
        return None
    if operator in ("Lt", "LtEq"):
        return f"{name} {'<' if low == high and operator == 'Lt' else '<='} {_written(high)}"
    if operator in ("Gt", "GtEq") and dtype == "axis":  # never NaN, and said so it narrows the chunks
        return f"{name} {'>' if low == high and operator == 'Gt' else '>='} {_written(low)}"
    if operator in ("Gt", "GtEq"):
        return f"not ({name} {'<=' if low == high and operator == 'Gt' else '<'} {_written(low)})"
    if operator == "Eq":
        return f"{name} = {_written(low)}" if low == high else f"{name} >= {_written(low)} and {name} <= {_written(high)}"
    return f"not ({name} = {_written(low)})" if low == high else None


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _literal(tree: Any) -> Any:
    """The value of a literal: a number or text."""
    if not isinstance(tree, dict):
        return None
    found = tree.get("Literal")
    while isinstance(found, dict) and len(found) == 1:
        [(kind, found)] = found.items()
        if kind == "Float16":  # as its bits
            return float(np.uint16(found).view(np.float16))
    return found if isinstance(found, (int, float, str)) and not isinstance(found, bool) else None


def _values(tree: Any) -> list[Any] | None:
    """The values of a literal list."""
    import polars

    found = tree.get("Literal") if isinstance(tree, dict) else None
    while isinstance(found, dict) and len(found) == 1:
        found = next(iter(found.values()))
    if not isinstance(found, list):
        return None
    try:
        values = polars.read_ipc_stream(io.BytesIO(bytes(found))).to_series()
        values = values.explode() if values.dtype == polars.List else values
    except Exception:  # another version of polars writes it in another way: then it is not said
        return None
    known = [v for v in values.to_list() if isinstance(v, (int, float, str)) and not isinstance(v, bool)]
    return known if len(known) == len(values) and len(known) <= 1000 else None
