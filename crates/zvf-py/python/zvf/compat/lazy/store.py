"""A store and its levels, read when what is in them is computed (``views``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..api.dataset import Dataset
from ..api.dataset import open as open_dataset
from ..api.level import Level
from ..api.schema import StorageOptions
from ..core.store import rebind
from ..exceptions import ArrayError, MissingObjectError
from .views import LazyAttributes, LazyColumn, LazyPolylines, LazyView

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

    def set_backend(self, backend: Any, *, storage_options: Mapping[str, Any] | None = None, **backend_kwargs: Any) -> None:
        """Reach the same store with other options."""
        self._dataset = Dataset(rebind(self._dataset.store, backend, storage_options=storage_options, **backend_kwargs))

    def __getitem__(self, level: int) -> LazyLevel:
        return LazyLevel(self._dataset.level(level))

    def __repr__(self) -> str:
        kinds = ", ".join(self.geometry_types)
        return f"LazyStore({self.url!r}, levels={self.levels}, geometry=[{kinds}], chunk={self.chunk_shape}, bin={self.bin_shape})"

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
    def preserves_object_ids(self) -> bool:
        """Whether its objects have the ids of the level below."""
        return bool(self._level._metadata().preserves_object_ids)

    @property
    def shared_fragments(self) -> bool:
        """Whether several objects may have the same fragment."""
        return bool(self._level._metadata().shared_fragments)

    @property
    def inherited_num_objects(self) -> int | None:
        """How many objects the level below has, where the level says so."""
        return self._level._metadata().inherited_num_objects

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
        if self.attribute_values is None:
            raise ArrayError("read_attribute_chunk: this level has no chunks by an attribute")
        if value not in self.attribute_values:
            return []
        found = self._level.read(where={self.chunk_attribute_name: value}, attributes=[])
        coords = self._level._cell_coords(found.positions)
        _, chunk = np.unique(coords, axis=0, return_inverse=True)
        return [found.positions[chunk.reshape(-1) == n] for n in range(int(chunk.max(initial=-1)) + 1)]

    def rechunk(self, by: str, *, bins: Any = None, output: Any = None, categorical: bool = False) -> dict[str, Any]:
        """The store cut in another way."""
        from ..rechunk import RechunkSpec, rechunk

        return rechunk(self._level.dataset.store, RechunkSpec(by=by, bins=bins, categorical=categorical), output=output)

    def __repr__(self) -> str:
        bins = self.bin_shape or self._level.dataset._root_meta.effective_bin_shape
        return f"LazyLevel({self.level_index}, vertices={self.vertex_count}, chunks={self.chunk_count}, bin_shape={bins})"


class LazyObjectIndex(dict[int, Any]):
    """The fragments of each object, by its id."""

    def __missing__(self, object_id: Any) -> Any:
        raise MissingObjectError(f"Object ID {object_id} is not in this level ({len(self)} object(s))")

    @property
    def object_count(self) -> int:
        """How many objects there are."""
        return len(self)

    @property
    def object_ids(self) -> list[int]:
        """Their ids."""
        return list(self)
