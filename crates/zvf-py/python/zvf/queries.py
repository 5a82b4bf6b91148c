"""Levels of a dataset, and queries."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _zvf
from ._arrays import ids_between
from ._html import escaped, picture, table_html
from ._jobs import awaited, reporter
from ._keywords import QueryWords, keywords
from ._words import WORDS, count_of, number_of, plain, text_of, whole_of
from .answers import Answer
from .errors import ArgumentError, ArgumentTypeError, unknown_word, wrong_value

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .datasets import Dataset


def max_vertices(count: int) -> tuple[str, float]:
    """The finest level at which the query finds at most ``count`` vertices."""
    return "max_vertices", _limit("count", count)


def max_bytes(count: int) -> tuple[str, float]:
    """The finest level at which the query reads at most ``count`` bytes."""
    return "max_bytes", _limit("count", count)


def max_error(distance: float) -> tuple[str, float]:
    """The coarsest level with an error of at most ``distance``."""
    return "max_error", _limit("distance", distance)


def _limit(name: str, value: Any) -> float:
    found = number_of(name, value)
    if not found >= 0:  # neither is NaN
        raise wrong_value(name, "a number from 0 on", str(found))
    return found


class Level:
    """One resolution of a dataset."""

    __slots__ = ("dataset", "number")

    def __init__(self, dataset: Dataset, number: int) -> None:
        self.dataset = dataset
        self.number = number

    def info(self) -> dict[str, Any]:
        """The content of the level, as a mapping."""
        return next(e for e in self.dataset.info()["levels"] if e["level"] == self.number)

    def __len__(self) -> int:
        return int(self.info()["vertices"])

    @property
    def attributes(self) -> list[str]:
        """The names of the columns of vertices."""
        columns = self.dataset._columns(self.number)
        hidden = {flags for scope, _, _, flags in columns if scope == "vertex"}
        return [name for scope, name, _, _ in columns if scope == "vertex" and name not in hidden]

    @property
    def groups(self) -> dict[str, np.ndarray]:
        """The members of each group, by its name."""
        found = self.dataset._native.groups(self.number, 2**31).wait()
        return {
            g["name"]: np.array(g["ids"], dtype=np.int64) if g["ids"] is not None else ids_between(g["range"], f"the group {g['name']!r}")
            for g in found
        }

    def chunks(self) -> np.ndarray:
        """The keys of the chunks, in numeric order."""
        found = self.dataset._native.chunks(self.number).wait()
        return np.array(found, dtype=np.int64) if found else np.zeros((0, self.dataset.ndim), dtype=np.int64)

    @keywords(QueryWords)
    def select(self, **words: Unpack[QueryWords]) -> Query:
        """A query of this level."""
        given: Any = words
        return self.dataset.select(level=self.number, **given)

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

    def _repr_html_(self) -> str:
        query, rows = self.select(), [(k, v) for k, v in self.info().items() if not isinstance(v, (dict, list))]
        rows.append(("attributes", ", ".join(self.attributes) or "none"))
        return f"<div><b>zvf.Level {self.number}</b>{picture(query, len(self))}{table_html(rows)}</div>"

    def __repr__(self) -> str:
        return f"<zvf.Level {self.number}: {len(self)} vertices>"


class Query:
    """A query that has not run yet: a value, cheap to create and to pass on."""

    __slots__ = ("dataset", "words")

    def __init__(self, dataset: Dataset, words: Mapping[str, Any]) -> None:
        self.dataset = dataset
        self.words = dict(words)

    @keywords(QueryWords)
    def select(self, **words: Unpack[QueryWords]) -> Query:
        """The same query with more arguments; a condition is added to the existing one, other arguments replace theirs."""
        merged = dict(self.words)
        for name, value in words.items():
            if name not in WORDS:
                raise unknown_word("a query", name, WORDS)
            if value is None:
                continue
            if name == "where" and "where" in merged:
                value = f"({merged['where']}) and ({text_of(name, value)})"
            merged[name] = plain(self.dataset, name, value)
        regions = [name for name in _REGIONS if name in merged]
        if len(regions) > 1:
            raise ArgumentError(f"a query has one region, and this one has {' and '.join(regions)}")
        return Query(self.dataset, merged)

    def limit(self, vertices: int) -> Query:
        """The same query with a limit on the number of vertices."""
        vertices = count_of("limit", vertices)
        return Query(self.dataset, {**self.words, "limit": min(vertices, self.words.get("limit", vertices))})

    def _query(self) -> Any:
        if "where" not in self.words:
            return _zvf.Query(self.words)
        level = self.words.get("level", 0)
        return _zvf.Query({**self.words, "columns": self.dataset._columns(0 if isinstance(level, tuple) else level)})

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True  # a query, whatever it finds

    def __iter__(self) -> Iterator[Answer]:
        """The batches of :meth:`batches`."""
        return self.batches()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise ArgumentTypeError("a query is not one array: take query.read().positions, or query.read().to_pandas()")

    def read(self, *, progress: Any = None) -> Answer:
        """Reads everything that it finds."""
        if progress is None:
            return Answer(self.dataset._native.run(self._query()).wait(), self)
        advance, end = reporter(progress, "read")
        try:
            answer = Answer(self.dataset._native.run(self._query()).wait(advance), self)
            if advance is not None:
                advance(len(answer), len(answer))
            return answer
        finally:
            end()

    async def aread(self) -> Answer:
        """As :meth:`read`, in asyncio; cancelling the task stops it."""
        return Answer(await awaited(self.dataset._native.run(self._query())), self)

    def count(self) -> int:
        """The number of vertices that it finds."""
        return int(self.counts()["vertices"])

    def counts(self) -> dict[str, Any]:
        """The numbers of vertices, parts and elements that it finds, and whether the answer is complete."""
        return self.dataset._native.count(self._query()).wait()

    async def acount(self) -> int:
        """As :meth:`count`, in asyncio."""
        return int((await self.acounts())["vertices"])

    async def acounts(self) -> dict[str, Any]:
        """As :meth:`counts`, in asyncio."""
        return await awaited(self.dataset._native.count(self._query()))

    async def aplan(self) -> dict[str, Any]:
        """As :meth:`plan`, in asyncio."""
        return await awaited(self.dataset._native.plan(self._query()))

    def plan(self) -> dict[str, Any]:
        """What would be read: cells, rows, requests, bytes."""
        return self.dataset._native.plan(self._query()).wait()

    def explain(self) -> str:
        """What would be read, as text."""
        return self.plan()["text"]

    def batches(self, rows: int | None = None) -> Iterator[Answer]:
        """The answer batch by batch, in bounded memory; leaving the loop stops reading.

        Args:
            rows: at most so many vertices a batch. Parts stay whole: a longer one is a batch of its own; edges and
                faces stay with their vertices.
        """
        limit = _batch_rows(rows)
        stream = self.dataset._native.batches(self._query())
        try:
            while (batch := stream.next().wait()) is not None:
                for part in [batch] if limit is None else batch.split(limit):
                    yield Answer(part, of=self.dataset)
        finally:
            stream.close()

    async def abatches(self, rows: int | None = None) -> AsyncIterator[Answer]:
        """As :meth:`batches`, in asyncio."""
        limit = _batch_rows(rows)
        stream = self.dataset._native.batches(self._query())
        try:
            while (batch := await awaited(stream.next())) is not None:
                for part in [batch] if limit is None else batch.split(limit):
                    yield Answer(part, of=self.dataset)
        finally:
            stream.close()

    def by_chunk(self) -> list[Query]:
        """One query per chunk of this query: together they find every point once.

        For point clouds, without a limit; other kinds of geometry lie in several chunks.

        >>> import numpy as np, tempfile, zvf
        >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.random.default_rng(0).random((100, 3)), chunk=0.5)
        >>> sum(query.count() for query in ds.select().by_chunk())
        100
        """
        level = self.words.get("level", 0)
        if isinstance(level, tuple):
            raise wrong_value("level", "a number for work over chunks", f"the rule {level}")
        if self.dataset.kinds != ("point_cloud",) or "limit" in self.words:
            raise ArgumentError("work over chunks is for point clouds, without a limit")
        # Ranges of keys: a point at a face of a chunk may be stored on either side, and one key may be of several values.
        first, end = self.words.get("chunks", (None, None))
        keys = self.dataset._native.chunks_of(self._query()).wait()
        bounds = [first, *keys[1:], end]
        return [Query(self.dataset, {**self.words, "chunks": tuple(bounds[at : at + 2])}) for at in range(len(keys))]

    def by_objects(self, count: int = 1000) -> list[Query]:
        """One query per group of objects: together they find every part once.

        For lines, polylines and streamlines, whose vertices all belong to objects; of other kinds chunks are the parts.

        >>> import numpy as np, tempfile, zvf
        >>> ds = zvf.polylines(tempfile.mkdtemp() + "/a.zarrvectors", [np.full((2, 3), float(i)) for i in range(5)])
        >>> [len(query) for query in ds.select().by_objects(2)]
        [4, 4, 2]
        """
        count = count_of("count", count)
        if count < 1:
            raise wrong_value("count", "at least 1", str(count))
        level = self.words.get("level", 0)
        if isinstance(level, tuple):
            raise wrong_value("level", "a number for work over objects", f"the rule {level}")
        kinds = self.dataset.kinds
        kind = self.words.get("kind", kinds[0] if kinds else None)
        if kind not in ("line", "polyline", "streamline") or "limit" in self.words:
            raise ArgumentError("work over objects is for lines, polylines and streamlines, without a limit")
        ids = self.words.get("objects")
        if ids is None:
            ids = self.dataset.object_ids(level).tolist()
            if not ids and self.dataset.level(level).count():
                raise ArgumentError("work over objects needs an index of objects, which this store does not have")
        ids = list(dict.fromkeys(ids))
        return [Query(self.dataset, {**self.words, "objects": ids[at : at + count]}) for at in range(0, len(ids), count)]

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
        size = [_pixels("width", width), _pixels("height", height)]
        words = [None if v is None else text_of(k, v) for k, v in (("colour", colour), ("view", view), ("background", background))]
        return self.dataset._native.render(self._query(), *size, *words).wait()

    def _repr_png_(self) -> bytes:
        return self.render()

    def _repr_html_(self) -> str:
        rows = self.words.items() or [("everything", "")]
        return f"<div><b>zvf.Query</b> of {escaped(self.dataset.address)}{table_html(rows)}</div>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Query, (self.dataset, self.words)

    def __repr__(self) -> str:
        return f"<zvf.Query {self.words} of {self.dataset.address!r}>"


_REGIONS = ("box", "half_open_box", "ball", "half_spaces", "prism")

_MAX_PIXELS = 16_384  # of a side of a picture


def _pixels(name: str, value: Any) -> int:
    count = whole_of(name, value)
    if not 1 <= count <= _MAX_PIXELS:
        raise wrong_value(name, f"1 to {_MAX_PIXELS} pixels", str(count))
    return count


def _batch_rows(rows: int | None) -> int | None:
    if rows is None:
        return None
    count = count_of("rows", rows)
    if count < 1:
        raise wrong_value("rows", "at least 1", str(rows))
    return min(count, sys.maxsize)
