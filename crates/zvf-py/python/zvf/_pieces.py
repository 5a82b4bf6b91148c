"""What a thing is as geometry: answers, queries, tables, frames, meshes, graphs, arrays, lists of arrays.

``piece_of`` looks at what a thing offers, never at the package that it comes from, so that none of them is needed here.
Not here: writing it (``writing``), and columns on their way in (``_arrays``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _zvf
from ._arrays import indices, join_lines, positions
from .answers import Answer
from .datasets import Dataset
from .errors import ArgumentError, shown, wrong_type, wrong_value
from .queries import Query

CHAINS = ("line", "polyline", "streamline")


@dataclass
class Piece:
    """Vertices with their columns."""

    kind: str
    positions: Any
    attributes: dict[str, Any] = field(default_factory=dict)
    offsets: Any = None
    part_ids: Any = None
    object_ids: Any = None
    edges: Any = None
    faces: Any = None
    element_attributes: dict[str, Any] = field(default_factory=dict)
    part_attributes: dict[str, Any] = field(default_factory=dict)
    objects: Any = None  # the ids that `object_attributes` has rows for
    object_attributes: dict[str, Any] = field(default_factory=dict)
    directed: bool = False

    def push_words(self) -> dict[str, Any]:
        """What :meth:`zvf.Writer.push` takes besides the positions."""
        return {
            "attributes": self.attributes,
            "offsets": self.offsets,
            "part_ids": self.part_ids,
            "object_ids": self.object_ids,
            "edges": self.edges,
            "faces": self.faces,
            "element_attributes": self.element_attributes or None,
            "part_attributes": self.part_attributes or None,
        }


def is_thing(value: Any) -> bool:
    """Whether it is more than positions: what :func:`piece_of` takes and a plain array or a list is not."""
    return isinstance(value, (Answer, Dataset, Query, Mapping)) or any(
        hasattr(value, name) for name in ("__arrow_c_stream__", "iloc", "vertices", "cells", "nodes")
    )


def piece_of(thing: Any, kind: str | None = None) -> Piece:
    """The geometry of whatever it is; ``kind`` says what tables, arrays and lists are to be."""
    if isinstance(thing, Dataset):
        thing = thing.select()
    if isinstance(thing, Query):
        return _of_query(thing)
    if isinstance(thing, Answer):
        return _of_answer(thing)
    if hasattr(thing, "vertices") and hasattr(thing, "faces"):
        return _of_trimesh(thing)
    if hasattr(thing, "points") and hasattr(thing, "cells"):
        return _of_meshio(thing)
    if hasattr(thing, "edges") and callable(getattr(thing, "nodes", None)):
        return _of_networkx(thing, kind)
    if hasattr(thing, "columns") and hasattr(thing, "iloc"):  # a frame of pandas, which needs pyarrow to speak Arrow
        return _of_table({str(c): _pandas_column(thing[c]) for c in thing.columns}, kind)
    if hasattr(thing, "__arrow_c_stream__"):
        return _of_table(_arrow_columns(thing), kind)
    if isinstance(thing, Mapping):
        return _of_table(dict(thing), kind)
    if isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        return _of_array(thing, kind)
    if isinstance(thing, Iterable) and not isinstance(thing, (str, bytes)):
        points, cuts = join_lines(list(thing))
        return Piece(kind or "polyline", points, offsets=cuts)
    raise wrong_type("write", "a table, a mesh, a graph, a mapping or an array", shown(thing))


def _of_array(array: np.ndarray, kind: str | None) -> Piece:
    if array.ndim == 3:
        if array.shape[1] != 2 and kind not in ("polyline", "streamline"):
            raise wrong_value("endpoints", "the shape (lines, 2, axes)", str(array.shape))
        flat = positions(array.reshape(-1, array.shape[2]), "lines")
        return Piece(kind or "line", flat, offsets=np.arange(0, len(flat) + 1, array.shape[1]))
    points = positions(array)
    return Piece(kind or "point_cloud", points, offsets=[0, len(points)] if kind in CHAINS and len(points) else None)


def _of_query(query: Query) -> Piece:
    kinds = query.dataset.kinds
    kind = query.words.get("kind", kinds[0] if kinds else "point_cloud")
    return _of_answer(query.read() if kind in CHAINS else query.select(object_ids=True).read())


def _of_answer(answer: Answer) -> Piece:
    piece = Piece(answer.kind, answer.positions)
    if answer.kind in CHAINS:
        piece.offsets, piece.part_ids = answer.offsets, answer.part_ids
    else:
        owners = answer.object_ids
        piece.object_ids = owners if owners is not None and (owners >= 0).any() else None
        piece.edges, piece.faces = answer.edges, answer.faces
        if owners is not None and piece.object_ids is not None and bool((owners < 0).any()):
            raise ArgumentError("some vertices belong to objects and some do not: ask for these and for those")
    first = answer.offsets[:-1]
    for name in answer:
        scope, _, own = name.rpartition(".")
        if scope == "object":
            piece.objects, rows = _rows_of_objects(piece, first)
            piece.object_attributes[own] = _values(answer[name])[rows]
        elif scope == "fragment":
            piece.part_attributes[own] = _values(answer[name])[first]
        else:
            piece.attributes[name] = _values(answer[name])
    piece.element_attributes = {name: _values(answer[name]) for name in answer._element_fields()}
    return piece


def _rows_of_objects(piece: Piece, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the objects, and a row of each."""
    if piece.part_ids is not None:
        ids, at = np.unique(piece.part_ids, return_index=True)
        return ids, first[at]
    if piece.object_ids is None:
        raise ArgumentError("columns of objects need the objects: ask with object_ids=True")
    return np.unique(piece.object_ids, return_index=True)


def _values(column: np.ndarray) -> np.ndarray:
    """A column as arrays that can be written: categories of numbers are numbers again."""
    if column.dtype.kind != "O" or any(value is None or isinstance(value, str) for value in column.flat):
        return column
    return np.array(column.tolist())


def _arrow_columns(thing: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, buffer, words in _zvf.read_arrow(thing):
        found[name] = np.asarray(buffer) if words is None else np.array(words, dtype=object)
    return found


def _pandas_column(series: Any) -> Any:
    """A column of pandas: categories stay categories."""
    values = series.array
    return values if hasattr(values, "categories") and hasattr(values, "codes") else series.to_numpy()


def _of_table(table: dict[str, Any], kind: str | None) -> Piece:
    """A table with columns for the axes, ``position`` or ``x``, ``y``, ``z``, and maybe ``object`` and ``part``."""
    at_columns = [c for c in ("position", "positions") if c in table]
    if at_columns:
        xyz = np.asarray(table.pop(at_columns[0]))
    else:
        names = [c for c in ("x", "y", "z") if c in table]
        if names and names != ["x", "y", "z"][: len(names)]:
            lacking = next(c for c in ("x", "y", "z") if c not in table)
            raise ArgumentError(f"a table with a column {names[-1]} needs one called {lacking}; it has {', '.join(table)}")
        if not names:
            raise ArgumentError(f"a table needs columns x, y, z or position; it has {', '.join(table) or 'none'}")
        xyz = np.column_stack([np.asarray(table.pop(c)) for c in names])
    points = positions(xyz)
    owners, parts = table.pop("object", None), table.pop("part", None)
    piece = Piece(kind or "point_cloud", points, attributes=table)
    if kind in CHAINS:
        piece.offsets, piece.part_ids = _runs(len(points), owners, parts)
    else:
        piece.object_ids = owners
    return piece


def _runs(count: int, owners: Any, parts: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Where runs of one part begin and end, and the object of each; without such columns all is one part."""
    by = owners if parts is None else parts
    if by is None or not count:
        return np.array([0, count] if count else [0]), None
    numbers = indices(by, "part").ravel()
    if len(numbers) != count:
        raise wrong_value("part", f"{count} rows", str(len(numbers)))
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    first = np.concatenate([[0], cuts])
    ids = numbers if owners is None else indices(owners, "object").ravel()
    return np.concatenate([first, [count]]), ids[first]


def _of_trimesh(thing: Any) -> Piece:
    faces = indices(np.asarray(thing.faces), "faces")
    piece = Piece("mesh", positions(np.asarray(thing.vertices), "vertices"), faces=faces)
    piece.attributes = {str(k): np.asarray(v) for k, v in dict(getattr(thing, "vertex_attributes", {}) or {}).items()}
    piece.element_attributes = {str(k): np.asarray(v) for k, v in dict(getattr(thing, "face_attributes", {}) or {}).items()}
    return piece


def _of_meshio(thing: Any) -> Piece:
    """Blocks of one type of cells; vertices alone are a cloud."""
    blocks = list(thing.cells.items()) if isinstance(thing.cells, Mapping) else list(thing.cells)
    pairs: list[tuple[str, Any]] = [_cells(b) for b in blocks]
    names = {name for name, _ in pairs} - {"vertex"}
    if len(names) > 1 or not names <= {"triangle", "quad", "line"}:
        raise wrong_value("a mesh of meshio", "cells of one type, triangle, quad or line", ', '.join(sorted(names)))
    piece = Piece("point_cloud", positions(np.asarray(thing.points), "points"))
    piece.attributes = {str(k): np.asarray(v) for k, v in dict(getattr(thing, "point_data", None) or {}).items()}
    wanted = [number for number, (name, _) in enumerate(pairs) if name in names]
    if not wanted:
        return piece
    rows = np.concatenate([np.asarray(pairs[number][1]) for number in wanted])
    said = dict(getattr(thing, "cell_data", None) or {})
    piece.element_attributes = {str(k): np.concatenate([np.asarray(v[n]) for n in wanted]) for k, v in said.items()}
    if names == {"line"}:
        piece.kind, piece.edges = "graph", rows
    else:
        piece.kind, piece.faces = "mesh", rows
    return piece


def _cells(block: Any) -> tuple[str, Any]:
    """The type of a block of cells, and its rows."""
    return (block.type, block.data) if hasattr(block, "type") else (block[0], block[1])


def _of_networkx(thing: Any, kind: str | None) -> Piece:
    """Nodes with ``pos``; what all nodes and what all edges say else are columns."""
    nodes = list(thing.nodes(data=True))
    place = {node: i for i, (node, _) in enumerate(nodes)}
    missing = [node for node, data in nodes if "pos" not in data]
    if missing:
        raise ArgumentError(f'the node {missing[0]!r} has no position: give each a "pos"')
    axes = len(nodes[0][1]["pos"]) if nodes else 3
    xyz = np.array([data["pos"] for _, data in nodes], dtype=np.float64).reshape(-1, axes)
    links = list(thing.edges(data=True))
    edges = np.array([(place[a], place[b]) for a, b, _ in links], dtype=np.int64).reshape(-1, 2)
    is_directed = bool(getattr(thing, "is_directed", lambda: False)())
    piece = Piece(kind or "graph", positions(xyz), edges=edges, directed=is_directed)
    piece.attributes = _common([data for _, data in nodes], without="pos")
    piece.element_attributes = _common([data for _, _, data in links])
    return piece


def _common(rows: list[dict[Any, Any]], without: str | None = None) -> dict[str, Any]:
    """The columns that every row has; one that only some have is an error, as a column has a value for each row."""
    names = dict.fromkeys(name for row in rows for name in row if name != without)
    for name in names:
        lacking = sum(name not in row for row in rows)
        if lacking:
            raise ArgumentError(f"{name!r}: {lacking} of {len(rows)} have none: give each a value, or remove it")
    return {str(name): np.array([row[name] for row in rows]) for name in names}
