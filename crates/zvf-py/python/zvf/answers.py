"""Answers: geometry as NumPy views of memory that Rust owns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, overload

import numpy as np

from . import _exits as exits
from . import _zvf
from ._arrays import given, view
from ._columns import restored, validity_of
from ._jobs import is_in_memory
from ._words import count_of
from .errors import ArgumentError, ArgumentTypeError, UnknownNameError, shown, wrong_type


class Answer:
    """The answer to a query: positions, columns, parts, objects, edges or faces.

    Arrays are made once, view the memory of the answer without a copy, keep it alive, and are read-only.
    """

    __slots__ = ("_native", "_cache", "_ask", "_of")

    def __init__(self, native: Any, ask: Any = None, of: Any = None) -> None:
        self._native = native
        self._cache: dict[str, Any] = {}
        self._ask = ask
        self._of = of if ask is None else ask.dataset  # the dataset, which knows more of its columns

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
        return self._once("fields", lambda: self._described(self._native.fields(), None))

    def _element_fields(self) -> dict[str, tuple[Any, ...]]:
        return self._once("element_fields", lambda: self._described(self._native.element_fields(), "link"))

    def _described(self, entries: list[tuple[Any, ...]], scope: str | None) -> dict[str, tuple[Any, ...]]:
        """Columns by name; those of objects, parts and elements with the unit and the description that the store has of them."""
        found = {entry[0]: entry for entry in entries}
        for name, entry in found.items():
            if self._of is not None and entry[3] is None and entry[4] is None and (scope or "." in name):
                said = self._of._described().get((scope, name) if scope else tuple(name.split(".", 1)))
                if said is not None:
                    found[name] = (*entry[:3], said[0], said[1] if scope else _of_scope(said[1], name))
                    self._cache["is_described"] = True
        return found

    def _validity(self, elements: bool = False) -> dict[str, str]:
        """What says which rows have a value, by the column that it is about."""
        fields = self._element_fields() if elements else self._fields()
        return self._once(f"validity {elements}", lambda: validity_of({name: (self.codes(name).dtype, entry[4]) for name, entry in fields.items()}))

    def keys(self) -> list[str]:
        """The names of the columns of vertices."""
        hidden = set(self._validity().values())
        return [name for name in self._fields() if name not in hidden]

    def element_keys(self) -> list[str]:
        """The names of the columns of edges or faces."""
        hidden = set(self._validity(True).values())
        return [name for name in self._element_fields() if name not in hidden]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

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

    @overload
    def __getitem__(self, name: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, name: slice | range | list[Any] | np.ndarray) -> Answer: ...
    def __getitem__(self, name: Any) -> Any:
        """A column by its name, or the vertices of a mask, a slice or rows as an answer: edges and faces among them stay.

        Columns come as what was written: times as ``datetime64`` and ``timedelta64``, whole numbers and truth values of which
        some are missing as masked arrays (:mod:`numpy.ma`), text as objects with ``None`` where there is none.
        """
        if not isinstance(name, str):
            return self._rows(name)
        codes = self.codes(name)
        is_vertex = name in self._fields()
        entry = self._fields()[name] if is_vertex else self._element_fields()[name]

        def decode() -> np.ndarray:
            flags = self._validity(not is_vertex).get(name)
            return restored(codes, entry, None if flags is None else self.codes(flags))

        return self._once(f"decoded {name}", decode)

    def _element(self, name: str) -> np.ndarray:
        """A column of edges or faces, also where vertices have one of this name."""
        entry = self._element_fields()[name]
        flags = self._validity(True).get(name)
        return restored(view(entry[1]), entry, None if flags is None else view(self._element_fields()[flags][1]))

    @property
    def is_directed(self) -> bool:
        """Whether the edges have a direction, as far as the store of the answer says so."""
        if self._ask is None:
            return False
        return any(link["delta"] == 0 and link["directed"] for link in self._ask.dataset.info()["levels"][0]["links"])

    def _rows(self, rows: Any) -> Answer:
        """The answer with some of the vertices, each once and in their order."""
        if isinstance(rows, (tuple, set, Mapping)) or rows is None:
            raise wrong_type("rows of an answer", "the name of a column, a mask, a slice or numbers of rows", shown(rows))
        kept = np.zeros(len(self), dtype=bool)
        kept[rows if isinstance(rows, slice) else np.asarray(rows)] = True
        return self._kept(kept)

    def _kept(self, kept: np.ndarray) -> Answer:
        place = np.cumsum(kept) - 1
        parts = None
        if len(self.offsets):
            counts = np.add.reduceat(np.append(kept, False).astype(np.int64), self.offsets[:-1]) if len(self.offsets) > 1 else np.zeros(0, np.int64)
            counts = np.where(np.diff(self.offsets) > 0, counts, 0)
            stay = (counts > 0) | (np.diff(self.offsets) == 0)
            parts = (np.concatenate([[0], np.cumsum(counts[stay])]).tolist(), self.part_ids[stay].tolist())
        owners = None if self.object_ids is None else self.object_ids[kept].tolist()
        elements, joined = self._elements(), None
        if elements is not None:
            whole = np.logical_and.reduce(kept[elements], axis=1)
            joined = (elements.shape[1], place[elements[whole]].ravel().tolist(), self._columns(self._element_fields(), whole))
        native = _zvf.Answer(self.kind, given(self.positions[kept]), self._columns(self._fields(), kept), parts, owners, joined)
        part = Answer(native, self._ask)
        part._cache["report"] = self._report()
        return part

    def _columns(self, fields: Mapping[str, tuple[Any, ...]], kept: np.ndarray) -> list[dict[str, Any]]:
        """Columns as the native half takes them: codes without a category are -1."""
        found = []
        for name, (_, _, categories, unit, description) in fields.items():
            codes = self.codes(name)[kept]
            words = None
            if codes.dtype.kind == "U":  # text of objects, which has no categories
                distinct, codes = np.unique(codes, return_inverse=True)
                words, codes = distinct.tolist(), codes.astype(np.int32)
            if categories is not None:
                words = list(categories[0])
                codes = np.where((codes < 0) | (codes >= len(words)) | (codes == categories[1]), -1, codes.astype(np.int64)).astype(np.int32)
            found.append({"name": name, "array": given(codes), "categories": words, "unit": unit, "description": description})
        return found

    def head(self, rows: int = 5) -> Answer:
        """The first vertices."""
        return self._rows(slice(0, count_of("rows", rows)))

    @property
    def nbytes(self) -> int:
        """The bytes of the positions, the columns, the parts, and the edges or faces."""
        names = [*self._fields(), *self._element_fields()]
        arrays = [self.positions, self.offsets, self.part_ids, self._elements(), *(self.codes(name) for name in names)]
        return sum(array.nbytes for array in arrays if array is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        held = self._kept(np.ones(len(self), dtype=bool))
        parts = None if not len(self.offsets) else (self.offsets.tolist(), self.part_ids.tolist())
        elements = self._elements()
        joined = None if elements is None else (elements.shape[1], elements.ravel().tolist(), held._columns(held._element_fields(), np.ones(len(elements), bool)))
        owners = None if self.object_ids is None else self.object_ids.tolist()
        words = (self.kind, given(self.positions), held._columns(held._fields(), np.ones(len(self), bool)), parts, owners, joined)
        return _rebuilt, (words, self._report(), self._ask if self._ask is None or not is_in_memory(self._ask.dataset.address) else None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise ArgumentTypeError("an answer is not one array: take answer.positions, answer['a column'], or answer.to_pandas()")

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
        self._fields()
        whole = self._kept(np.ones(len(self), dtype=bool)) if self._cache.get("is_described") else self
        return whole._native.arrow_stream(requested_schema)

    def to_arrow(self, of: str = "vertices") -> Any:
        """A ``pyarrow.Table`` with a row for each vertex, or ``of`` the ``"edges"`` or ``"faces"``."""
        import pyarrow

        return pyarrow.table(self) if of == "vertices" else pyarrow.Table.from_pandas(self.to_pandas(of), preserve_index=False)

    def to_polars(self, of: str = "vertices") -> Any:
        """A ``polars.DataFrame`` with a row for each vertex, or ``of`` the ``"edges"`` or ``"faces"``."""
        import polars

        if of == "vertices":
            return polars.DataFrame(self)
        table = exits.elements_of(self, of)
        return polars.DataFrame({name: values.tolist() if isinstance(values, np.ma.MaskedArray) else values for name, values in table.items()})

    def to_pandas(self, of: str = "vertices") -> Any:
        """A ``pandas.DataFrame`` with a column for each axis and attribute, or ``of`` the ``"edges"`` or ``"faces"``.

        Whole numbers and truth values of which some are missing are ``Int64`` and ``boolean``. A column that is called like an
        axis, ``part`` or ``object`` is ``vertex.NAME``.
        """
        return exits.to_pandas(self, of)

    def to_trimesh(self) -> Any:
        """A ``trimesh.Trimesh`` of a mesh, a ``PointCloud`` of points, a ``Path3D`` of lines; ``color`` and ``normal`` are what they say."""
        return exits.to_trimesh(self)

    def to_networkx(self) -> Any:
        """A graph of networkx: nodes are the values of the column ``node``, or numbers of rows, and have ``pos`` and their columns."""
        return exits.to_networkx(self)

    def to_nibabel(self) -> Any:
        """A ``nibabel.streamlines.Tractogram`` of lines, in the space of the store, with columns of vertices and of objects."""
        return exits.to_nibabel(self)

    def to_geopandas(self) -> Any:
        """A ``geopandas.GeoDataFrame`` of points, or of lines with the columns of their objects."""
        return exits.to_geopandas(self)

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
        rows.append(("columns", ", ".join([*self, *self.element_keys()]) or "none"))
        rows.append(("complete", self.complete and not self.truncated))
        return f"<div><b>zvf.Answer</b>{picture(self, len(self))}{table_html(rows)}</div>"

    def __repr__(self) -> str:
        columns = ", ".join(self) or "no columns"
        parts = max(len(self.offsets) - 1, 0)
        cut = "" if self.complete and not self.truncated else ", not all"
        return f"<zvf.Answer {self.kind}: {len(self)} vertices, {parts} parts; {columns}{cut}>"


def _of_scope(description: str | None, name: str) -> str | None:
    """A description that says of which column it is, as an answer names that one."""
    of = name.removesuffix("_valid")
    return f"validity of {of}" if description == f"validity of {of.partition('.')[2]}" else description


def _rebuilt(words: tuple[Any, ...], report: dict[str, Any], ask: Any) -> Answer:
    answer = Answer(_zvf.Answer(*words), ask)
    answer._cache["report"] = report
    return answer
