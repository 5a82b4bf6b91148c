"""Answers: geometry as NumPy views of memory that Rust owns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._arrays import view
from .errors import ArgumentError, UnknownNameError, shown, wrong_type


class Answer:
    """The answer to a query: positions, columns, parts, objects, edges or faces.

    Arrays are made once, view the memory of the answer without a copy, keep it alive, and are read-only.
    """

    __slots__ = ("_native", "_cache", "_ask")

    def __init__(self, native: Any, ask: Any = None) -> None:
        self._native = native
        self._cache: dict[str, Any] = {}
        self._ask = ask

    def _once(self, name: str, make: Any) -> Any:
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    @property
    def kind(self) -> str:
        """The kind of geometry: ``point_cloud``, ``polyline``, ``mesh``, ..."""
        return self._native.kind

    def __len__(self) -> int:
        return len(self._native)

    @property
    def positions(self) -> np.ndarray:
        """One row per vertex, in the stored type."""
        return self._once("positions", lambda: view(self._native.positions()))

    @property
    def offsets(self) -> np.ndarray:
        """The first vertex of each part, and the end of the last one."""
        return self._once("offsets", lambda: view(self._native.offsets()))

    @property
    def part_ids(self) -> np.ndarray:
        """The object that each part belongs to."""
        return self._once("part_ids", lambda: view(self._native.part_ids()))

    @property
    def parts(self) -> list[np.ndarray]:
        """The positions of each part."""
        at = self.offsets.tolist()
        return [self.positions[a:b] for a, b in zip(at, at[1:])]

    @property
    def object_ids(self) -> np.ndarray | None:
        """The object of each vertex, -1 where it has none; ``None`` unless ``object_ids=True`` was given."""

        def make() -> np.ndarray | None:
            found = self._native.object_ids()
            return None if found is None else view(found)

        return self._once("object_ids", make)

    def _elements(self) -> np.ndarray | None:
        def make() -> np.ndarray | None:
            found = self._native.elements()
            return None if found is None else view(found)

        return self._once("elements", make)

    @property
    def edges(self) -> np.ndarray | None:
        """Pairs of vertex rows, of graphs and skeletons."""
        elements = self._elements()
        return elements if elements is not None and elements.shape[1] == 2 else None

    @property
    def faces(self) -> np.ndarray | None:
        """Vertex rows of faces, of meshes."""
        return self._elements() if self.kind == "mesh" else None

    def _fields(self) -> dict[str, tuple[Any, ...]]:
        return self._once("fields", lambda: {entry[0]: entry for entry in self._native.fields()})

    def _element_fields(self) -> dict[str, tuple[Any, ...]]:
        return self._once("element_fields", lambda: {entry[0]: entry for entry in self._native.element_fields()})

    def keys(self) -> list[str]:
        """The names of the columns."""
        return list(self._fields())

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __contains__(self, name: object) -> bool:
        return name in self._fields() or name in self._element_fields()

    def codes(self, name: str) -> np.ndarray:
        """The stored values of a column: of text, the codes of its categories."""
        if not isinstance(name, str):
            raise wrong_type("the name of a column", "text", shown(name))
        entry = self._fields().get(name) or self._element_fields().get(name)
        if entry is None:
            known = ", ".join([*self._fields(), *self._element_fields()]) or "none"
            raise UnknownNameError(f"there is no column {name!r}: there is {known}", class_name="InvalidArgument", op="read")
        return self._once(f"codes {name}", lambda: view(entry[1]))

    def categories(self, name: str) -> list[Any] | None:
        """The categories of a column, by code."""
        entry = self._fields().get(name) or self._element_fields().get(name)
        return entry[2][0] if entry is not None and entry[2] is not None else None

    def unit(self, name: str) -> str | None:
        """The unit of a column, if one is declared."""
        entry = self._fields().get(name)
        return entry[3] if entry is not None else None

    def __getitem__(self, name: str) -> np.ndarray:
        codes = self.codes(name)
        entry = self._fields().get(name) or self._element_fields()[name]
        if entry[2] is None:
            return codes

        def decode() -> np.ndarray:
            values, missing = entry[2]
            table = np.array([*values, None], dtype=object)
            wanted = codes.astype(np.int64)
            at = np.where((wanted < 0) | (wanted >= len(values)), len(values), wanted)
            return table[at]

        return self._once(f"decoded {name}", decode)

    def _report(self) -> dict[str, Any]:
        return self._once("report", lambda: self._native.report() or {})

    @property
    def level(self) -> int | None:
        """The resolution that was read; of a batch ``None``."""
        return self._report().get("level")

    @property
    def complete(self) -> bool:
        """Whether nothing is missing from the answer."""
        return bool(self._report().get("complete", True))

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the answer."""
        return bool(self._report().get("truncated", False))

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Missing arrays and chunks, if missing ones are allowed."""
        return self._report().get("missing", [])

    @property
    def unknown_objects(self) -> list[int]:
        """Requested objects that do not exist."""
        return self._report().get("unknown_objects", [])

    @property
    def notices(self) -> list[str]:
        """Notices about the answer."""
        return self._report().get("notices", [])

    @property
    def figures(self) -> dict[str, Any]:
        """The cost: cells, rows, requests, bytes and seconds."""
        return {k: v for k, v in self._report().items() if k in ("cells", "rows", "requests", "bytes", "seconds")}

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The columns by Arrow's C interface: ``pa.table(answer)``, ``polars.DataFrame(answer)``."""
        return self._native.arrow_stream(requested_schema)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` of the same bytes."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a column for each axis and attribute."""
        import pandas

        names = "xyzw" if self.positions.shape[1] <= 4 else None
        table: dict[str, Any] = {}
        for axis in range(self.positions.shape[1]):
            table[names[axis] if names else f"x{axis}"] = self.positions[:, axis]
        for name in self:
            values = self[name]
            if values.ndim == 1:
                table[name] = values
            else:
                for at in range(values.shape[1]):
                    table[f"{name}[{at}]"] = values[:, at]
        if len(self.offsets) > 1:
            table["object"] = np.repeat(self.part_ids, np.diff(self.offsets))
        return pandas.DataFrame(table)

    def render(self, width: int = 480, height: int = 360, **words: Any) -> bytes:
        """A picture of what the query finds, as PNG."""
        if self._ask is None:
            raise ArgumentError("a batch has no query to draw: render the query or the dataset")
        return self._ask.render(width, height, **words)

    plot = render

    def _repr_png_(self) -> bytes | None:
        return None if self._ask is None else self.render()

    def _repr_html_(self) -> str:
        from ._html import picture, table_html

        rows = [("kind", self.kind), ("vertices", len(self)), ("parts", max(len(self.offsets) - 1, 0))]
        elements = self._elements()
        if elements is not None:
            rows.append(("faces" if self.kind == "mesh" else "edges", len(elements)))
        rows.append(("columns", ", ".join([*self, *self._element_fields()]) or "none"))
        rows.append(("complete", self.complete and not self.truncated))
        return f"<div><b>zvf.Answer</b>{picture(self, len(self))}{table_html(rows)}</div>"

    def __repr__(self) -> str:
        columns = ", ".join(self) or "no columns"
        parts = max(len(self.offsets) - 1, 0)
        cut = "" if self.complete and not self.truncated else ", not all"
        return f"<zvf.Answer {self.kind}: {len(self)} vertices, {parts} parts; {columns}{cut}>"
