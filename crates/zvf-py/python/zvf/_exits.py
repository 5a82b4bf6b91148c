"""Answers as what other libraries have: frames, meshes, graphs, tractograms. Each library is imported where it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._losses import lose
from .errors import ArgumentError, wrong_value

if TYPE_CHECKING:
    from .answers import Answer

_CHAINS = ("line", "polyline", "streamline")


def to_pandas(answer: Answer, of: str) -> Any:
    import pandas

    table = elements_of(answer, of) if of != "vertices" else _vertices(answer)
    return pandas.DataFrame({name: _series(values, answer, name) for name, values in table.items()})


def _series(values: np.ndarray, answer: Answer, name: str) -> Any:
    """A column as pandas has it: what is masked with its own types for that, times of day as such."""
    import pandas

    if isinstance(values, np.ma.MaskedArray):
        made = pandas.array(np.where(np.ma.getmaskarray(values), values.dtype.type(0), np.asarray(values.data)), dtype="boolean" if values.dtype.kind == "b" else _nullable(values.dtype))
        made[np.ma.getmaskarray(values)] = pandas.NA
        return made
    entry = answer._fields().get(name) or answer._element_fields().get(name)
    if entry is None or values.dtype.kind not in "mM":
        return values
    if entry[4] == "time of day":
        start = np.datetime64("1970-01-01")
        return pandas.Series(pandas.Series(values + start).dt.time, dtype=object)
    if entry[3].endswith(" UTC"):
        return pandas.Series(values).dt.tz_localize("UTC")
    return values


def _nullable(dtype: Any) -> str:
    return ("Int" if dtype.kind == "i" else "UInt") + str(8 * dtype.itemsize)


def _vertices(answer: Answer) -> dict[str, np.ndarray]:
    count = answer.positions.shape[1]
    axes = ["xyzw"[axis] if count <= 4 else f"x{axis}" for axis in range(count)]
    table = {name: answer.positions[:, axis] for axis, name in enumerate(axes)}
    reserved = {*axes, "object"}
    for name in answer:
        text = _text(answer, name)
        table.update(_flat(f"vertex.{name}" if name in reserved else name, answer[name] if text is None else text))
    if len(answer.offsets) > 1:
        table["object"] = np.repeat(answer.part_ids, np.diff(answer.offsets))
    elif answer.object_ids is not None:
        table["object"] = answer.object_ids
    return table


def _text(answer: Answer, name: str) -> Any:
    """Text as pandas makes it of objects, without making these first; ``None`` where the column has other values, or pandas keeps objects."""
    import pandas

    dtype: Any = pandas.Series(np.array(["text"], dtype=object)).dtype
    codes, categories, flags = answer.codes(name), answer.categories(name), answer._validity().get(name)
    if not categories or codes.ndim > 1 or getattr(dtype, "storage", "") != "pyarrow" or not all(isinstance(value, str) for value in categories):
        return None
    import pyarrow

    gone = (codes < 0) | (codes >= len(categories)) | (False if flags is None else ~answer.codes(flags))
    if gone.all():
        return None
    keys = pyarrow.array(codes, mask=gone if gone.any() else None)
    return dtype.__from_arrow__(pyarrow.DictionaryArray.from_arrays(keys, pyarrow.array(categories, pyarrow.large_string())).cast(pyarrow.large_string()))


def _flat(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values} if values.ndim == 1 else {f"{name}[{at}]": values[:, at] for at in range(values.shape[1])}


def elements_of(answer: Answer, of: str) -> dict[str, np.ndarray]:
    """The edges or faces as columns: rows of their vertices, and their attributes."""
    rows = answer.edges if of == "edges" else answer.faces if of == "faces" else None
    if of not in ("vertices", "edges", "faces") or rows is None:
        raise wrong_value("of", "vertices, edges of a graph, or faces of a mesh", f"{of} of a {answer.kind}")
    names = ["source", "target"] if of == "edges" else [f"vertex{at}" for at in range(rows.shape[1])]
    table = {name: rows[:, at] for at, name in enumerate(names)}
    for name in answer.element_keys():
        table.update(_flat(f"{of[:-1]}.{name}" if name in names else name, answer[name]))
    return table


def to_trimesh(answer: Answer) -> Any:
    import trimesh

    if answer.positions.shape[1] != 3:
        raise ArgumentError(f"trimesh has points of 3 axes, and these have {answer.positions.shape[1]}")
    points = np.array(answer.positions, dtype=np.float64)
    colours = answer["color"] if "color" in answer.keys() and answer["color"].ndim == 2 else None
    if answer.kind in _CHAINS:
        cuts = answer.offsets.tolist()
        entities = [trimesh.path.entities.Line(np.arange(a, b)) for a, b in zip(cuts, cuts[1:])]
        return trimesh.path.Path3D(entities=entities, vertices=points)
    if answer.kind != "mesh":
        return trimesh.PointCloud(points, colors=colours)
    words: dict[str, Any] = {"vertex_colors": colours}
    if "color" in answer.element_keys() and colours is None:
        words = {"face_colors": answer._element("color")}
    normals = answer["normal"] if "normal" in answer.keys() else None
    faces = np.array(answer.faces)
    if faces.shape[1] == 4:
        faces = np.vstack([faces[:, [0, 1, 2]], faces[:, [2, 3, 0]]])
    made = trimesh.Trimesh(vertices=points, faces=faces, vertex_normals=normals, process=False, **words)
    made.vertex_attributes.update({name: answer[name] for name in answer if name not in ("color", "normal")})
    if len(faces) == len(answer.faces):  # type: ignore[arg-type]
        made.face_attributes.update({name: answer._element(name) for name in answer.element_keys() if name != "color"})
    return made


def to_networkx(answer: Answer) -> Any:
    import networkx

    edges = answer.edges
    if edges is None:
        raise ArgumentError(f"a {answer.kind} has no edges: of a mesh ask answer.to_trimesh().vertex_adjacency_graph")
    columns = {name: answer[name].tolist() for name in answer if name != "node"}
    names = answer["node"].tolist() if "node" in answer.keys() else list(range(len(answer)))
    if len(set(names)) < len(names):
        raise ArgumentError("some nodes have the same value of the column node: read without it, with attributes=[...]")
    ends = list(zip(edges[:, 0].tolist(), edges[:, 1].tolist()))
    of_edges = {name: answer._element(name).tolist() for name in answer.element_keys()}
    many = "key" in of_edges or len(set(ends)) < len(ends)
    is_directed = answer.is_directed
    kinds = {(False, False): networkx.Graph, (False, True): networkx.MultiGraph, (True, False): networkx.DiGraph, (True, True): networkx.MultiDiGraph}
    made = kinds[is_directed, many]()
    for row, (name, place) in enumerate(zip(names, answer.positions.tolist())):
        made.add_node(name, pos=place, **{key: values[row] for key, values in columns.items()})
    keys = of_edges.pop("key", None)
    for row, (a, b) in enumerate(ends):
        said = {key: values[row] for key, values in of_edges.items()}
        made.add_edge(names[a], names[b], **({"key": keys[row]} if keys is not None else {}), **said)
    return made


def _of_parts(answer: Answer) -> dict[str, np.ndarray]:
    """The attributes of the object of each part: those asked for, or all where no columns were."""
    first, asked = answer.offsets[:-1], answer._ask
    if asked is None or "attributes" in asked.words:
        return {name.partition(".")[2]: answer[name][first] for name in answer if name.startswith(("object.", "fragment."))}
    names = asked.dataset._object_columns()
    if not names:
        return {}
    found = asked.dataset.read(objects=np.unique(answer.part_ids), attributes=names, kind=answer.kind)
    ids, rows = np.unique(found.part_ids, return_index=True)
    place = found.offsets[:-1][rows][np.searchsorted(ids, answer.part_ids)]
    return {name.partition(".")[2]: found[name][place] for name in names}


def to_nibabel(answer: Answer) -> Any:
    from nibabel.streamlines import Tractogram

    if answer.kind not in _CHAINS or answer.positions.shape[1] != 3:
        raise ArgumentError(f"a tractogram has lines of 3 axes, and this is a {answer.kind} of {answer.positions.shape[1]}")
    cuts = answer.offsets.tolist()

    def numbers(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name in [name for name, values in columns.items() if values.dtype.kind not in "biuf" or isinstance(values, np.ma.MaskedArray)]:
            lose(f"a tractogram has numbers, and {name!r} is left out")
            del columns[name]
        return columns

    of_points = numbers({name: answer[name] for name in answer if not name.startswith(("object.", "fragment."))})
    per_point = {name: [values[a:b].reshape(b - a, -1) for a, b in zip(cuts, cuts[1:])] for name, values in of_points.items()}
    per_line = numbers(_of_parts(answer))
    return Tractogram(answer.parts, data_per_streamline=per_line, data_per_point=per_point, affine_to_rasmm=np.eye(4))


def to_geopandas(answer: Answer) -> Any:
    import geopandas
    import shapely

    points = np.array(answer.positions, dtype=np.float64)
    shapes: Any
    if answer.kind in _CHAINS:
        short = [b - a for a, b in zip(answer.offsets, answer.offsets[1:]) if b - a < 2]
        if short:
            raise ArgumentError(f"{len(short)} lines have fewer than two vertices, which a geometry cannot have")
        shapes = shapely.linestrings(points, indices=np.repeat(np.arange(len(answer.part_ids)), np.diff(answer.offsets)))
        table = {"object": answer.part_ids, **_of_parts(answer)}
    elif answer.kind == "point_cloud":
        shapes = shapely.points(points)
        table = {name: values for own in answer for name, values in _flat(own, answer[own]).items()}
    else:
        raise ArgumentError(f"geometries are points or lines, and this is a {answer.kind}")
    crs = None if answer._ask is None else answer._ask.dataset.info().get("crs")
    return geopandas.GeoDataFrame({name: _series(values, answer, name) for name, values in table.items()}, geometry=list(shapes), crs=crs)


def object_table(query: Any) -> dict[str, np.ndarray]:
    """What each object of a query is: see :meth:`zvf.Dataset.object_table`."""
    names = [axis["name"] for axis in query.dataset.axes]
    found: dict[int, dict[str, Any]] = {}
    for answer in query.select(object_ids=True, attributes=query.dataset._object_columns(query.words.get("level", 0))).batches():
        is_chain = answer.kind in _CHAINS
        owners = np.repeat(answer.part_ids, np.diff(answer.offsets)) if is_chain else answer.object_ids
        if owners is None:
            continue  # vertices of no object
        ids, first, place = np.unique(owners, return_index=True, return_inverse=True)
        points = answer.positions.astype(np.float64)
        low, high = np.full((len(ids), len(names)), np.inf), np.full((len(ids), len(names)), -np.inf)
        np.minimum.at(low, place, points)
        np.maximum.at(high, place, points)
        counts = np.bincount(place, minlength=len(ids))
        of_parts = np.searchsorted(ids, answer.part_ids) if is_chain else np.zeros(0, dtype=np.int64)
        parts = np.bincount(of_parts, minlength=len(ids))
        lengths = np.bincount(of_parts, weights=_lengths(answer) if is_chain else None, minlength=len(ids))
        of_objects = {name: answer[name][first] for name in answer if name.startswith("object.")}
        for at, number in enumerate(ids.tolist()):
            if number < 0:
                continue
            entry = found.setdefault(number, {"vertices": 0, "parts": 0, "length": 0.0, "low": low[at], "high": high[at], "row": {}})
            entry["vertices"] += int(counts[at])
            entry["parts"] += int(parts[at])
            entry["length"] += float(lengths[at])
            entry["low"], entry["high"] = np.minimum(entry["low"], low[at]), np.maximum(entry["high"], high[at])
            entry["row"] = {name: values[at] for name, values in of_objects.items()}
    ids_found = sorted(found)
    table = {"object": np.array(ids_found, dtype=np.int64)}
    is_chain = bool(query.dataset.kinds) and query.dataset.kinds[0] in _CHAINS
    for name in ("vertices", *(("parts", "length") if is_chain else ())):
        table[name] = np.array([found[number][name] for number in ids_found])
    for axis, name in enumerate(names):
        table[f"{name}_min"] = np.array([found[number]["low"][axis] for number in ids_found])
        table[f"{name}_max"] = np.array([found[number]["high"][axis] for number in ids_found])
    for name in dict.fromkeys(name for number in ids_found for name in found[number]["row"]):
        values = [found[number]["row"].get(name) for number in ids_found]
        gone = [value is np.ma.masked for value in values]
        there = next((value for value in values if value is not np.ma.masked), 0)
        plain = np.array([there if lacks else value for value, lacks in zip(values, gone)])
        table[name] = np.ma.masked_array(plain, mask=gone) if any(gone) else plain
    return table


def _lengths(answer: Answer) -> np.ndarray:
    """The length of each part."""
    points, cuts = answer.positions.astype(np.float64), answer.offsets
    steps = np.zeros(len(points) + 1)
    steps[1:-1] = np.linalg.norm(np.diff(points, axis=0), axis=1) if len(points) > 1 else 0.0
    steps[cuts] = 0.0  # from the end of a part to the next
    total = np.cumsum(steps)
    return total[np.maximum(cuts[1:] - 1, cuts[:-1])] - total[cuts[:-1]]
