"""What is in a level, read when it is computed: columns, polylines, and parts of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..api.dataset import Dataset
from ..api.grid import CellRef
from ..api.level import Level
from ..exceptions import MissingObjectError

_CHAINS = ("line", "polyline", "streamline")


class Pending:
    """Work that is done when it is computed: what stands for a value of dask where that is not installed."""

    def __init__(self, work: Callable[..., Any], *words: Any) -> None:
        self._work = work
        self._words = words

    def compute(self) -> Any:
        """Do it."""
        return self._work(*self._words)

    def __repr__(self) -> str:
        return f"Pending({self._work.__name__})"


def _delayed(work: Callable[..., Any], *words: Any) -> Any:
    """A piece of work of dask."""
    try:
        from dask.delayed import delayed
    except ImportError:
        return Pending(work, *words)
    return delayed(work)(*words)


class LazyColumn:
    """Positions, or an attribute."""

    def __init__(self, level: Level, name: str | None) -> None:
        self._level = level
        self._name = name

    def compute(self) -> npt.NDArray[Any]:
        """All of it."""
        return _read_column(self._level, self._name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found = self.compute()
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        return self._level.vertex_count

    def __getitem__(self, chunk: Any) -> Any:
        """What is in one chunk, when it is computed; nothing where there is no such chunk."""
        coords = tuple(int(c) for c in (chunk if isinstance(chunk, tuple) else (chunk,)))
        return _delayed(_read_chunk, self._level.dataset, self._level.index, coords, self._name)

    def __iter__(self) -> Iterator[Any]:
        return (self[ref.coords] for ref in sorted(self._level.cells()))

    def to_delayed(self) -> list[Any]:
        """One piece of dask work for each chunk."""
        return list(self)

    def __repr__(self) -> str:
        what = "positions" if self._name is None else repr(self._name)
        return f"LazyColumn({what}, chunks={len(self._level.cells())})"


def _read_column(level: Level, name: str | None, **terms: Any) -> npt.NDArray[Any]:
    """Positions or an attribute, chunk by chunk as they are stored: of chains too, which are read object by object else."""
    found = level.read(attributes=[] if name is None else [name], **terms)
    if name is not None and name not in found.attributes:
        return np.zeros(0, dtype=np.float32)
    values = found.positions if name is None else found.attributes[name]
    if level.kind not in _CHAINS:
        return values
    return values[np.lexsort(level._cell_coords(found.positions).T[::-1])]


def _read_chunk(dataset: Dataset, level: int, coords: tuple[int, ...], name: str | None) -> npt.NDArray[Any]:
    return _read_column(dataset.level(level), name, cells=[CellRef(coords)])


class LazyAttributes(Mapping[str, LazyColumn]):
    """Attributes by name."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def __getitem__(self, name: str) -> LazyColumn:
        if name not in self._level.attribute_names("vertex"):
            raise KeyError(name)
        return LazyColumn(self._level, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._level.attribute_names("vertex"))

    def __len__(self) -> int:
        return len(self._level.attribute_names("vertex"))


class LazyPolylines:
    """Polylines by id."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def __getitem__(self, object_id: int) -> Any:
        """One polyline, when it is computed."""
        if int(object_id) not in self._level.objects:
            raise MissingObjectError(f"Polyline {object_id} is not in this level ({len(self)} object(s))")
        return self._pending(int(object_id))

    def _pending(self, object_id: int) -> Any:
        return _delayed(_read_polyline, self._level.dataset, self._level.index, object_id)

    def __iter__(self) -> Iterator[Any]:
        return (work for _, work in self.items())

    def __len__(self) -> int:
        return len(self.object_ids)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self)

    @property
    def object_ids(self) -> list[int]:
        """Their ids."""
        return [int(i) for i in self._level.objects.ids()]

    def items(self) -> Iterator[tuple[int, Any]]:
        """Ids, and the polyline of each, when it is computed."""
        return ((i, self._pending(i)) for i in self.object_ids)

    def filter(self, *, object_ids: Any = None, length_range: tuple[float, float] | None = None) -> LazySelection:
        """Those with these ids, and with a length in this range."""
        wanted = None if object_ids is None else {int(i) for i in object_ids}
        kept = [i for i in self.object_ids if wanted is None or i in wanted]
        if length_range is not None:
            low, high = (float(x) for x in length_range)
            lengths = [float(np.linalg.norm(np.diff(line, axis=0), axis=1).sum()) for line in _read_polylines(self._level, kept)]
            kept = [i for i, length in zip(kept, lengths) if low <= length <= high]
        return LazySelection(self._level, kept)

    def compute(self) -> list[npt.NDArray[Any]]:
        """Each of them."""
        if type(self) is LazyPolylines and self._level.kind in _CHAINS:
            return self._level.read(attributes=[]).polylines
        return _read_polylines(self._level, self.object_ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(count={self.count})"


class LazySelection(LazyPolylines):
    """Some of the polylines."""

    def __init__(self, level: Level, ids: list[int]) -> None:
        super().__init__(level)
        self._ids = ids

    @property
    def object_ids(self) -> list[int]:
        """Their ids."""
        return list(self._ids)


def _read_polylines(level: Level, ids: list[int]) -> list[npt.NDArray[Any]]:
    """The vertices of each object."""
    if not ids:
        return []
    found = level.read(objects=ids, attributes=[])
    owners = _owners(found)
    if found.part_objects is not None and len(found.part_objects) == len(ids):
        return found.polylines
    return [found.positions[owners == i] for i in ids]


def _read_polyline(dataset: Dataset, level: int, object_id: int) -> npt.NDArray[Any]:
    return _read_polylines(dataset.level(level), [object_id])[0]


def _owners(result: Any) -> npt.NDArray[Any]:
    """The object of each vertex of what was read by objects."""
    if result.part_objects is not None:
        return np.repeat(result.part_objects, [part.stop - part.start for part in result.parts]).astype(np.int64)
    return np.zeros(0, dtype=np.int64) if result.object_ids is None else np.asarray(result.object_ids)


class LazyPositions:
    """The positions of a part of a level."""

    def __init__(self, view: LazyView) -> None:
        self._view = view

    def compute(self) -> npt.NDArray[Any]:
        """All of them."""
        return self._view.compute()["positions"]


class LazyView:
    """A part of a level."""

    def __init__(self, level: Level, terms: dict[str, Any]) -> None:
        self._level = level
        self._terms = terms

    def filter(self, *, bbox: Any = None, object_ids: Any = None, group_ids: Any = None) -> LazyView:
        """A smaller part."""
        given = {"bbox": bbox, "objects": object_ids, "groups": group_ids}
        query = self._level.select(**self._terms).select(**{k: v for k, v in given.items() if v is not None})
        sel = query.selection
        return LazyView(self._level, {"bbox": sel.bbox, "objects": sel.objects, "groups": sel.groups})

    @property
    def vertices(self) -> LazyPositions:
        """The positions of the part."""
        return LazyPositions(self)

    def _object_ids(self) -> list[int] | None:
        """The objects that are asked for and are there, ascending; nothing where all vertices are asked for."""
        objects, groups = self._terms.get("objects"), self._terms.get("groups")
        if objects is None and groups is None:
            return None
        found = {int(i) for i in self._level.objects.ids()}
        if objects is not None:
            found &= {int(i) for i in objects}
        if groups is not None:
            found &= {int(i) for group in groups for i in self._level.groups.by_id(group).members}
        return sorted(found)

    def compute(self) -> dict[str, Any]:
        """The positions, and how many there are; of objects and groups, ascending by id, the object of each as well."""
        ids, bbox = self._object_ids(), self._terms.get("bbox")
        if ids is None:
            found = self._level.read(attributes=[], bbox=bbox)
            return {"positions": found.positions, "vertex_count": found.vertex_count}
        found = self._level.read(attributes=[], bbox=bbox, objects=ids)
        return {"positions": found.positions, "vertex_count": found.vertex_count, "object_ids": _owners(found)}

    def __repr__(self) -> str:
        said = {name: term for name, term in self._terms.items() if term is not None}
        return f"LazyView({', '.join(said) or 'unfiltered'})"
