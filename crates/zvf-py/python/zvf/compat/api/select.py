"""What to read, and queries that do it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._config import config
from ..exceptions import ZVError
from .grid import CellRef, CellSet
from .plan import ReadPlan

if TYPE_CHECKING:
    from .level import Level
    from .result import ReadResult


def as_box(value: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The corners of a box as arrays."""
    low, high = value
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def _common(a: Sequence[int] | None, b: Sequence[int] | None) -> Sequence[int] | None:
    if a is None or b is None:
        return b if a is None else a
    kept = set(b)
    return [i for i in a if i in kept]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read: a value. Every field narrows."""

    level: int | None = None
    bbox: tuple[Sequence[float], Sequence[float]] | None = None
    near: tuple[Sequence[float], float] | None = None
    objects: Sequence[int] | None = None
    groups: Sequence[int] | None = None
    where: Mapping[str, Any] | None = None
    cells: Any = None
    cells_split: bool = True
    attributes: Sequence[str] | str = "all"
    limit: int | None = None

    def intersect(self, other: Selection) -> Selection:
        """Both at once."""
        bbox = self.bbox if other.bbox is None else other.bbox
        if self.bbox is not None and other.bbox is not None:
            (a, b), (c, d) = as_box(self.bbox), as_box(other.bbox)
            bbox = (np.maximum(a, c), np.minimum(b, d))
        limits = [x for x in (self.limit, other.limit) if x is not None]
        return Selection(
            level=self.level if other.level is None else other.level,
            bbox=bbox,
            near=self.near if other.near is None else other.near,
            objects=_common(self.objects, other.objects),
            groups=_common(self.groups, other.groups),
            where={**(self.where or {}), **(other.where or {})} or None,
            cells=self.cells if other.cells is None else other.cells,
            cells_split=self.cells_split and other.cells_split,
            attributes=self.attributes if other.attributes == "all" else other.attributes,
            limit=min(limits) if limits else None,
        )

    def to_reader_kwargs(self, *, supports: Sequence[str]) -> dict[str, Any]:
        """The words of a function of ``types`` that takes those in ``supports``; what it does not take is left out."""
        box = None if self.bbox is None else as_box(self.bbox)
        if self.near is not None:
            centre, radius = np.asarray(self.near[0], dtype=np.float64), float(self.near[1])
            ball = centre - radius, centre + radius
            box = ball if box is None else (np.maximum(box[0], ball[0]), np.minimum(box[1], ball[1]))
        given: dict[str, Any] = {
            "bbox": box,
            "object_ids": None if self.objects is None else list(self.objects),
            "group_ids": None if self.groups is None else list(self.groups),
            "attribute_filter": dict(self.where) if self.where else None,
            "attribute_names": None if isinstance(self.attributes, str) else list(self.attributes),
        }
        if self.cells_pushed_down(supports=supports):
            given["chunks"] = [tuple(int(x) for x in getattr(ref, "coords", ref)) for ref in self.cells]
        return {"level": self.level, **{name: value for name, value in given.items() if value is not None and name in supports}}

    def cells_pushed_down(self, *, supports: Sequence[str]) -> bool:
        """Whether the cells are among those words."""
        return self.cells is not None and self.cells_split and "chunks" in supports

    @property
    def narrows(self) -> bool:
        """Whether less than the level is asked for."""
        terms = (self.bbox, self.near, self.objects, self.groups, self.where, self.cells)
        return any(term is not None for term in terms)

    @property
    def needs_post_filter(self) -> bool:
        """Whether something is decided after the read."""
        return self.near is not None or self.limit is not None or self.cells is not None


def condition(where: Any) -> str:
    """Values of attributes as a condition."""
    words = []
    for name, value in dict(where).items():
        quoted = f"`{name}`"
        if isinstance(value, str):
            text = value.replace("'", "''")
            words.append(f"{quoted} = '{text}'")
        else:
            words.append(f"{quoted} = {value.item() if isinstance(value, np.generic) else value}")
    return " and ".join(words)


class Query:
    """A read that has not happened yet."""

    __slots__ = ("_level", "_selection")

    def __init__(self, level: Level, selection: Selection) -> None:
        self._level = level
        self._selection = selection

    def select(self, **kw: Any) -> Query:
        """A new query that is narrower."""
        return Query(self._level, self._selection.intersect(Selection(**kw)))

    def limit(self, n: int) -> Query:
        """A new query for at most so many vertices."""
        return Query(self._level, replace(self._selection, limit=int(n)))

    @property
    def selection(self) -> Selection:
        """What is asked for."""
        return self._selection

    def read(self) -> ReadResult:
        """The answer."""
        return self._level._execute(self._selection)

    async def aread(self) -> ReadResult:
        """The answer, in asyncio."""
        return await self._level._aexecute(self._selection)

    def count(self) -> int:
        """How many vertices it has."""
        return self._level._count(self._selection)

    def object_ids(self) -> npt.NDArray[Any]:
        """The ids of its objects, sorted, each once."""
        result = self.read()
        for ids in (result.part_objects, result.object_ids):
            if ids is not None and len(ids):
                return np.unique(np.asarray(ids))
        return np.zeros(0, dtype=np.int64)

    def explain(self) -> str:
        """What it will do, as text."""
        sel = self._selection
        words = [f"level {sel.level}"]
        if sel.bbox is not None:
            low, high = as_box(sel.bbox)
            words.append(f"bbox {low.tolist()}..{high.tolist()}")
        if sel.near is not None:
            words.append(f"within {sel.near[1]} of {list(sel.near[0])}")
        if sel.objects is not None:
            words.append(f"{len(sel.objects)} object id(s)")
        if sel.groups is not None:
            words.append(f"{len(sel.groups)} group(s)")
        if sel.where:
            words.append(f"where {dict(sel.where)}")
        if sel.limit is not None:
            words.append(f"limit {sel.limit}")
        return f"{self._level.kind} read: {', '.join(words)}\n  via {self._level._explain(sel)}"

    def plan(self) -> ReadPlan:
        """The cells that would be read; nothing is."""
        return self._level.plan(self._selection)

    def cells(self) -> CellSet:
        """The cells that it touches, from metadata."""
        return CellSet(self._level._for(self._selection)._touched(self._selection))

    def iter_cells(self) -> Iterator[tuple[CellRef, ReadResult]]:
        """The answer cell by cell: pairs of a cell and what is in it."""
        if config.limits == "reference":
            raise NotImplementedError("Query.iter_cells() arrives with the resolver phase")
        return ((ref, self.select(cells=[ref]).read()) for ref in sorted(self.cells()))

    def __repr__(self) -> str:
        return f"Query({self.explain().splitlines()[0]})"


class SelectionError(ZVError):
    """A selection that a store cannot answer."""


__all__ = ["Query", "Selection"]
