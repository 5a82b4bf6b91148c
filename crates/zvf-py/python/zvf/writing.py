"""Stores from arrays, Arrow tables, data frames, and objects with meshes, graphs or lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import as_array, column_of_lines, indices, join_lines, named, positions, sizes
from ._creating import CHUNK_BYTES, axes_of, binned_of, chunk_bytes_of, chunk_shape_for, codecs_json, declared_of, folder_of, shard_of
from ._jobs import address_of, storage_pairs
from ._keywords import StoreWords, keywords
from ._losses import door
from ._pieces import Piece, piece_of
from ._words import as_json, byte_count, corners, text_of, whole_of
from .datasets import Dataset
from .errors import ArgumentError, shown, wrong_value
from .writer import Writer

if TYPE_CHECKING:
    from typing_extensions import Unpack

_KINDS = ("point_cloud", "line", "polyline", "streamline", "graph", "skeleton", "mesh")


def create(
    at: Any,
    *,
    kind: str | Sequence[str] = "point_cloud",
    ndim: int = 3,
    chunk: Any = None,
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
    strict: bool = False,
) -> Writer:
    """Begin to write a store in pieces: see :class:`Writer`.

    Args:
        kind: ``point_cloud``, ``line``, ``polyline``, ``streamline``, ``graph``, ``skeleton`` or ``mesh``; several for a
            store of several kinds: each call of :meth:`Writer.push` then names one.
        ndim: the number of coordinates of a vertex, 1 to 8.
        chunk: the size of a chunk, one number or one for each axis; or its size in bytes [default: ``"256KiB"``]: then the
            first million points, or all, determine its shape; they are held until then.
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
        strict: whether what cannot be stored as it is is an error, and not a :class:`zvf.LossWarning`.
    """
    kinds = [kind] if isinstance(kind, str) or not hasattr(kind, "__iter__") else list(kind)
    if not kinds or any(one not in _KINDS for one in kinds):
        raise wrong_value("kind", f"one of {', '.join(_KINDS)}", shown(kind))
    ndim = whole_of("ndim", ndim)
    if not 1 <= ndim <= 8:
        raise wrong_value("ndim", "1 to 8", str(ndim))
    address, own = address_of(at)
    chunk_bytes = CHUNK_BYTES if chunk is None else chunk_bytes_of(chunk)
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
    return Writer(address, words, strict=strict)


def _store(at: Any, piece: Piece, words: Any, progress: Any) -> Dataset:
    """The store of a piece, which is looked at before anything is begun."""
    words = {**piece.words, **words}
    strict = bool(words.pop("strict", False))
    with door(strict):
        piece.read_columns()
        if piece.kind == "skeleton" and piece.element_attributes:
            words.setdefault("explicit", True)
        words.setdefault("directed", piece.directed)
        chunk = chunk_shape_for(piece.positions, words.pop("chunk", None))
        writer = create(at, kind=piece.kind, ndim=piece.positions.shape[1], chunk=chunk, **words)
        try:
            writer._push_piece(piece, None)
            for label, members in piece.groups.items():
                writer.group(label, members)
            writer.finish(progress=progress)
        except BaseException:
            writer.abandon()
            raise
    return Dataset(writer.address, writer._storage)


@keywords(StoreWords)
def points(
    at: Any,
    xyz: Any,
    *,
    attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    progress: Any = None,
    **words: Unpack[StoreWords],
) -> Dataset:
    """Create a point cloud; other arguments are those of :func:`create`.

    Args:
        at: the path or the URL of the new store.
        xyz: coordinates of the shape (points, axes), of float32 or float64; others become float64.
        attributes: columns by name, a row for each point: numbers, text, times, each also with missing values.
        object_ids: the object of each point, whole numbers from 0 on.
        object_attributes: columns by name, a row for each object in ascending order of ids.
        groups: ids of objects by the name of the group.
        progress: a callable that takes what is done and the total, or ``True`` for a bar of tqdm.

    Returns:
        The dataset, which is complete.

    Raises:
        ArgumentError, ArgumentTypeError: something cannot be stored; nothing is created.
        ExistsError: there is something at this place, and no ``overwrite=True``.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), attributes={"word": ["a", "b", "a"]})
    >>> sorted(ds.read()["word"].tolist())
    ['a', 'a', 'b']
    """
    piece = Piece("point_cloud", positions(xyz), object_ids=object_ids).with_columns(attributes, object_attributes, groups)
    if piece.object_attributes and object_ids is None:
        raise wrong_value("object_attributes", "the objects that they are of, object_ids=", "none")
    return _store(at, piece, words, progress)


@keywords(StoreWords)
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
    **words: Unpack[StoreWords],
) -> Dataset:
    """Create polylines, each an object; other arguments are those of :func:`create`.

    Args:
        at: the path or the URL of the new store.
        lines: coordinates of each line, arrays of the shape (vertices, axes).
        attributes: columns by name: one array over all vertices, or a list with an array for each line.
        object_ids: the id of each line, 0, 1, 2, ... by default; lines with the same id are one object.
        object_attributes: columns by name, a row for each line.
        groups: ids of lines by the name of the group.
        streamlines: whether the store says that they are streamlines.
        progress: a callable that takes what is done and the total, or ``True`` for a bar of tqdm.

    Returns, raises: as :func:`points`.

    >>> import numpy as np, tempfile, zvf
    >>> two = [np.zeros((3, 3)), np.ones((2, 3))]
    >>> ds = zvf.polylines(tempfile.mkdtemp() + "/a.zarrvectors", two, attributes={"fa": [[1, 2, 3], [4, 5]]})
    >>> ds.read(objects=[1])["fa"].tolist()
    [4, 5]
    """
    joined, cuts = join_lines(lines)
    of_vertices = {k: column_of_lines(k, v, cuts) for k, v in named("attributes", attributes).items()}
    piece = Piece("streamline" if streamlines else "polyline", joined, offsets=cuts, part_ids=object_ids)
    return _store(at, piece.with_columns(of_vertices, object_attributes, groups), words, progress)


@keywords(StoreWords)
def lines(
    at: Any,
    endpoints: Any,
    *,
    attributes: Mapping[str, Any] | None = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    progress: Any = None,
    **words: Unpack[StoreWords],
) -> Dataset:
    """Create lines of two ends: ``endpoints`` has the shape (lines, 2, axes); other arguments are those of :func:`polylines`.

    >>> import numpy as np, tempfile, zvf
    >>> zvf.lines(tempfile.mkdtemp() + "/a.zarrvectors", np.zeros((4, 2, 3))).kinds
    ('line',)
    """
    array = as_array(endpoints, "endpoints")
    if array.ndim != 3 or array.shape[1] != 2:
        raise wrong_value("endpoints", "the shape (lines, 2, axes)", str(array.shape))
    flat = positions(array.reshape(2 * len(array), array.shape[2]), "endpoints")
    piece = Piece("line", flat, offsets=np.arange(0, len(flat) + 1, 2))
    return _store(at, piece.with_columns(attributes, object_attributes, groups), words, progress)


@keywords(StoreWords)
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
    **words: Unpack[StoreWords],
) -> Dataset:
    """Create a graph, or with ``tree`` a skeleton; other arguments are those of :func:`create`.

    Args:
        at: the path or the URL of the new store.
        xyz: coordinates of the shape (nodes, axes).
        edges: pairs of rows of ``xyz``, of the shape (edges, 2); of a skeleton child and parent.
        attributes: columns by name, a row for each node.
        edge_attributes: columns by name, a row for each edge.
        object_ids: the object of each node; without, all are one.
        object_attributes: columns by name, a row for each object in ascending order of ids.
        groups: ids of objects by the name of the group.
        tree: whether it is a skeleton, each of whose nodes has at most one parent.
        progress: a callable that takes what is done and the total, or ``True`` for a bar of tqdm.

    Returns, raises: as :func:`points`.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.graph(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), [[0, 1], [1, 2]], edge_attributes={"word": ["a", "b"]})
    >>> ds.read(where="link.word = 'b'").edges.shape
    (1, 2)
    """
    array = positions(xyz)
    rows = indices(edges, "edges", len(array))
    if rows.size and (rows.ndim != 2 or rows.shape[1] != 2):
        raise wrong_value("edges", "two rows of vertices each", f"the shape {rows.shape}")
    piece = Piece("skeleton" if tree else "graph", array, edges=rows.reshape(-1, 2), object_ids=object_ids)
    piece.element_attributes = named("edge_attributes", edge_attributes)
    return _store(at, piece.with_columns(attributes, object_attributes, groups), words, progress)


@keywords(StoreWords)
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
    **words: Unpack[StoreWords],
) -> Dataset:
    """Create a mesh; other arguments are those of :func:`create`.

    Args:
        at: the path or the URL of the new store.
        vertices: coordinates of the shape (vertices, axes).
        faces: rows of ``vertices``, of the shape (faces, 3), or more than 3 for polygons.
        attributes: columns by name, a row for each vertex.
        face_attributes: columns by name, a row for each face.
        object_ids: the object of each vertex; without, all are one.
        object_attributes: columns by name, a row for each object in ascending order of ids.
        groups: ids of objects by the name of the group.
        progress: a callable that takes what is done and the total, or ``True`` for a bar of tqdm.

    Returns, raises: as :func:`points`.

    >>> import numpy as np, tempfile, zvf
    >>> zvf.mesh(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), [[0, 1, 2]]).read().faces.shape
    (1, 3)
    """
    array = positions(vertices, "vertices")
    rows = indices(faces, "faces", len(array))
    if rows.ndim != 2 or rows.shape[1] < 3:
        raise wrong_value("faces", "three vertices a face or more", f"the shape {rows.shape}")
    piece = Piece("mesh", array, faces=rows, object_ids=object_ids)
    piece.element_attributes = named("face_attributes", face_attributes)
    return _store(at, piece.with_columns(attributes, object_attributes, groups), words, progress)


@keywords(StoreWords)
def write(
    at: Any,
    thing: Any,
    *,
    kind: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    groups: Mapping[Any, Any] | None = None,
    streamlines: bool = False,
    tree: bool = False,
    progress: Any = None,
    **words: Unpack[StoreWords],
) -> Dataset:
    """Create a store from any supported object; other arguments are those of :func:`points` and :func:`create`.

    Answers, queries and datasets, as the kind that they are; tables that speak Arrow (``__arrow_c_stream__``), frames of pandas,
    lazy frames, structured arrays and mappings, with columns ``x``, ``y``, ``z``, ``t`` or ``position``; meshes, clouds, paths
    and scenes of trimesh; meshes of meshio; graphs of networkx, each node with ``pos``; tractograms and their files of nibabel;
    frames of geopandas; arrays; lists of arrays. ``kind`` says what tables, arrays and lists are to be: a table as
    ``streamline`` has a line for each run of one ``part``, or of one ``object``.

    What the store cannot hold as it is, such as the material of a mesh, is told with :class:`zvf.LossWarning`, and refused
    with ``strict=True``.

    >>> import numpy as np, tempfile, zvf
    >>> folder = tempfile.mkdtemp()
    >>> tracts = zvf.write(folder + "/tracts.zarrvectors", [np.zeros((3, 2)), np.ones((4, 2))])
    >>> zvf.write(folder + "/some.zarrvectors", tracts.select(objects=[1])).kinds
    ('polyline',)
    """
    with door(bool(words.get("strict", False))):
        piece = piece_of(thing, kind)
        if kind is None and (streamlines or tree):
            piece.kind = {"polyline": "streamline", "graph": "skeleton"}.get(piece.kind, piece.kind)
        elif kind is not None and piece.kind != kind:
            raise ArgumentError(f"kind: this is a {piece.kind} and cannot be written as {kind!r}")
        if object_ids is not None and piece.offsets is not None:
            piece.part_ids = object_ids
        elif object_ids is not None:
            piece.object_ids = object_ids
        return _store(at, piece.with_columns(attributes, object_attributes, groups), words, progress)
