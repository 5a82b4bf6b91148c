"""Stores from arrays, Arrow tables, data frames and things that look like meshes, graphs or lines."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _zvf
from ._arrays import as_array, column_of_lines, columns, given, indices, join_lines, named, positions, sizes
from ._creating import axes_of, binned_of, chunk_bytes_of, chunk_shape_for, codecs_json, declared_of, folder_of, shard_of
from ._jobs import address_of, reporter, storage_pairs
from ._pieces import CHAINS, Piece, is_thing, piece_of
from ._words import as_json, byte_count, corners, text_of, whole_of
from .datasets import Dataset
from .errors import ArgumentError, ArgumentTypeError, ExistsError, shown, wrong_type, wrong_value

_KINDS = ("point_cloud", "line", "polyline", "streamline", "graph", "skeleton", "mesh")
_RUNS = ("polyline", "streamline")


class Writer:
    """A store that is written in pieces; nothing is seen of it before the end, and an exception leaves none.

    >>> import numpy as np, tempfile, zvf
    >>> at = tempfile.mkdtemp() + "/tracts.zarrvectors"
    >>> with zvf.create(at, kind="streamline", ndim=3, chunk=50.0) as w:
    ...     for i in range(3):
    ...         w.push(lines=[np.full((4, 3), 10.0 * i)])
    >>> zvf.open(at).count()
    12
    """

    def __init__(self, address: str, words: dict[str, Any]) -> None:
        self.address = address
        self.kind = words["kind"]
        self._ndim = len(words["axes"])
        self._storage = words["storage"]
        self._words = words
        self._default = self.kind if words["also"] else None  # the native half may put another one first
        self._begun: Any = None
        if words["chunk_shape"] is not None:
            self._begin()  # what cannot be written is refused here, not by the first push
        self._next = 0  # the id of the next object that has none
        self._vertices = 0
        self.report: dict[str, Any] | None = None

    def _begin(self, points: np.ndarray | None = None) -> Any:
        """The native writer; a chunk given in bytes gets its shape from the first points."""
        if self._begun is None:
            chunk = self._words.pop("chunk_bytes", None)
            if chunk is not None:
                first = np.zeros((0, self._ndim)) if points is None else points
                self._words["chunk_shape"] = chunk_shape_for(first, f"{chunk}b")
            try:
                self._begun = _zvf.create(self.address, self._words).wait()
            except ExistsError as error:
                hint = "give another name, or overwrite=True to replace it"
                error.reword(f"cannot write {self.address}: there is something already; {hint}", hint)
                raise
        return self._begun

    def _ids_of(self, piece: Piece) -> Any:
        """The objects of the piece that was pushed last, in the order that columns of them have."""
        if piece.objects is not None:
            return piece.objects
        if piece.offsets is not None:
            count = len(piece.offsets) - 1
            return np.arange(self._next - count, self._next) if piece.part_ids is None else piece.part_ids
        if piece.object_ids is not None:
            return np.unique(indices(piece.object_ids, "object_ids"))
        if piece.kind == "point_cloud":
            raise ArgumentError("columns of objects need the objects: give object_ids")
        return [0]  # vertices of a graph or a mesh without ids are those of one object

    def _push_piece(self, piece: Piece, kind: str | None) -> None:
        """Adds a piece, as the kind that it is."""
        own = kind or (piece.kind if piece.kind in (self.kind, *self._words["also"]) else self.kind)
        if own in CHAINS and piece.offsets is None and len(piece.positions):
            raise ArgumentError(f"a {piece.kind} has no lines and cannot be added to a store of the kind {own}")
        self.push(piece.positions, kind=own if self._default else None, **piece.push_words())
        if piece.object_attributes:
            self.objects(self._ids_of(piece), piece.object_attributes, kind=own if self._default else None)

    def push(
        self,
        positions: Any = None,
        *,
        lines: Sequence[Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        object_ids: Any = None,
        offsets: Any = None,
        part_ids: Any = None,
        edges: Any = None,
        faces: Any = None,
        element_attributes: Mapping[str, Any] | None = None,
        part_attributes: Mapping[str, Any] | None = None,
        kind: str | None = None,
    ) -> None:
        """Add geometry.

        Args:
            positions: one row a vertex; of lines and streamlines without ``offsets``, one object. Or whatever
                :func:`zvf.write` takes: an answer, a batch of a query, a table, a frame, a mesh, a graph; then alone.
            lines: many arrays of positions, each an object; instead of ``positions``. A list of such arrays that is given
                as ``positions`` is taken for this.
            attributes: columns of vertices; of ``lines`` also a list with one array for each.
            object_ids: the object of each vertex; of lines, of each line.
            offsets: where parts begin in ``positions``, and where the last one ends.
            part_ids: the object of each part.
            edges: pairs of rows of this call.
            faces: rows of this call, three a face or more.
            kind: of a store of several kinds, which; the first one unless said.
        """
        from ._arrays import positions as as_positions

        if lines is None and is_thing(positions):
            others = {"attributes": attributes, "object_ids": object_ids, "offsets": offsets, "part_ids": part_ids, "edges": edges}
            others.update(faces=faces, element_attributes=element_attributes, part_attributes=part_attributes)
            if given_too := [name for name, value in others.items() if value is not None]:
                raise ArgumentTypeError(f"push: a {type(positions).__name__} has its own {', '.join(given_too)}: leave these out, or give arrays")
            chains = kind or self.kind
            self._push_piece(piece_of(positions, chains if chains in CHAINS else None), kind)
            return
        if lines is None and isinstance(positions, (list, tuple)) and any(np.ndim(part) == 2 for part in positions):
            positions, lines = None, positions
        if (positions is None) == (lines is None):
            raise ArgumentTypeError("give either positions or lines")
        if lines is not None:
            points, cuts = join_lines(lines)
            columns_given = {k: column_of_lines(k, v, cuts) for k, v in named("attributes", attributes).items()}
            ids = part_ids if part_ids is not None else object_ids
            object_ids, offsets, part_ids = None, cuts, ids
        else:
            points = as_positions(positions)
            columns_given = named("attributes", attributes)
            if (kind or self.kind) in _RUNS and offsets is None and object_ids is None and len(points):
                offsets = [0, len(points)]
        if points.shape[1] != self._ndim:
            raise wrong_value("positions", f"{self._ndim} coordinates a row", str(points.shape[1]))
        parts = None
        if offsets is not None:
            cuts = indices(offsets, "offsets", len(points) + 1)
            if cuts.ndim != 1 or len(cuts) < 1 or cuts[0] != 0 or cuts[-1] != len(points) or (np.diff(cuts) < 0).any():
                raise wrong_value("offsets", f"ascending numbers from 0 to {len(points)}", shown(cuts))
            count = len(cuts) - 1
            if part_ids is None:
                ids = np.arange(self._next, self._next + count)
            else:
                ids = indices(part_ids, "part_ids").ravel()
                if len(ids) != count:
                    raise wrong_value("part_ids", f"{count}, one a part", str(len(ids)))
            self._next = max(self._next, int(ids.max(initial=-1)) + 1)
            parts = (cuts.tolist(), ids.tolist())
        owners = None
        if object_ids is not None:
            owners = indices(object_ids, "object_ids").ravel()
            if len(owners) != len(points):
                raise wrong_value("object_ids", f"{len(points)}, one a vertex", str(len(owners)))
            owners = owners.tolist()
        elements = None
        joined = edges if edges is not None else faces
        if edges is not None and faces is not None:
            raise ArgumentTypeError("give either edges or faces")
        if joined is not None:
            name, width, each = ("edges", 2, "two vertices each") if edges is not None else ("faces", 3, "three vertices each, or more")
            rows = indices(joined, name, len(points))
            if rows.size and (rows.ndim != 2 or rows.shape[1] < width or (rows.shape[1] > width and edges is not None)):
                raise wrong_value(name, each, f"the shape {rows.shape}")
            elements = (int(rows.shape[1]) if rows.size else width, rows.ravel().tolist())
        count = 0 if elements is None else len(elements[1]) // elements[0]
        self._begin(points).push(
            given(points),
            columns(columns_given, len(points)),
            parts,
            owners,
            columns(part_attributes, None if parts is None else len(parts[1]), "part_attributes"),
            elements,
            columns(element_attributes, count, "element_attributes") if element_attributes else [],
            kind or self._default,
        ).wait()
        self._vertices += len(points)

    def objects(self, ids: Any, attributes: Mapping[str, Any] | None = None, *, kind: str | None = None) -> None:
        """Say that objects exist, and what their attributes are."""
        wanted = indices(ids, "ids").ravel()
        self._begin().object_columns(wanted.tolist(), columns(attributes, len(wanted), "object_attributes"), kind or self._default).wait()

    def group(self, name: str | None, members: Any) -> None:
        """Add a group of objects."""
        label = None if name is None else text_of("the name of a group", name)
        what = "members" if name is None else f"members of the group {name!r}"
        self._begin().group(label, indices(members, what).ravel().tolist()).wait()

    def finish(self, *, progress: Any = None) -> dict[str, Any]:
        """Write everything and make the store visible; returns what was written."""
        advance, end = reporter(progress, "write")
        try:
            report: dict[str, Any] = self._begin().finish().wait(advance)
        finally:
            end()
        self.report = report
        return report

    def abandon(self) -> None:
        """Give up: there is no store, and nothing of it; after Ctrl-C what was put aside is removed meanwhile."""
        if self._begun is not None:
            self._begun.abandon()
            if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                _zvf.settle(60.0)

    def __repr__(self) -> str:
        end = "" if self.report is None else ", finished"
        return f"<zvf.Writer {self.address!r}: {self.kind}, {self._vertices} vertices{end}>"

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.abandon()
        elif self.report is None:
            self.finish()


def create(
    at: Any,
    *,
    kind: str | Sequence[str] = "point_cloud",
    ndim: int = 3,
    chunk: Any = 100.0,
    bins: Any = None,
    bounds: Any = None,
    axes: Sequence[Any] | None = None,
    unit: str | None = None,
    shard: Sequence[int] | None = None,
    codec: Any = None,
    outside: str = "raise",
    overwrite: bool = False,
    memory: Any = None,
    scratch: Any = None,
    compat: bool = False,
    explicit: bool = False,
    directed: bool = False,
    name: str | None = None,
    crs: Any = None,
    metadata: Mapping[str, Any] | None = None,
    declared: Mapping[str, Mapping[str, Any]] | None = None,
    binned_by: tuple[str, Sequence[Any]] | None = None,
    storage_options: Any = None,
) -> Writer:
    """Begin a store that is written in pieces: see :class:`Writer`.

    Args:
        kind: ``point_cloud``, ``line``, ``polyline``, ``streamline``, ``graph``, ``skeleton`` or ``mesh``; several for a
            store of several kinds, each call of :meth:`Writer.push` then says which.
        chunk: the size of a chunk, one number or one for each axis; or how many bytes one is to have, such as
            ``"256KiB"``: then the first points that are pushed say how large that is.
        bins: the size of a bin, of which a chunk has a whole number.
        bounds: lowest and highest corner that are declared; ``outside`` says what becomes of other vertices.
        codec: ``None``, ``"zstd"``, ``"zstd:9"``, ``"gzip"``, ``"blosc"``, or steps as Zarr has them.
        memory: bytes that may be held, such as ``"2GiB"``; more is put aside in ``scratch``.
        compat: write cells exactly as the reference does.
    """
    kinds = [kind] if isinstance(kind, str) or not hasattr(kind, "__iter__") else list(kind)
    if not kinds or any(one not in _KINDS for one in kinds):
        raise wrong_value("kind", f"one of {', '.join(_KINDS)}", shown(kind))
    ndim = whole_of("ndim", ndim)
    if not 1 <= ndim <= 8:
        raise wrong_value("ndim", "1 to 8", str(ndim))
    address, own = address_of(at)
    chunk_bytes = chunk_bytes_of(chunk)
    shape = None if chunk_bytes else sizes("chunk", chunk, ndim)
    words = {
        "kind": kinds[0],
        "also": kinds[1:],
        "axes": axes_of(axes, unit, ndim),
        "chunk_shape": shape,
        "chunk_bytes": chunk_bytes,
        "bin_shape": None if bins is None else sizes("bins", bins, ndim),
        "bounds": None if bounds is None else corners("bounds", bounds),
        "shard_shape": None if shard is None else shard_of(shard),
        "codecs": codecs_json(codec),
        "outside": text_of("outside", outside),
        "compat": bool(compat),
        "replace": bool(overwrite),
        "explicit": bool(explicit),
        "directed": bool(directed),
        "name": None if name is None else text_of("name", name),
        "crs": None if crs is None else as_json("crs", crs),
        "user_metadata": [(str(k), as_json(f"metadata[{k!r}]", v)) for k, v in named("metadata", metadata, "names to values").items()],
        "declared": declared_of(declared),
        "binned_by": None if binned_by is None else binned_of(binned_by),
        "memory": byte_count("memory", memory),
        "scratch": None if scratch is None else folder_of(scratch),
        "storage": [*own, *storage_pairs(storage_options)],
    }
    return Writer(address, words)


def _named_groups(groups: Any) -> dict[str, np.ndarray]:
    """Members by the name of each group, looked at before anything is begun."""
    found = named("groups", groups, "names to the ids of members")
    return {str(label): indices(members, f"members of the group {label!r}").ravel() for label, members in found.items()}


def _finished(writer: Writer, groups: Mapping[str, Any], progress: Any) -> Dataset:
    for label, members in groups.items():
        writer.group(label, members)
    writer.finish(progress=progress)
    return Dataset(writer.address, writer._storage)


def _open_writer(at: Any, points: np.ndarray, kind: str, words: dict[str, Any]) -> Writer:
    chunk = chunk_shape_for(points, words.pop("chunk", None))
    return create(at, kind=kind, ndim=points.shape[1], chunk=chunk, **words)


def points(
    at: Any,
    xyz: Any,
    *,
    attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    progress: Any = None,
    **words: Any,
) -> Dataset:
    """Create a point cloud; further words are those of :func:`create`.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), attributes={"word": ["a", "b", "a"]})
    >>> sorted(ds.read()["word"].tolist())
    ['a', 'a', 'b']
    """
    array = positions(xyz)
    cols, owned, sets = named("attributes", attributes), named("object_attributes", object_attributes), _named_groups(groups)
    columns(cols, len(array))  # refused before anything is begun
    if owned and object_ids is None:
        raise wrong_value("object_attributes", "the objects that they are of, object_ids=", "none")
    writer = _open_writer(at, array, "point_cloud", words)
    with _abandoning(writer):
        writer.push(array, attributes=cols, object_ids=object_ids)
        if owned:
            writer.objects(np.unique(indices(object_ids, "object_ids")), owned)
        return _finished(writer, sets, progress)


def polylines(
    at: Any,
    lines: Sequence[Any],
    *,
    attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    streamlines: bool = False,
    progress: Any = None,
    **words: Any,
) -> Dataset:
    """Create polylines, each an object; attributes are one array over all vertices, or one for each line."""
    joined, cuts = join_lines(lines)
    cols = {k: column_of_lines(k, v, cuts) for k, v in named("attributes", attributes).items()}
    owned, sets = named("object_attributes", object_attributes), _named_groups(groups)
    writer = _open_writer(at, joined, "streamline" if streamlines else "polyline", words)
    with _abandoning(writer):
        writer.push(joined, offsets=cuts, part_ids=object_ids, attributes=cols)
        if owned:
            writer.objects(np.arange(len(cuts) - 1) if object_ids is None else object_ids, owned)
        return _finished(writer, sets, progress)


def lines(at: Any, endpoints: Any, *, attributes: Mapping[str, Any] | None = None, object_attributes: Mapping[str, Any] | None = None, groups: Mapping[Any, Any] | None = None, progress: Any = None, **words: Any) -> Dataset:
    """Create lines of two ends: an array of the shape (lines, 2, axes)."""
    array = as_array(endpoints, "endpoints")
    if array.ndim != 3 or array.shape[1] != 2:
        raise wrong_value("endpoints", "the shape (lines, 2, axes)", str(array.shape))
    flat = positions(array.reshape(2 * len(array), array.shape[2]), "endpoints")
    cols, owned, sets = named("attributes", attributes), named("object_attributes", object_attributes), _named_groups(groups)
    count = len(array)
    writer = _open_writer(at, flat, "line", words)
    with _abandoning(writer):
        writer.push(flat, offsets=np.arange(0, 2 * count + 1, 2), attributes=cols)
        if owned:
            writer.objects(np.arange(count), owned)
        return _finished(writer, sets, progress)


def graph(
    at: Any,
    xyz: Any,
    edges: Any,
    *,
    attributes: Mapping[str, Any] | None = None,
    edge_attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    tree: bool = False,
    progress: Any = None,
    **words: Any,
) -> Dataset:
    """Create a graph, or with ``tree`` a skeleton; edges are pairs of rows, of a skeleton child and parent."""
    array = positions(xyz)
    rows = indices(edges, "edges", len(array))
    if rows.size and (rows.ndim != 2 or rows.shape[1] != 2):
        raise wrong_value("edges", "two rows of vertices each", f"the shape {rows.shape}")
    links = named("edge_attributes", edge_attributes)
    cols, owned, sets = named("attributes", attributes), named("object_attributes", object_attributes), _named_groups(groups)
    if links and tree:
        words.setdefault("explicit", True)
    writer = _open_writer(at, array, "skeleton" if tree else "graph", words)
    with _abandoning(writer):
        writer.push(array, edges=rows.reshape(-1, 2), attributes=cols, object_ids=object_ids, element_attributes=links)
        if owned:
            writer.objects(_owners(object_ids), owned)
        return _finished(writer, sets, progress)


def _owners(object_ids: Any) -> Any:
    """The objects of vertices, each once: without ids all are of one object."""
    return [0] if object_ids is None else np.unique(indices(object_ids, "object_ids"))


def mesh(
    at: Any,
    vertices: Any,
    faces: Any,
    *,
    attributes: Mapping[str, Any] | None = None,
    face_attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    progress: Any = None,
    **words: Any,
) -> Dataset:
    """Create a mesh; faces are rows of vertices."""
    array = positions(vertices, "vertices")
    rows = indices(faces, "faces", len(array))
    if rows.ndim != 2 or rows.shape[1] < 3:
        raise wrong_value("faces", "three vertices a face or more", f"the shape {rows.shape}")
    links = named("face_attributes", face_attributes)
    cols, owned, sets = named("attributes", attributes), named("object_attributes", object_attributes), _named_groups(groups)
    writer = _open_writer(at, array, "mesh", words)
    with _abandoning(writer):
        writer.push(array, faces=rows, attributes=cols, object_ids=object_ids, element_attributes=links)
        if owned:
            writer.objects(_owners(object_ids), owned)
        return _finished(writer, sets, progress)


class _abandoning:
    """Gives a writer up when something fails under it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.writer.abandon()


def write(at: Any, thing: Any, *, kind: str | None = None, progress: Any = None, **words: Any) -> Dataset:
    """Create a store from whatever it is; further words are those of :func:`create`.

    Answers, queries and datasets, as the kind that they are; tables that speak Arrow (``__arrow_c_stream__``) with columns
    ``x``, ``y``, ``z`` or ``position``; pandas frames; meshes with ``vertices`` and ``faces`` (trimesh) or ``points`` and
    ``cells`` (meshio); graphs with ``nodes`` and ``edges`` (networkx, each node with ``pos``); mappings of columns; arrays;
    lists of arrays. ``kind`` says what tables, arrays and lists are to be: a table as ``streamline`` has a line for each run
    of one ``part``, or of one ``object``.

    >>> import numpy as np, tempfile, zvf
    >>> folder = tempfile.mkdtemp()
    >>> tracts = zvf.write(folder + "/tracts.zarrvectors", [np.zeros((3, 2)), np.ones((4, 2))])
    >>> zvf.write(folder + "/some.zarrvectors", tracts.select(objects=[1])).kinds
    ('polyline',)
    """
    streamlines, tree = bool(words.pop("streamlines", False)), bool(words.pop("tree", False))
    piece = piece_of(thing, kind)
    if kind is None and (streamlines or tree):
        piece.kind = {"polyline": "streamline", "graph": "skeleton"}.get(piece.kind, piece.kind)
    elif kind is not None and piece.kind != kind:
        raise ArgumentError(f"kind: this is a {piece.kind} and cannot be written as {kind!r}")
    for name in ("attributes", "object_attributes"):
        getattr(piece, name).update(named(name, words.pop(name, None)))
    owners, sets = words.pop("object_ids", None), _named_groups(words.pop("groups", None))
    if owners is not None and piece.offsets is not None:
        piece.part_ids = owners
    elif owners is not None:
        piece.object_ids = owners
    columns(piece.attributes, len(piece.positions))  # refused before anything is begun
    words.setdefault("directed", piece.directed)
    if piece.kind == "skeleton" and piece.element_attributes:
        words.setdefault("explicit", True)
    writer = _open_writer(at, piece.positions, piece.kind, words)
    with _abandoning(writer):
        writer._push_piece(piece, None)
        return _finished(writer, sets, progress)
