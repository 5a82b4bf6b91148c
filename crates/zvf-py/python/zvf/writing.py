"""Stores from arrays, Arrow tables, data frames, and objects with meshes, graphs or lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import as_array, column_of_lines, columns, indices, join_lines, named, positions, sizes
from ._creating import axes_of, binned_of, chunk_bytes_of, chunk_shape_for, codecs_json, declared_of, folder_of, shard_of
from ._jobs import address_of, storage_pairs
from ._pieces import piece_of
from ._words import as_json, byte_count, corners, text_of, whole_of
from .datasets import Dataset
from .errors import ArgumentError, shown, wrong_value
from .writer import Writer

_KINDS = ("point_cloud", "line", "polyline", "streamline", "graph", "skeleton", "mesh")


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
    """Begin to write a store in pieces: see :class:`Writer`.

    Args:
        kind: ``point_cloud``, ``line``, ``polyline``, ``streamline``, ``graph``, ``skeleton`` or ``mesh``; several for a
            store of several kinds: each call of :meth:`Writer.push` then names one.
        ndim: the number of coordinates of a vertex, 1 to 8.
        chunk: the size of a chunk, one number or one for each axis; or its size in bytes, such as ``"256KiB"``: then
            the first points determine its shape.
        bins: the size of a bin; a chunk holds a whole number of bins.
        bounds: the declared lowest and highest corner [default: those of the data].
        outside: what to do about vertices outside the declared bounds: ``raise`` an error, ``ignore`` points, or ``expand``.
        axes: a name for each axis, or a mapping with ``name``, ``unit`` and ``type``; ``x``, ``y``, ``z`` by default.
        unit: the unit of axes that do not state one, such as ``"micrometer"``.
        shard: the number of chunks per shard on each axis, such as ``[4, 4, 4]``; by default each chunk is a file.
        codec: ``None``, ``"zstd"``, ``"zstd:9"``, ``"gzip"``, ``"blosc"``, or a list of Zarr codecs.
        overwrite: replace an existing store, in one step once the new one is complete.
        memory: the memory limit, such as ``"2GiB"``; data beyond it is spilled to ``scratch``.
        scratch: the folder for spilled data [default: that for temporary files].
        compat: write cells exactly as zarr-vectors does.
        explicit: store every edge of a skeleton; edges with attributes need it.
        directed: edges have a direction, which is kept.
        name: the name of the store.
        crs: the coordinate system, as JSON.
        metadata: your own metadata, by name, as JSON values.
        declared: attributes that are declared in advance: by scope (``vertex``, ``object``, ...) and name, a mapping with
            ``dtype``, ``channels``, ``categorical``, ``unit`` and ``description``.
        binned_by: the name of an attribute and its values: each value gets its own chunks.
        storage_options: options of the backend, as for :func:`zvf.open`.
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
    """Create a point cloud; other arguments are those of :func:`create`.

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
    """Create a store from any supported object; other arguments are those of :func:`create`.

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
