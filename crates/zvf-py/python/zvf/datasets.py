"""Datasets."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _zvf
from ._html import escaped, picture, table_html
from ._jobs import address_of, awaited, command, is_in_memory, storage_pairs
from ._columns import times_of, validity_of
from ._keywords import PyramidWords, QueryWords, keywords
from ._words import byte_count, count_of, options, plain, whole_of
from .answers import Answer
from .errors import ArgumentError, ArgumentTypeError, Error, NotFoundError, RangeError, naming
from .queries import Level, Query

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .edits import Edit
    from .viewing import View


def open(source: Any, *, storage_options: Any = None, memory: int | str | None = None, commit: int | str | None = None) -> Dataset:
    """Open a store: a path, a URL, a ``pathlib.Path``, a store of obstore or zarr, a mapper of fsspec.

    Args:
        storage_options: what the backend wants to know, by the names of object_store (``region``, ``endpoint``, ...).
        memory: bytes that the handle may hold, its cache included, such as ``"1GiB"``.
        commit: ``head`` or ``txid`` of :meth:`Dataset.log`: the dataset stays at this commit, 0 is before the first one.
            Without, each answer is of the last commit there is.

    Returns:
        The dataset; nothing but documents is read yet.

    Raises:
        NotFoundError: there is no store, or no such commit.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), attributes={"mass": [1.0, 2.0, 3.0]})
    >>> _ = ds.append(np.ones((2, 3)), attributes={"mass": [4.0, 5.0]})
    >>> zvf.open(ds, commit=0).count(), ds.count(), ds.head
    (3, 5, 1)
    """
    address, own = address_of(source)
    storage = [*own, *storage_pairs(storage_options)]
    return Dataset(address, storage, byte_count("memory", memory), commit=_commit_number(address, storage, commit))


def _commit_number(address: str, storage: list[tuple[str, str]], commit: int | str | None) -> int | None:
    """The number of a commit, which its transaction may stand for."""
    if commit is None or not isinstance(commit, str):
        return None if commit is None else count_of("commit", commit)
    log = Dataset(address, storage).log()
    found = next((entry for entry in log if entry.get("txid") == commit), None)
    if found is None:
        raise NotFoundError(f"there is no commit {commit!r}: log() has {', '.join(str(entry.get('txid')) for entry in log) or 'none'}", op="open")
    return int(found["head"])


async def aopen(source: Any, *, storage_options: Any = None, memory: int | str | None = None) -> Dataset:
    """As :func:`open`, in asyncio.

    >>> import asyncio, numpy as np, tempfile, zvf
    >>> at = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3)).address
    >>> async def count():
    ...     return await (await zvf.aopen(at)).acount(box=([0, 0, 0], [1, 0, 0]))
    >>> asyncio.run(count())
    1
    """
    address, own = address_of(source)
    storage, limit = [*own, *storage_pairs(storage_options)], byte_count("memory", memory)
    with naming(f"cannot open {address}"):
        reader = await awaited(_zvf.open(address, storage, limit))
    return Dataset(address, storage, limit, reader)


class Info(dict[str, Any]):
    """The description of a store, by name; a notebook shows it as a table."""

    def to_dict(self) -> dict[str, Any]:
        """A copy as a plain dictionary."""
        return copy.deepcopy(dict(self))

    def _repr_html_(self) -> str:
        return table_html((key, value) for key, value in self.items() if not isinstance(value, (dict, list)))


class Dataset:
    """An open store. It pickles by its address, and a forked child opens it again."""

    __slots__ = ("address", "_storage", "_memory", "_reader", "_pid", "_closed", "_summary", "_commit", "_edits")

    def __init__(
        self, address: str, storage: list[tuple[str, str]], memory: int | None = None, reader: Any = None, commit: int | None = None
    ) -> None:
        self.address = address
        self._storage = storage
        self._memory = memory
        self._commit = commit  # where it stays; without it follows the commits
        self._edits: list[Edit] = []  # transactions that what is read belongs to
        self._closed = False
        self._summary: dict[str, Any] | None = None
        self._open(reader)

    def _open(self, reader: Any = None) -> None:
        if reader is None:
            with naming(f"cannot open {self.address}"):
                reader = _zvf.open(self.address, self._storage, self._memory, self._commit).wait()
        self._reader: Any = reader
        self._pid = os.getpid()
        self._summary = None

    @property
    def _native(self) -> Any:
        self._check_open()
        if self._pid != os.getpid():
            self._open()
        for edit in self._edits:
            edit._has_read = True
        if self._commit is None and not self._edits:
            # Each answer is of the last commit, and of no other.
            newer = self._reader.follow().wait()
            if newer is not None:
                self._open(newer)
        return self._reader

    def _check_writable(self) -> None:
        self._check_open()
        if self._commit is not None:
            raise ArgumentError(f"the dataset stays at commit {self._commit}: open {self.address} without commit= to change it")

    @property
    def head(self) -> int:
        """The number of the commit that answers are of; 0 before the first one."""
        return int(self._native.head())

    def _check_open(self) -> None:
        if self._closed:
            raise ArgumentError(f"the dataset is closed: open {self.address} again")

    def close(self) -> None:
        """Release the cache; later calls are refused."""
        self._closed = True
        self._reader = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if is_in_memory(self.address):
            raise ArgumentTypeError("a store in memory cannot be pickled: its bytes are in this process alone")
        return Dataset, (self.address, self._storage, self._memory, None, self._commit)

    def refresh(self) -> None:
        """Open the store again, to see changes that were made without a commit."""
        self._check_open()
        self._open()

    def info(self) -> Info:
        """The description of the store: version, kinds, axes, bounds, levels with their columns."""
        native = self._native
        summary = self._summary
        if summary is None:
            summary = self._summary = native.summary().wait()
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
        """The number of axes."""
        return len(self.info()["axes"])

    @property
    def levels(self) -> list[Level]:
        """The resolutions, the finest first."""
        return [Level(self, entry["level"]) for entry in self.info()["levels"]]

    def level(self, number: int) -> Level:
        """One resolution."""
        number = whole_of("level", number)
        if all(entry["level"] != number for entry in self.info()["levels"]):
            known = ", ".join(str(entry["level"]) for entry in self.info()["levels"])
            raise RangeError(f"there is no level {number}: there is {known}", op="open")
        return Level(self, number)

    def __len__(self) -> int:
        return int(self.info()["levels"][0]["vertices"])

    @property
    def groups(self) -> dict[str, np.ndarray]:
        """The members of each group of the finest level, by its name."""
        return self.level(0).groups

    @keywords(QueryWords)
    def select(self, **words: Unpack[QueryWords]) -> Query:
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
            uncached: whether decoded cells are not kept for later queries.

        Raises:
            ArgumentError, ArgumentTypeError: a value does not fit this store; the condition compares text with numbers.
            UnknownNameError: there is no such column or group.

        >>> import numpy as np, tempfile, zvf
        >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3), attributes={"mass": [1, 2, 3]})
        >>> ds.select(box=([0, 0, 0], [1, 1, 0]), where="mass > 1").read()["mass"].tolist()
        [2]
        """
        return Query(self, {}).select(**words)

    @keywords(QueryWords)
    def read(self, **words: Unpack[QueryWords]) -> Answer:
        """The answer to ``select(**words)``."""
        return self.select(**words).read()

    @keywords(QueryWords)
    def count(self, **words: Unpack[QueryWords]) -> int:
        """The number of vertices that ``select(**words)`` finds."""
        return self.select(**words).count()

    @keywords(QueryWords)
    async def aread(self, **words: Unpack[QueryWords]) -> Answer:
        """As :meth:`read`, in asyncio."""
        return await self.select(**words).aread()

    @keywords(QueryWords)
    async def acount(self, **words: Unpack[QueryWords]) -> int:
        """As :meth:`count`, in asyncio."""
        return await self.select(**words).acount()

    def _columns(self, level: int = 0) -> list[tuple[str, str, str | None, str | None]]:
        """Scope, name and type of each column, and what says which rows have a value: see ``_columns``."""
        found = []
        entry = next(e for e in self.info()["levels"] if e["level"] == level)
        attributes = entry.get("attributes", [])
        for scope in dict.fromkeys(a["scope"] for a in attributes):
            own = {a["name"]: a for a in attributes if a["scope"] == scope}
            flags = validity_of({name: (a["dtype"], a["description"]) for name, a in own.items()})
            for name, a in own.items():
                times = a["dtype"] == "int64" and times_of(np.dtype("int64"), a["unit"], a["description"]) is not None
                # Whether whole numbers of links are codes of categories is not listed.
                dtype = a["dtype"] if a.get("categories") is None and scope != "link" else None
                found.append((scope, name, dtype, flags.get(name, "" if times else None)))
        return found

    def _described(self) -> dict[tuple[str, str], tuple[str | None, str | None]]:
        """The unit and the description of each column that has one, by its scope and name."""
        columns = [a for entry in self.info()["levels"] for a in entry.get("attributes", []) if a["unit"] or a["description"]]
        return {(a["scope"], a["name"]): (a["unit"], a["description"]) for a in columns}

    def _object_columns(self, level: int = 0) -> list[str]:
        """The columns of objects, as a query names them, but those that the store keeps right itself."""
        entry = next(e for e in self.info()["levels"] if e["level"] == level)
        derived = {a["name"] for a in entry.get("attributes", []) if a["scope"] == "object" and a.get("derived")}
        columns = [(name, flags) for scope, name, _, flags in self._columns(level) if scope == "object"]
        return [f"object.{name}" for name, _ in columns if name not in derived | {flags for _, flags in columns}]

    def object_table(self, level: int = 0) -> dict[str, np.ndarray]:
        """What each object is, as columns for a frame: vertices, parts, exact bounds on each axis, of lines the length, its attributes.

        >>> import numpy as np, tempfile, zvf
        >>> ds = zvf.polylines(tempfile.mkdtemp() + "/a.zarrvectors", [[[0, 0, 0], [3, 4, 0]], np.ones((3, 3))])
        >>> table = ds.object_table()
        >>> table["length"].tolist(), table["vertices"].tolist()
        ([5.0, 0.0], [2, 3])
        """
        from ._exits import object_table

        return object_table(self.select(level=level))

    def object_ids(self, level: int = 0) -> np.ndarray:
        """The ids of the objects of a level that have geometry, in the order of its index."""
        return np.asarray(self._native.object_ids(self.level(level).number, True).wait())

    def objects(self, ids: Sequence[int] | None = None, level: int = 0) -> list[dict[str, Any]]:
        """Objects without their vertices: bounds, counts, attributes."""
        wanted = None if ids is None else plain(self, "objects", ids)
        return self._native.objects(self.level(level).number, wanted, 0).wait()

    def statistics(self, level: int = 0) -> list[dict[str, Any]]:
        """Count, minimum, maximum and mean of each attribute."""
        return self._native.statistics(self.level(level).number).wait()

    @property
    def notices(self) -> list[str]:
        """Notices collected since the store was opened."""
        return self._native.notices()

    def render(self, width: int = 480, height: int = 360, **words: Any) -> bytes:
        """A picture, as PNG: see :meth:`Query.render`."""
        return Query(self, {}).render(width, height, **words)

    def view(self, height: int = 480) -> View:
        """The viewer of the store, which a notebook shows in the cell: see :class:`zvf.View`."""
        self._check_open()
        from .viewing import View

        return View(self.address, self._storage, height)

    @keywords(PyramidWords)
    def build_pyramid(self, levels: int | None = None, *, progress: Any = None, **words: Unpack[PyramidWords]) -> Dataset:
        """Build coarser levels in the store; keyword arguments are options of ``zvf pyramid`` (``ratio=8``, ``max_vertices=...``)."""
        self._check_writable()
        args = ["pyramid", "--in-place", self.address, *options(words)]
        if levels is not None:
            args += ["--levels", str(count_of("levels", levels))]
        command(*args, storage=self._storage, progress=progress)
        self.refresh()
        return self

    def validate(self, *, level: int = 3, progress: Any = None) -> Any:
        """Check the store against the rules of the format: see :func:`zvf.validate`."""
        self._check_open()
        from .tools import validate

        return validate(self, level=level, progress=progress)

    def edit(self, message: str | None = None) -> Edit:
        """One transaction: leaving the ``with`` block commits it, an exception changes nothing.

        ``message`` is what :meth:`log` says of it.
        """
        self._check_writable()
        from .edits import Edit

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
        """Add geometry in one commit: readers see all of it or nothing.

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
        self._check_writable()
        import tempfile

        if ids is None:
            ids = "keep" if any(words.get(name) is not None for name in ("object_ids", "part_ids")) else "shift"
        args = [f"--ids={ids}", f"--bounds={bounds}", f"--refresh={refresh}", *([] if message is None else [f"--message={message}"])]
        with tempfile.TemporaryDirectory(prefix="zvf-append-") as folder:
            if isinstance(thing, Dataset):
                if words:
                    raise ArgumentTypeError(f"append: a dataset is added as it is, without {', '.join(words)}")
                source, storage = thing.address, [*self._storage, *thing._storage]
            else:
                source, storage = os.path.join(folder, "added.zarrvectors"), self._storage
                self._write_like(source, thing, words)
            try:
                command("join", self.address, source, *args, storage=storage, progress=progress)
            except Error as error:
                if not isinstance(thing, Dataset):  # the caller knows nothing of this file
                    error._reword(error.message.replace(f"{source}: ", "what is added: "), error.hint)
                raise
        self.refresh()
        return self

    def _write_like(self, at: str, thing: Any, words: dict[str, Any]) -> None:
        """Writes a store that fits this one."""
        from ._arrays import indices
        from ._pieces import CHAINS
        from .writing import create

        level = self.info()["levels"][0]
        kind = words.pop("kind", None) or (self.kinds[0] if self.kinds else "point_cloud")
        said = words.pop("object_attributes", None)
        scopes = {"link": "element", "fragment": "part"}
        with create(at, kind=kind, ndim=self.ndim, chunk=level["chunk_shape"], axes=self.axes) as writer:
            for scope, name, _, flags in self._columns():
                writer._known.setdefault((kind, scopes.get(scope, scope)), {})[f"{name}_valid"] = bool(flags)
            writer.push(thing, **words)
            if said:
                ids = next((words[n] for n in ("part_ids", "object_ids") if words.get(n) is not None), None)
                if ids is None:
                    ids = np.arange(writer._next)
                elif kind not in CHAINS:  # of vertices, each object once; of lines, as they were given
                    ids = np.unique(indices(ids, "object_ids"))
                writer.objects(ids, said)

    def log(self) -> list[dict[str, Any]]:
        """The commits of the store."""
        self._check_open()
        said, _ = command("history", "log", self.address, storage=self._storage)
        return said if isinstance(said, list) else said.get("commits", [said])

    def undo(self, commit: str | int | None = None) -> None:
        """Undo the last commit that is in effect; `commit` is its `txid` or `head` in `log()`."""
        self._check_writable()
        command("history", "undo", self.address, *([] if commit is None else [str(commit)]), storage=self._storage)
        self.refresh()

    def scan_polars(self) -> Any:
        """A lazy frame of polars over the finest level; selected columns and rows are pushed down.

        Comparisons of attributes with numbers and text, ``is_in`` and ``is_between`` become a condition, those of
        ``pl.col("position").arr.get(axis)`` narrow the chunks that are read; polars applies its whole predicate to
        what comes, so that anything else is right as well, and reads more.
        """
        from ._polars import scan

        return scan(self)

    def __repr__(self) -> str:
        if self._closed:
            return f"<zvf.Dataset {self.address!r}: closed>"
        info = self.info()
        kinds = ", ".join(info["kinds"]) or "empty"
        return f"<zvf.Dataset {self.address!r}: {kinds}, {len(self)} vertices, {len(info['levels'])} levels>"

    def _repr_html_(self) -> str:
        if self._closed:
            return f"<div><b>zvf.Dataset</b> {escaped(self.address)}: closed</div>"
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
        return f"<div><b>zvf.Dataset</b> {escaped(self.address)}{picture(self, len(self))}{table_html(rows)}</div>"
