"""Datasets and queries."""

from __future__ import annotations

import base64
import copy
import html
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _zvf
from ._jobs import address_of, awaited, command, is_in_memory, reporter, storage_pairs
from .answers import Answer
from .errors import RangeError

if TYPE_CHECKING:
    from .viewing import View


def max_vertices(count: int) -> tuple[str, float]:
    """The finest level of which the query finds at most ``count`` vertices."""
    return "max_vertices", float(count)


def max_bytes(count: int) -> tuple[str, float]:
    """The finest level of which the query reads at most ``count`` bytes."""
    return "max_bytes", float(count)


def max_error(distance: float) -> tuple[str, float]:
    """The coarsest level that is off by at most ``distance``."""
    return "max_error", float(distance)


def open(source: Any, *, storage_options: Any = None, memory: int | None = None) -> Dataset:
    """Open a store: a path, a URL, a ``pathlib.Path``, a store of obstore or zarr, a mapper of fsspec.

    Args:
        storage_options: what the backend wants to know, by the names of object_store (``region``, ``endpoint``, ...).
        memory: bytes that the handle may hold, its cache included.
    """
    address, own = address_of(source)
    return Dataset(address, [*own, *storage_pairs(storage_options)], memory)


class Info(dict[str, Any]):
    """What a store is and holds, by name; a notebook shows it as a table."""

    def to_dict(self) -> dict[str, Any]:
        """A copy as a plain dictionary."""
        return copy.deepcopy(dict(self))

    def _repr_html_(self) -> str:
        return table_html((key, value) for key, value in self.items() if not isinstance(value, (dict, list)))


class Dataset:
    """A store that is asked. It pickles by its address and is opened again in a forked child."""

    __slots__ = ("address", "_storage", "_memory", "_reader", "_pid", "_closed", "_summary")

    def __init__(self, address: str, storage: list[tuple[str, str]], memory: int | None = None) -> None:
        self.address = address
        self._storage = storage
        self._memory = memory
        self._closed = False
        self._summary: dict[str, Any] | None = None
        self._open()

    def _open(self) -> None:
        self._reader = _zvf.open(self.address, self._storage, self._memory).wait()
        self._pid = os.getpid()
        self._summary = None

    @property
    def _native(self) -> Any:
        if self._closed:
            raise ValueError("the dataset is closed")
        if self._pid != os.getpid():
            self._open()
        return self._reader

    def close(self) -> None:
        """Let go of the cache; later calls are refused."""
        self._closed = True
        self._reader = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if is_in_memory(self.address):
            raise TypeError("a store in memory cannot be pickled: its bytes are in this process alone")
        return Dataset, (self.address, self._storage, self._memory)

    def refresh(self) -> None:
        """Open the store again: what was changed since is seen."""
        self._open()

    def info(self) -> Info:
        """What the store is and holds: version, kinds, axes, bounds, levels with their columns."""
        summary = self._summary
        if summary is None:
            summary = self._summary = json.loads(self._native.summary().wait())
        return Info(summary)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of geometry."""
        return tuple(self.info()["kinds"])

    @property
    def version(self) -> str:
        """The format version."""
        return self.info()["version"]

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest corner."""
        low, high = self.info()["bounds"]
        return np.array(low), np.array(high)

    @property
    def axes(self) -> list[dict[str, Any]]:
        """Name, kind and unit of each axis."""
        return self.info()["axes"]

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.info()["axes"])

    @property
    def levels(self) -> list[Level]:
        """The resolutions, the finest first."""
        return [Level(self, entry["level"]) for entry in self.info()["levels"]]

    def level(self, number: int) -> Level:
        """One resolution."""
        if all(entry["level"] != number for entry in self.info()["levels"]):
            known = ", ".join(str(entry["level"]) for entry in self.info()["levels"])
            raise RangeError(f"there is no level {number}: there is {known}", class_name="InvalidArgument", op="open")
        return Level(self, number)

    def __len__(self) -> int:
        return int(self.info()["levels"][0]["vertices"])

    @property
    def groups(self) -> dict[str, np.ndarray]:
        """The members of each group of the finest level, by its name."""
        return self.level(0).groups

    def select(self, **words: Any) -> Query:
        """A query; nothing is read yet.

        Args:
            box: lowest and highest corner, both inside.
            half_open_box: the same without the upper faces.
            ball: centre and radius.
            half_spaces: pairs of a normal and an offset; what lies below all of them.
            prism: outline, the two axes it is on, and lowest and highest corner.
            mode: how geometry lies to the region: ``inside``, ``touch``, ``clip``, ``crop`` or ``cells``.
            objects: ids, answered in this order.
            groups: numbers or names of groups.
            where: a condition, such as ``"fa > 0.3 and group.name = 'left'"``.
            attributes: names of the columns that come along; ``None`` is all, ``[]`` none.
            level: a number, or ``zvf.max_vertices(n)``, ``max_bytes``, ``max_error``.
            kind: of a store of several kinds, which.
            order: ``storage``, ``objects`` or ``original``.
            limit: at most so many vertices.
            object_ids: whether each vertex comes with its object.
            unknown_objects: ``report``, ``skip`` or ``error``.
            allow_missing: whether chunks that cannot be found are reported and not an error.
            increment_only: of an additive pyramid, only what the level adds.
        """
        return Query(self, {}).select(**words)

    def read(self, **words: Any) -> Answer:
        """The answer to ``select(**words)``."""
        return self.select(**words).read()

    def count(self, **words: Any) -> int:
        """How many vertices ``select(**words)`` finds."""
        return self.select(**words).count()

    async def aread(self, **words: Any) -> Answer:
        """As :meth:`read`, in asyncio."""
        return await self.select(**words).aread()

    def object_ids(self, level: int = 0) -> np.ndarray:
        """The ids of the objects of a level that have geometry, in the order of its index."""
        return np.asarray(self._native.object_ids(level, True).wait())

    def objects(self, ids: Sequence[int] | None = None, level: int = 0) -> list[dict[str, Any]]:
        """Objects without their vertices: bounds, counts, attributes."""
        wanted = None if ids is None else [int(i) for i in ids]
        return json.loads(self._native.objects(level, wanted, 0).wait())

    def statistics(self, level: int = 0) -> list[dict[str, Any]]:
        """Count, least, largest and mean value of each attribute."""
        return json.loads(self._native.statistics(level).wait())

    @property
    def notices(self) -> list[str]:
        """What may surprise, collected since the store was opened."""
        return self._native.notices()

    def render(self, width: int = 480, height: int = 360, **words: Any) -> bytes:
        """A picture, as PNG: see :meth:`Query.render`."""
        return Query(self, {}).render(width, height, **words)

    def view(self, height: int = 480) -> View:
        """The viewer of the store, which a notebook shows in the cell: see :class:`zvf.View`."""
        from .viewing import View

        return View(self.address, self._storage, height)

    def build_pyramid(self, levels: int | None = None, *, progress: Any = None, **words: Any) -> Dataset:
        """Build coarser levels into the store; words are options of ``zvf pyramid`` (``ratio=8``, ``max_vertices=...``)."""
        args = ["pyramid", self.address, *_options(words)]
        if levels is not None:
            args += ["--levels", str(int(levels))]
        command(*args, storage=self._storage, progress=progress)
        self.refresh()
        return self

    def validate(self, *, level: int = 3, progress: Any = None) -> Any:
        """Check the store against the rules of the format: see :func:`zvf.validate`."""
        from .tools import validate

        return validate(self, level=level, progress=progress)

    def edit(self, message: str | None = None) -> Edit:
        """One transaction: leaving the ``with`` block commits it, an exception changes nothing.

        ``message`` is what :meth:`log` says of it.
        """
        return Edit(self, message)

    def append(
        self,
        thing: Any,
        *,
        ids: str | None = None,
        bounds: str = "grow",
        refresh: str = "none",
        message: str | None = None,
        progress: Any = None,
        **words: Any,
    ) -> Dataset:
        """Add geometry in one commit: all of it is seen, or nothing.

        >>> import numpy as np, tempfile, zvf
        >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), attributes={"mass": [1.0, 2.0, 3.0]})
        >>> ds.append(np.ones((2, 3)), attributes={"mass": [4.0, 5.0]}).count(where="mass > 2")
        3

        Args:
            thing: what :meth:`zvf.Writer.push` takes, with its words (``attributes``, ``object_ids``, ``edges``, ...);
                another dataset is added with its groups.
            ids: ``shift``: ids come after those that are there; ``keep``: they stay, and one that is used is refused; ``new``.
                Without, ids that are given are kept, and others come after those that are there.
            bounds: what becomes of vertices outside the bounds of the store: ``grow`` or ``refuse``.
            words: columns of floats that are not given are NaN, others must be given.
            refresh: coarser levels: ``none`` leaves them behind, ``stale`` and ``all`` build them again.
        """
        import tempfile

        if ids is None:
            ids = "keep" if any(words.get(name) is not None for name in ("object_ids", "part_ids")) else "shift"
        args = [f"--ids={ids}", f"--bounds={bounds}", f"--refresh={refresh}", *([] if message is None else [f"--message={message}"])]
        with tempfile.TemporaryDirectory(prefix="zvf-append-") as folder:
            if isinstance(thing, Dataset):
                if words:
                    raise TypeError(f"append: a dataset is added as it is, without {', '.join(words)}")
                source, storage = thing.address, [*self._storage, *thing._storage]
            else:
                source, storage = os.path.join(folder, "added.zarrvectors"), self._storage
                self._write_like(source, thing, words)
            command("merge", self.address, source, *args, storage=storage, progress=progress)
        self.refresh()
        return self

    def _write_like(self, at: str, thing: Any, words: dict[str, Any]) -> None:
        """Writes a store that fits this one."""
        from .writing import create

        level = self.info()["levels"][0]
        kind = words.pop("kind", None) or (self.kinds[0] if self.kinds else "point_cloud")
        said = words.pop("object_attributes", None)
        with create(at, kind=kind, ndim=self.ndim, chunk=level["chunk_shape"], axes=self.axes) as writer:
            writer.push(thing, **words)
            if said:
                ids = next((words[n] for n in ("part_ids", "object_ids") if words.get(n) is not None), None)
                writer.objects(np.arange(writer._next) if ids is None else np.unique(np.asarray(ids)), said)

    def log(self) -> list[dict[str, Any]]:
        """What was committed to the store by edits."""
        said, _ = command("log", self.address, storage=self._storage)
        return said if isinstance(said, list) else said.get("commits", [said])

    def undo(self, commit: str | None = None) -> None:
        """Take the last commit back, or the one that is named."""
        command("undo", self.address, *([commit] if commit else []), storage=self._storage)
        self.refresh()

    def scan_polars(self) -> Any:
        """A lazy frame of polars over the finest level; the columns and the rows wanted are pushed down.

        Comparisons of attributes with numbers and text, ``is_in`` and ``is_between`` become a condition, those of
        ``pl.col("position").arr.get(axis)`` narrow the chunks that are read; polars applies its whole predicate to
        what comes, so that anything else is right as well, and reads more.
        """
        from ._polars import scan

        return scan(self)

    def __repr__(self) -> str:
        info = self.info()
        kinds = ", ".join(info["kinds"]) or "empty"
        return f"<zvf.Dataset {self.address!r}: {kinds}, {len(self)} vertices, {len(info['levels'])} levels>"

    def _repr_html_(self) -> str:
        info = self.info()
        rows = [
            ("kinds", ", ".join(info["kinds"])),
            ("format", info["version"]),
            ("axes", ", ".join(a["name"] for a in info["axes"])),
            ("bounds", f"{info['bounds'][0]} to {info['bounds'][1]}"),
        ]
        for entry in info["levels"]:
            names = ", ".join(a["name"] for a in entry.get("attributes", []) if a["scope"] == "vertex")
            rows.append((f"level {entry['level']}", f"{entry['vertices']} vertices; {names}"))
        return f"<div><b>zvf.Dataset</b> {html.escape(self.address)}{picture(self, len(self))}{table_html(rows)}</div>"


class Level:
    """One resolution of a dataset."""

    __slots__ = ("dataset", "number")

    def __init__(self, dataset: Dataset, number: int) -> None:
        self.dataset = dataset
        self.number = number

    def info(self) -> dict[str, Any]:
        """What the level holds."""
        return next(e for e in self.dataset.info()["levels"] if e["level"] == self.number)

    def __len__(self) -> int:
        return int(self.info()["vertices"])

    @property
    def attributes(self) -> list[str]:
        """The names of the columns of vertices."""
        return [a["name"] for a in self.info().get("attributes", []) if a["scope"] == "vertex"]

    @property
    def groups(self) -> dict[str, np.ndarray]:
        """The members of each group, by its name."""
        found = json.loads(self.dataset._native.groups(self.number, 2**31).wait())
        return {
            g["name"]: np.array(g["ids"], dtype=np.int64) if g["ids"] is not None else np.arange(*g["range"])
            for g in found
        }

    def chunks(self) -> np.ndarray:
        """The keys of the chunks, in numeric order."""
        found = self.dataset._native.chunks(self.number).wait()
        return np.array(found, dtype=np.int64).reshape(len(found), -1)

    def select(self, **words: Any) -> Query:
        """A query of this level."""
        return self.dataset.select(level=self.number, **words)

    def read(self, **words: Any) -> Answer:
        """The answer to ``select(**words)``."""
        return self.select(**words).read()

    def _repr_html_(self) -> str:
        query, rows = self.select(), [(k, v) for k, v in self.info().items() if not isinstance(v, (dict, list))]
        rows.append(("attributes", ", ".join(self.attributes) or "none"))
        return f"<div><b>zvf.Level {self.number}</b>{picture(query, len(self))}{table_html(rows)}</div>"

    def __repr__(self) -> str:
        return f"<zvf.Level {self.number}: {len(self)} vertices>"


class Query:
    """A question that has not been asked yet: a value, cheap to make and to pass on."""

    __slots__ = ("dataset", "words")

    def __init__(self, dataset: Dataset, words: Mapping[str, Any]) -> None:
        self.dataset = dataset
        self.words = dict(words)

    def select(self, **words: Any) -> Query:
        """The same query with more said; a condition is added to the one there, anything else replaces it."""
        merged = dict(self.words)
        for name, value in words.items():
            if name not in _WORDS:
                raise TypeError(f"a query has no {name!r}; it has {', '.join(_WORDS)}")
            if value is None:
                continue
            if name == "where" and "where" in merged:
                value = f"({merged['where']}) and ({value})"
            merged[name] = _plain(self.dataset, name, value)
        return Query(self.dataset, merged)

    def limit(self, vertices: int) -> Query:
        """The same query for at most so many vertices."""
        vertices = int(vertices)
        if vertices < 0:
            raise ValueError(f"limit: expected no negative number, found {vertices}")
        return Query(self.dataset, {**self.words, "limit": min(vertices, self.words.get("limit", vertices))})

    def _query(self) -> Any:
        return _zvf.Query(self.words)

    def read(self, *, progress: Any = None) -> Answer:
        """Everything that it finds."""
        job = self.dataset._native.run(self._query())
        if progress is None:
            return Answer(job.wait(), self)
        advance, end = reporter(progress, "read")
        try:
            return Answer(job.wait(advance), self)
        finally:
            end()

    async def aread(self) -> Answer:
        """As :meth:`read`, in asyncio; cancelling the task stops it."""
        return Answer(await awaited(self.dataset._native.run(self._query())), self)

    def count(self) -> int:
        """How many vertices it finds."""
        return int(self.counts()["vertices"])

    def counts(self) -> dict[str, Any]:
        """How many vertices, parts and elements it finds, and whether that is all."""
        return self.dataset._native.count(self._query()).wait()

    def plan(self) -> dict[str, Any]:
        """What would be read: cells, rows, requests, bytes."""
        return self.dataset._native.plan(self._query()).wait()

    def explain(self) -> str:
        """What would be read, as text."""
        return self.plan()["text"]

    def batches(self, rows: int | None = None) -> Iterator[Answer]:
        """The answer batch by batch, in bounded memory; leaving the loop ends the reading.

        Args:
            rows: at most so many vertices a batch. Parts stay whole: a longer one is a batch of its own; edges and
                faces stay with their vertices.
        """
        limit = _batch_rows(rows)
        stream = self.dataset._native.batches(self._query())
        try:
            while (batch := stream.next().wait()) is not None:
                for part in [batch] if limit is None else batch.split(limit):
                    yield Answer(part)
        finally:
            stream.close()

    async def abatches(self, rows: int | None = None) -> AsyncIterator[Answer]:
        """As :meth:`batches`, in asyncio."""
        limit = _batch_rows(rows)
        stream = self.dataset._native.batches(self._query())
        try:
            while (batch := await awaited(stream.next())) is not None:
                for part in [batch] if limit is None else batch.split(limit):
                    yield Answer(part)
        finally:
            stream.close()

    def by_chunk(self) -> list[dict[str, Any]]:
        """The words of one query for each chunk that this one meets: together they find every point once.

        For point clouds without a region but a box; other kinds of geometry lie in several chunks.
        """
        level = self.words.get("level", 0)
        info = Level(self.dataset, level).info()
        if self.dataset.kinds != ("point_cloud",) or any(w in self.words for w in ("ball", "half_spaces", "prism")):
            raise ValueError("work over chunks is for point clouds, all of them or those in a box")
        shape = np.asarray(info["chunk_shape"])
        low, high = self.words.get("box", self.dataset.bounds)
        found = []
        for key in Level(self.dataset, level).chunks()[:, -len(shape) :]:
            corner = key * shape, (key + 1) * shape
            own = np.maximum(low, corner[0]), np.minimum(np.nextafter(high, np.inf), corner[1])
            if (own[0] < own[1]).all():
                words = {k: v for k, v in self.words.items() if k != "box"}
                found.append({**words, "half_open_box": (own[0].tolist(), own[1].tolist())})
        return found

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.read().__arrow_c_stream__(requested_schema)

    def render(
        self,
        width: int = 480,
        height: int = 360,
        *,
        colour: str | None = None,
        view: str | None = None,
        background: str | None = None,
    ) -> bytes:
        """A picture of what it finds, as PNG; ``colour`` names the column that gives the colours."""
        return self.dataset._native.render(self._query(), int(width), int(height), colour, view, background).wait()

    def _repr_png_(self) -> bytes:
        return self.render()

    def _repr_html_(self) -> str:
        rows = self.words.items() or [("everything", "")]
        return f"<div><b>zvf.Query</b> of {html.escape(self.dataset.address)}{table_html(rows)}</div>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Query, (self.dataset, self.words)

    def __repr__(self) -> str:
        return f"<zvf.Query {self.words} of {self.dataset.address!r}>"


_WORDS = (
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


_MOST_DRAWN = 2_000_000  # vertices of a picture that nobody asked for


def picture(thing: Any, vertices: int) -> str:
    """A small picture of what can be rendered, as HTML; nothing where it would take long."""
    if not 0 < vertices <= _MOST_DRAWN:
        return ""
    try:
        png = base64.b64encode(thing.render(160, 120)).decode()
    except Exception:  # a picture is a courtesy: the table is the answer
        return ""
    return f'<img width="160" height="120" src="data:image/png;base64,{png}"/>'


def table_html(rows: Iterable[tuple[str, Any]]) -> str:
    """Rows of a name and a value as HTML."""
    lines = (f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows)
    return f"<table>{''.join(lines)}</table>"


def _batch_rows(rows: int | None) -> int | None:
    if rows is None:
        return None
    if int(rows) < 1:
        raise ValueError(f"rows: expected at least 1, found {rows}")
    return min(int(rows), sys.maxsize)


def _corner(value: Any) -> list[float]:
    return [float(x) for x in np.asarray(value, dtype=np.float64).ravel()]


def _plain(dataset: Dataset, name: str, value: Any) -> Any:
    """The value of a word as the native half takes it."""
    if name in ("box", "half_open_box"):
        low, high = value
        return _corner(low), _corner(high)
    if name == "ball":
        centre, radius = value
        return _corner(centre), float(radius)
    if name == "half_spaces":
        return [(_corner(normal), float(offset)) for normal, offset in value]
    if name == "prism":
        outline, axes, (low, high) = value
        return [[float(a), float(b)] for a, b in outline], [int(a) for a in axes], (_corner(low), _corner(high))
    if name == "objects":
        array = np.asarray(value)
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"objects: expected whole numbers, found {array.dtype}")
        return [int(i) for i in array.ravel()]
    if name == "groups":
        wanted = [value] if isinstance(value, (str, int)) else list(value)
        if any(isinstance(g, str) for g in wanted):
            names = list(dataset.groups)
            unknown = [g for g in wanted if isinstance(g, str) and g not in names]
            if unknown:
                raise KeyError(f"there is no group {unknown[0]!r}: there is {', '.join(names) or 'none'}")
            wanted = [names.index(g) if isinstance(g, str) else g for g in wanted]
        return [int(g) for g in wanted]
    if name == "attributes":
        names = [value] if isinstance(value, str) else [str(v) for v in value]
        if any("\0" in n for n in names):
            raise ValueError("attributes: a name has no zero byte")
        return names
    if name == "level":
        return value if isinstance(value, tuple) else int(value.number if isinstance(value, Level) else value)
    if name == "limit":
        if int(value) < 0:
            raise ValueError(f"limit: expected no negative number, found {value}")
        return int(value)
    return value


def _options(words: Mapping[str, Any]) -> list[str]:
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


class Edit:
    """Changes that are committed together.

    >>> import tempfile, numpy as np, zvf
    >>> at = tempfile.mkdtemp() + "/lines.zarrvectors"
    >>> ds = zvf.polylines(at, [np.zeros((2, 3)), np.ones((3, 3))])
    >>> with ds.edit() as e:
    ...     e.remove(object=0)
    >>> ds.object_ids().tolist() and ds.count()
    3
    """

    def __init__(self, dataset: Dataset, message: str | None = None) -> None:
        self.dataset = dataset
        self.message = message
        self.operations: list[dict[str, Any]] = []
        self._next_id: int | None = None

    def apply(self, op: str, **words: Any) -> None:
        """Add an operation of the edit script, by its name."""
        self.operations.append({"op": op, **{k: _json(v) for k, v in words.items() if v is not None}})

    def move(self, *, object: int, vertex: int, to: Any) -> None:
        """Move the vertex with the number ``vertex`` of an object."""
        self.apply("vertex.move", vertices={"object": int(object), "index": int(vertex)}, to=to)

    def remove(self, *, object: int | None = None, vertex: int | None = None) -> None:
        """Remove an object, or one of its vertices."""
        if vertex is None:
            self.apply("object.remove", objects=[int(_given(object))])
        else:
            self.apply("vertex.remove", vertices={"object": int(_given(object)), "index": int(vertex)})

    def set(self, name: str, *, object: int, value: Any, vertex: int | None = None) -> None:
        """Set an attribute of an object, or of one of its vertices."""
        if vertex is None:
            self.apply("object.set", objects=[int(object)], values={name: value})
        else:
            self.apply("vertex.set", vertices={"object": int(object), "index": int(vertex)}, values={name: value})

    def add(
        self,
        positions: Any,
        *,
        attributes: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        object: int | None = None,
        **words: Any,
    ) -> int:
        """Add an object with these vertices and return its id; further words are fields of ``object.add``.

        Without ``object`` it gets the next id of the store, which no object has had.
        """
        columns = {k: np.asarray(v) for k, v in (attributes or {}).items()}
        self.apply(
            "object.add",
            id=object,
            positions=np.asarray(positions, dtype=float),
            attributes=columns or None,
            values=dict(values) if values else None,
            **words,
        )
        if object is None:
            object = self._ask_next_id() if self._next_id is None else self._next_id
            self.operations[-1]["id"] = object
            self._next_id = object + 1
        elif self._next_id is not None:
            self._next_id = max(self._next_id, int(object) + 1)
        return int(object)

    def _ask_next_id(self) -> int:
        """The id that the store gives to the object that was added last."""
        try:
            said = self._run("--dry-run")
        except BaseException:
            self.operations.pop()  # it is refused: the transaction goes on without it
            raise
        return int(said["commits"][-1]["objects"]["added"][-1])

    def __enter__(self) -> Edit:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and self.operations:
            self.commit()

    def commit(self) -> Any:
        """Commit what was said so far."""
        said = self._run()
        self.operations = []
        self._next_id = None
        self.dataset.refresh()
        return said

    def _run(self, *options: str) -> Any:
        """What the command says to the operations so far."""
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as script:
            script.writelines(json.dumps(op) + "\n" for op in self.operations)
        try:
            args = ["edit", self.dataset.address, "--script", script.name, *options]
            if self.message is not None:
                args += [f"--message={self.message}"]
            return command(*args, storage=self.dataset._storage)[0]
        finally:
            os.unlink(script.name)


def _given(object: int | None) -> int:
    if object is None:
        raise TypeError("which object: give object=")
    return object


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {k: _json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    return value
