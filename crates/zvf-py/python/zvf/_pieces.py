"""What a thing is as geometry: answers, queries, tables, frames, meshes, graphs, arrays, lists of arrays.

``piece_of`` looks at what a thing offers, never at the package that it comes from, so that none of them is needed here.
Not here: writing it (``writing``), and columns on their way in (``_arrays``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._arrays import as_array, indices, join_lines, named, positions
from ._columns import arrow_table, columns
from ._losses import lose
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
    groups: dict[str, Any] = field(default_factory=dict)
    objects: Any = None  # the ids that `object_attributes` has rows for
    object_attributes: dict[str, Any] = field(default_factory=dict)
    directed: bool = False
    words: dict[str, Any] = field(default_factory=dict)  # of `zvf.create`: names and units of axes, the coordinate system

    def with_columns(self, attributes: Any, object_attributes: Any, groups: Any) -> Piece:
        """The piece with more columns and groups."""
        self.attributes = {**self.attributes, **named("attributes", attributes)}
        self.object_attributes = {**self.object_attributes, **named("object_attributes", object_attributes)}
        sets = named("groups", groups, "names to the ids of members")
        self.groups.update({str(label): indices(members, f"members of the group {label!r}").ravel() for label, members in sets.items()})
        return self

    def read_columns(self) -> None:
        """Turns columns into what is stored: what cannot be is refused here, before anything is begun."""
        joined = self.edges if self.edges is not None else self.faces
        self.attributes = columns(self.attributes, len(self.positions))  # type: ignore[assignment]
        self.object_attributes = columns(self.object_attributes, None, "object_attributes")  # type: ignore[assignment]
        if joined is not None:
            self.element_attributes = columns(self.element_attributes, len(joined), "element_attributes")  # type: ignore[assignment]

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
        hasattr(value, name) for name in ("__arrow_c_stream__", "iloc", "vertices", "cells", "nodes", "streamlines", "collect_schema")
    )


def piece_of(thing: Any, kind: str | None = None) -> Piece:
    """The geometry of whatever it is; ``kind`` says what tables, arrays and lists are to be."""
    if isinstance(thing, Dataset):
        thing = thing.select()
    if isinstance(thing, Query):
        return _of_query(thing)
    if isinstance(thing, Answer):
        return _of_answer(thing)
    for fits, make in _LIBRARIES:
        if fits(thing):
            return make(thing, kind)
    if isinstance(thing, Iterable) and not isinstance(thing, (str, bytes)):
        items = list(thing)
        if any(is_thing(item) for item in items):
            return _of_tables(items, kind)
        points, cuts = join_lines(items)
        return Piece(kind or "polyline", points, offsets=cuts)
    raise wrong_type("write", "a table, a mesh, a graph, a mapping or an array", shown(thing))


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda thing: all(hasattr(thing, name) for name in names)


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
    dataset = query.dataset
    of_objects = dataset._object_columns()
    if "attributes" not in query.words and of_objects:  # all there is, those of objects too
        of_links = [f"link.{name}" for scope, name, _, _ in dataset._columns() if scope == "link"]
        query = query.select(attributes=[*dataset.level(0).attributes, *of_objects, *of_links])
    piece = _of_answer(query.read() if kind in CHAINS else query.select(object_ids=True).read())
    ids = piece.part_ids if piece.part_ids is not None else piece.object_ids
    if ids is not None:
        piece.groups = {name: members[np.isin(members, ids)] for name, members in dataset.groups.items()}
    return piece


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
    piece.element_attributes = {name: _values(answer._element(name)) for name in answer.element_keys()}
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


def _of_frame(frame: Any, kind: str | None) -> Piece:
    """A frame of pandas, which needs pyarrow to speak Arrow; its index is a column unless it only counts rows."""
    names = [str(name) for name in frame.columns]
    levels = frame.index.names
    counts = len(levels) == 1 and levels[0] is None and frame.index.dtype.kind == "i" and hasattr(frame.index, "step")
    table = {}
    if not counts:
        for at, level in enumerate(levels):
            table[str(level) if level is not None else ("index" if len(levels) == 1 else f"level_{at}")] = frame.index.get_level_values(at)
    names = [*table, *names]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ArgumentError(f"the frame has two columns {twice!r}, its index counted: give one another name, or drop it")
    return _of_table({**table, **{str(name): frame[name] for name in frame.columns}}, kind)


def _of_records(array: np.ndarray, kind: str | None) -> Piece:
    return _of_table({name: array[name] for name in array.dtype.names or ()}, kind)


def _of_tables(things: list[Any], kind: str | None) -> Piece:
    """Tables one after the other, of lines each as one line; or many objects of other libraries."""
    if kind not in ("point_cloud", *CHAINS):
        raise ArgumentError("a list of tables: say what they are, kind='point_cloud' for one cloud of all, or kind='polyline' for a line each")
    pieces = [piece_of(thing, "point_cloud") for thing in things]
    names = list(pieces[0].attributes)
    if any(sorted(piece.attributes) != sorted(names) for piece in pieces):
        raise ArgumentError("a list of tables: they need the same columns")
    points, cuts = join_lines([piece.positions for piece in pieces])
    joined = {name: np.concatenate([as_array(piece.attributes[name], f"column {name!r}") for piece in pieces]) for name in names}
    if kind in CHAINS:
        return Piece(kind, points, attributes=joined, offsets=cuts, words=pieces[0].words)
    owners = [piece.object_ids for piece in pieces]
    ids = None if any(own is None for own in owners) else np.concatenate([np.asarray(own) for own in owners])
    return Piece("point_cloud", points, attributes=joined, object_ids=ids, words=pieces[0].words)


_AXES = ("x", "y", "z", "t")


def _of_table(table: dict[str, Any], kind: str | None) -> Piece:
    """A table with columns for the axes, ``position`` or ``x``, ``y``, ``z``, and maybe ``object`` and ``part``."""
    words: dict[str, Any] = {}
    at_columns = [c for c in ("position", "positions") if c in table]
    if at_columns:
        points = positions(as_array(table.pop(at_columns[0]), "position"), "position")
    else:
        names = [c for c in _AXES if c in table]
        lacking = next((c for c in _AXES if c not in table), None)
        if "t" in names and (lacking is not None or as_array(table["t"], "t").dtype.kind not in "iuf"):
            names.remove("t")  # a time that is no coordinate
        if names and names != list(_AXES[: len(names)]):
            raise ArgumentError(f"a table with a column {names[-1]} needs one called {lacking}; it has {', '.join(table)}")
        if not names:
            raise ArgumentError(f"a table needs columns x, y, z or position; it has {', '.join(table) or 'none'}")
        single = [as_array(table.pop(c), f"column {c!r}") for c in names]
        points = np.column_stack([positions(column.reshape(-1, 1), f"column {c!r}") for c, column in zip(names, single)])
        if "t" in names:
            words["axes"] = names
    owners = table.pop("object", None)
    piece = Piece(kind or "point_cloud", points, attributes=table, words=words)
    if kind in CHAINS:
        piece.offsets, piece.part_ids = _runs(len(points), owners, table.pop("part", None))
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


def _of_trimesh(thing: Any, kind: str | None = None) -> Piece:
    """A mesh with the attributes of its vertices and faces; colours are ``color``, normals ``normal``, places in a texture ``uv``."""
    faces = indices(np.asarray(thing.faces), "faces")
    piece = Piece("mesh", positions(np.asarray(thing.vertices), "vertices"), faces=faces)
    piece.attributes = {str(k): np.asarray(v) for k, v in dict(getattr(thing, "vertex_attributes", {}) or {}).items()}
    piece.element_attributes = {str(k): np.asarray(v) for k, v in dict(getattr(thing, "face_attributes", {}) or {}).items()}
    visual: Any = getattr(thing, "visual", None)
    look = getattr(visual, "kind", None)
    if look == "vertex":
        piece.attributes.setdefault("color", np.asarray(visual.vertex_colors))
    elif look == "face":
        piece.element_attributes.setdefault("color", np.asarray(visual.face_colors))
    elif look == "texture":
        if getattr(visual, "uv", None) is not None:
            piece.attributes.setdefault("uv", np.asarray(visual.uv, dtype=np.float32))
        lose("the mesh: its material and the image of its texture are not stored, only uv, the places in it")
    known = getattr(getattr(thing, "_cache", None), "cache", {})  # normals that were given, or made; none are made for this
    if "vertex_normals" in known:
        piece.attributes.setdefault("normal", np.asarray(known["vertex_normals"]))
    _lose_metadata("the mesh", thing)
    return piece


def _lose_metadata(what: str, thing: Any) -> None:
    """Tells of what an object says of itself besides where its file is."""
    said = [str(k) for k, v in dict(getattr(thing, "metadata", None) or {}).items() if not str(k).startswith("file") and v is not None]
    if said:
        lose(f"{what}: its metadata ({', '.join(sorted(said))}) is not stored; zvf.create has metadata= for it")


def _of_points(thing: Any, kind: str | None) -> Piece:
    """A cloud of trimesh."""
    piece = Piece(kind or "point_cloud", positions(np.asarray(thing.vertices), "vertices"))
    colours = np.asarray(getattr(thing, "colors", np.zeros(0)))
    if colours.ndim == 2 and len(colours) == len(piece.positions):
        piece.attributes["color"] = colours
    _lose_metadata("the cloud", thing)
    return piece


def _of_path(thing: Any, kind: str | None) -> Piece:
    """A path of trimesh: each entity is a line, curves as the points that they are drawn by."""
    points, cuts = join_lines([entity.discrete(thing.vertices) for entity in thing.entities])
    if any(type(entity).__name__ != "Line" for entity in thing.entities):
        lose("the path: its curves are stored as lines")
    piece = Piece(kind or "polyline", points, offsets=cuts)
    layers = [getattr(entity, "layer", None) for entity in thing.entities]
    if any(layer is not None for layer in layers):
        piece.object_attributes["layer"] = np.array([None if layer is None else str(layer) for layer in layers], dtype=object)
    _lose_metadata("the path", thing)
    return piece


def _of_scene(thing: Any, kind: str | None) -> Piece:
    """A scene of trimesh: each node with geometry is an object, in its place, with its name."""
    pieces, names = [], []
    for node in thing.graph.nodes_geometry:
        place, name = thing.graph[node]
        pieces.append(piece_of(thing.geometry[name].copy().apply_transform(place)))
        names.append(str(node))
    kinds = sorted({piece.kind for piece in pieces})
    if len(kinds) != 1 or kinds[0] in CHAINS:
        raise ArgumentError(f"a scene needs meshes, or clouds, and has {', '.join(kinds) or 'nothing'}: write each of scene.geometry")
    joined = Piece(kinds[0], np.concatenate([piece.positions for piece in pieces]))
    sizes = [len(piece.positions) for piece in pieces]
    joined.object_ids = np.repeat(np.arange(len(pieces)), sizes)
    joined.objects, joined.object_attributes = np.arange(len(pieces)), {"name": names}
    joined.attributes = _in_all([piece.attributes for piece in pieces])
    if kinds == ["mesh"]:
        starts = np.cumsum([0, *sizes[:-1]])
        joined.faces = np.concatenate([piece.faces + start for piece, start in zip(pieces, starts)])
        joined.element_attributes = _in_all([piece.element_attributes for piece in pieces])
    _lose_metadata("the scene", thing)
    return joined


def _in_all(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns that all have, one after the other; the others are told."""
    names = dict.fromkeys(name for own in columns for name in own)
    shapes = {name: {np.asarray(own[name]).shape[1:] for own in columns if name in own} for name in names}
    common = [name for name in names if all(name in own for own in columns) and len(shapes[name]) == 1]
    for name in names:
        if name not in common:
            lose(f"the scene: only some of its parts have {name!r}, which is not stored")
    return {name: np.concatenate([np.asarray(own[name]) for own in columns]) for name in common}


def _of_tractogram(thing: Any, kind: str | None) -> Piece:
    """A tractogram of nibabel, or a file of one, in RAS millimetres."""
    header = getattr(thing, "header", None)
    if header:
        lose("the tractogram: the header of its file is not stored; zvf.ingest of the file keeps it")
    tracts = getattr(thing, "tractogram", thing)
    lines = [np.asarray(line) for line in tracts.streamlines]
    if not lines:
        raise ArgumentError("the tractogram has no streamlines")
    affine = getattr(tracts, "affine_to_rasmm", None)
    if affine is not None and not np.array_equal(affine, np.eye(4)):
        place = np.asarray(affine, dtype=np.float64)
        lines = [(line @ place[:3, :3].T + place[:3, 3]).astype(line.dtype) for line in lines]
    points, cuts = join_lines(lines)
    piece = Piece(kind or "streamline", points, offsets=cuts, words={"unit": "millimeter"})

    def narrow(rows: Any) -> np.ndarray:
        array = np.asarray(rows)
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array

    for name, each in dict(getattr(tracts, "data_per_point", None) or {}).items():
        piece.attributes[str(name)] = narrow(np.concatenate([np.asarray(rows) for rows in each]))
    for name, rows in dict(getattr(tracts, "data_per_streamline", None) or {}).items():
        piece.object_attributes[str(name)] = narrow(np.stack([np.asarray(row) for row in rows]))
    piece.groups = {str(name): np.asarray(members).ravel() for name, members in dict(getattr(tracts, "groups", None) or {}).items()}
    return piece


def _of_geometries(frame: Any, kind: str | None) -> Piece:
    """A frame of geopandas: points are a cloud, lines are lines with a column for each."""
    shapes = list(frame.geometry)
    types = {getattr(shape, "geom_type", None) for shape in shapes}
    if len(types) != 1 or not types <= {"Point", "LineString"}:
        found = ", ".join(sorted(str(name) for name in types)) or "none"
        raise wrong_value("a frame of geometries", "Point or LineString, all of one type", f"{found}: frame.explode() makes one of many")
    rows = frame.drop(columns=frame.geometry.name)
    coordinates = [np.asarray(shape.coords) for shape in shapes]
    words = {} if frame.crs is None else {"crs": frame.crs.to_json_dict()}
    table = {str(name): rows[name] for name in rows.columns}
    if types == {"Point"}:
        return Piece(kind or "point_cloud", positions(np.concatenate(coordinates)), attributes=table, words=words)
    points, cuts = join_lines(coordinates)
    return Piece(kind or "polyline", points, offsets=cuts, object_attributes=table, words=words)


def _of_meshio(thing: Any, kind: str | None = None) -> Piece:
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
    """Nodes with ``pos``; their names are the column ``node``, and what all nodes and what all edges say else are columns."""
    nodes = list(thing.nodes(data=True))
    place = {node: i for i, (node, _) in enumerate(nodes)}
    missing = [node for node, data in nodes if "pos" not in data]
    if missing:
        raise ArgumentError(f'the node {missing[0]!r} has no position: give each a "pos"')
    axes = len(nodes[0][1]["pos"]) if nodes else 3
    xyz = np.array([data["pos"] for _, data in nodes], dtype=np.float64).reshape(-1, axes)
    is_multi = bool(getattr(thing, "is_multigraph", lambda: False)())
    links = [(a, b, {**data, "key": key[0]} if is_multi else data) for a, b, *key, data in thing.edges(data=True, **({"keys": True} if is_multi else {}))]
    edges = np.array([(place[a], place[b]) for a, b, _ in links], dtype=np.int64).reshape(-1, 2)
    is_directed = bool(getattr(thing, "is_directed", lambda: False)())
    piece = Piece(kind or "graph", positions(xyz), edges=edges, directed=is_directed)
    piece.attributes = {"node": _names([node for node, _ in nodes]), **_common([data for _, data in nodes], without="pos")}
    if thing.graph:
        lose(f"the graph: what it says of itself ({', '.join(sorted(map(str, thing.graph)))}) is not stored; zvf.create has metadata= for it")
    piece.element_attributes = _common([data for _, _, data in links])
    return piece


def _names(nodes: list[Any]) -> np.ndarray:
    """The names of nodes, as rows of a store have another order than nodes have."""
    if all(isinstance(node, str) for node in nodes) or all(isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in nodes):
        return np.array(nodes, dtype=object)
    lose("the graph: names of nodes that are not all text, or all whole numbers, are stored as text")
    return np.array([str(node) for node in nodes], dtype=object)


def _common(rows: list[dict[Any, Any]], without: str | None = None) -> dict[str, Any]:
    """The columns that every row has; one that only some have is an error, as a column has a value for each row."""
    names = dict.fromkeys(name for row in rows for name in row if name != without)
    for name in names:
        lacking = sum(name not in row for row in rows)
        if lacking:
            raise ArgumentError(f"{name!r}: {lacking} of {len(rows)} have none: give each a value, or remove it")
    return {str(name): as_array([row[name] for row in rows], f"column {str(name)!r}") for name in names}


_LIBRARIES: list[tuple[Callable[[Any], bool], Callable[[Any, str | None], Piece]]] = [
    # Frames first: their columns are attributes of them, whatever they are called.
    (lambda thing: hasattr(thing, "iloc") and hasattr(type(thing), "crs"), _of_geometries),
    (_has("iloc", "columns"), _of_frame),
    (_has("streamlines"), _of_tractogram),
    (_has("tractogram"), _of_tractogram),
    (_has("geometry", "graph", "dump"), _of_scene),
    (_has("vertices", "faces"), _of_trimesh),
    (_has("vertices", "entities"), _of_path),
    (_has("vertices", "colors"), _of_points),
    (_has("points", "cells"), _of_meshio),
    (lambda thing: hasattr(thing, "edges") and callable(getattr(thing, "nodes", None)), _of_networkx),
    (_has("collect", "collect_schema"), lambda thing, kind: _of_table(arrow_table(thing.collect()), kind)),
    (_has("__arrow_c_stream__"), lambda thing, kind: _of_table(arrow_table(thing), kind)),
    (lambda thing: isinstance(thing, Mapping), lambda thing, kind: _of_table(dict(thing), kind)),
    (lambda thing: isinstance(thing, np.ndarray) and thing.dtype.names is not None, _of_records),
    (lambda thing: isinstance(thing, np.ndarray) and thing.dtype.kind != "O", _of_array),
]
