"""A store, its levels and arrays, read when they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..api.dataset import Dataset
from ..api.dataset import open as open_dataset
from ..api.grid import CellRef
from ..api.level import Level
from ..api.schema import StorageOptions

if TYPE_CHECKING:
    from .writer import ZVWriter


def open_zv(
    path: Any, *, backend: str | None = None, storage_options: Mapping[str, Any] | None = None, **backend_kwargs: Any
) -> LazyStore:
    """Open a store; nothing of it is read before it is computed."""
    storage = StorageOptions(backend=backend, options={**dict(storage_options or {}), **backend_kwargs})
    return LazyStore(open_dataset(path, storage=storage))


class LazyStore:
    """A store."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @property
    def levels(self) -> list[int]:
        """The numbers of the resolutions."""
        return list(self._dataset.levels)

    @property
    def geometry_types(self) -> list[str]:
        """The kinds of geometry."""
        return list(self._dataset.kinds)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._dataset.ndim

    @property
    def bounds(self) -> Any:
        """The corners."""
        return self._dataset._root_meta.bounds

    @property
    def chunk_shape(self) -> tuple[float, ...]:
        """The size of a chunk."""
        return tuple(self._dataset._root_meta.chunk_shape)

    @property
    def bin_shape(self) -> tuple[float, ...]:
        """The size of a bin: that of a chunk where there are no bins."""
        return tuple(self._dataset._root_meta.effective_bin_shape)

    @property
    def base_bin_shape(self) -> tuple[float, ...] | None:
        """The size of a bin, where one is declared."""
        return self._dataset._root_meta.base_bin_shape

    @property
    def bins_per_chunk(self) -> tuple[int, ...]:
        """How many bins a chunk has on each axis."""
        return self._dataset._root_meta.bins_per_chunk

    @property
    def zv_version(self) -> str:
        """The format version."""
        return self._dataset._root_meta.zv_version

    @property
    def path(self) -> Path:
        """The folder."""
        return self._dataset.store.path

    @property
    def url(self) -> str:
        """Where it is."""
        return self._dataset.url

    def object_levels(self, oid: int) -> list[int]:
        """The levels that have an object."""
        return [level for level in self.levels if self[level].has_object(oid)]

    @property
    def headers(self) -> dict[str, dict[str, Any]]:
        """Headers of other formats."""
        registry = self._dataset.headers
        return {name: registry.get(name) for name in registry.available_formats}

    def __getitem__(self, level: int) -> LazyLevel:
        return LazyLevel(self._dataset.level(level))

    def __len__(self) -> int:
        return len(self.levels)

    def __iter__(self) -> Iterator[LazyLevel]:
        return (self[i] for i in self.levels)


class LazyLevel:
    """One resolution."""

    def __init__(self, level: Level) -> None:
        self._level = level

    @property
    def vertex_count(self) -> int:
        """How many vertices there are."""
        return self._level.vertex_count

    @property
    def chunk_keys(self) -> list[tuple[int, ...]]:
        """The keys of the chunks."""
        return [ref.coords for ref in sorted(self._level.cells())]

    @property
    def chunk_count(self) -> int:
        """How many chunks there are."""
        return len(self.chunk_keys)

    @property
    def vertices(self) -> LazyColumn:
        """The positions."""
        return LazyColumn(self._level, None)

    @property
    def attributes(self) -> LazyAttributes:
        """The attributes of vertices."""
        return LazyAttributes(self._level)

    @property
    def polylines(self) -> LazyPolylines:
        """The polylines, by id."""
        return LazyPolylines(self._level)

    def filter(self, **terms: Any) -> LazyView:
        """What lies in a box, or belongs to objects or groups."""
        return LazyView(self._level, {}).filter(**terms)

    def writer(self) -> ZVWriter:
        """A writer of columns and points; the store is opened for writing by this."""
        from ..api.dataset import open as reopened
        from .writer import ZVWriter

        source = self._level.dataset
        return ZVWriter(reopened(source.store._shared.address, mode="r+", storage=source._storage).level(self._level.index))

    @property
    def object_index(self) -> LazyObjectIndex:
        """The fragments of each object."""
        return LazyObjectIndex(self._level.objects.manifests())

    @property
    def level_index(self) -> int:
        """The number of the level."""
        return self._level.index

    @property
    def chunk_shape(self) -> tuple[float, ...]:
        """The size of a chunk."""
        return tuple(self._level.scale)

    @property
    def bin_shape(self) -> tuple[float, ...] | None:
        """The size of a bin, where the level says one."""
        return self._level._metadata().bin_shape

    @property
    def bin_ratio(self) -> tuple[int, ...] | None:
        """How many bins of the finest level one of its bins has on each axis, where the level says so."""
        return self._level._metadata().bin_ratio

    @property
    def object_sparsity(self) -> float:
        """Which share of the objects it has."""
        return self._level._metadata().object_sparsity

    @property
    def present_oids(self) -> npt.NDArray[Any]:
        """The ids of the objects that have geometry, sorted."""
        return np.sort(self._level.objects.ids())

    def has_object(self, object_id: int) -> bool:
        """Whether an object has geometry."""
        return int(object_id) in self._level.objects

    @property
    def chunk_attribute_name(self) -> str | None:
        """The attribute whose values give chunks."""
        return self._level._metadata().chunk_attribute_name

    @property
    def chunk_dims(self) -> list[str] | None:
        """What the components of a chunk key are called."""
        return self._level._metadata().chunk_dims

    @property
    def attribute_values(self) -> list[Any] | None:
        """The values of that attribute; ``None`` where there is none."""
        values = self._level._metadata().chunk_attribute_values
        return None if values is None else list(values)

    def read_attribute_chunk(self, value: Any) -> list[npt.NDArray[Any]]:
        """The vertices of the chunks of a value, a list with one array for each chunk."""
        if value not in (self.attribute_values or []):
            return []
        found = self._level.read(where={self.chunk_attribute_name: value}, attributes=[])
        coords = self._level._cell_coords(found.positions)
        _, chunk = np.unique(coords, axis=0, return_inverse=True)
        return [found.positions[chunk.reshape(-1) == n] for n in range(int(chunk.max(initial=-1)) + 1)]

    def rechunk(self, *, by: str, output: Any, bins: Any = None) -> dict[str, Any]:
        """The store cut in another way."""
        from ..rechunk import RechunkSpec, rechunk

        return rechunk(self._level.dataset.store, RechunkSpec(by=by, bins=bins), output=output)


class LazyObjectIndex(dict[int, Any]):
    """The fragments of each object, by its id."""

    @property
    def object_count(self) -> int:
        """How many objects there are."""
        return len(self)

    @property
    def object_ids(self) -> list[int]:
        """Their ids."""
        return list(self)


class LazyColumn:
    """Positions, or an attribute."""

    def __init__(self, level: Level, name: str | None) -> None:
        self._level = level
        self._name = name

    def _of(self, result: Any) -> npt.NDArray[Any]:
        return result.positions if self._name is None else result.attributes[self._name]

    def _names(self) -> list[str]:
        return [] if self._name is None else [self._name]

    def compute(self) -> npt.NDArray[Any]:
        """All of it."""
        return self._of(self._level.read(attributes=self._names()))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found = self.compute()
        return found if dtype is None else found.astype(dtype)

    def __getitem__(self, chunk: Any) -> npt.NDArray[Any]:
        coords = chunk if isinstance(chunk, tuple) else (chunk,)
        return self._of(self._level.select(cells=[CellRef(tuple(int(c) for c in coords))], attributes=self._names()).read())

    def to_delayed(self) -> list[Any]:
        """One piece of dask work for each chunk."""
        import dask

        read = dask.delayed(_read_chunk)
        return [read(self._level.dataset, self._level.index, ref.coords, self._name) for ref in sorted(self._level.cells())]


def _read_chunk(dataset: Dataset, level: int, coords: tuple[int, ...], name: str | None) -> npt.NDArray[Any]:
    return LazyColumn(dataset.level(level), name)[coords]


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

    def __init__(self, level: Level, ids: list[int] | None = None) -> None:
        self._level = level
        self._id = ids

    def __getitem__(self, object_id: int) -> LazyPolylines:
        return LazyPolylines(self._level, [int(object_id)])

    def __len__(self) -> int:
        return self._level.objects.count if self._id is None else len(self._id)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self)

    @property
    def object_ids(self) -> list[int]:
        """Their ids."""
        return [int(i) for i in self._level.objects.ids()] if self._id is None else list(self._id)

    def items(self) -> Iterator[tuple[int, LazyPolylines]]:
        """Ids, and the polyline of each."""
        return ((i, self[i]) for i in self.object_ids)

    def filter(self, *, object_ids: Any = None, length_range: tuple[float, float] | None = None) -> LazySelection:
        """Those with these ids, and with a length in this range."""
        wanted = None if object_ids is None else {int(i) for i in object_ids}
        kept = [i for i in self.object_ids if wanted is None or i in wanted]
        if length_range is not None:
            low, high = (float(x) for x in length_range)
            lengths = {i: float(np.linalg.norm(np.diff(self[i].compute(), axis=0), axis=1).sum()) for i in kept}
            kept = [i for i in kept if low <= lengths[i] <= high]
        return LazySelection(self._level, kept)

    def compute(self) -> Any:
        """One polyline, or all as a list."""
        if self._id is None:
            return self._level.read(attributes=[]).polylines
        found = self._level.read(objects=self._id, attributes=[])
        if not found.vertex_count:
            raise KeyError(self._id[0])
        return found.positions


class LazySelection(LazyPolylines):
    """Some of the polylines."""

    def compute(self) -> list[npt.NDArray[Any]]:
        """Each of them."""
        return [self[i].compute() for i in self.object_ids]


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

    def compute(self) -> dict[str, Any]:
        """The positions, and how many there are."""
        found = self._level.read(attributes=[], **self._terms)
        return {"positions": found.positions, "vertex_count": found.vertex_count}
