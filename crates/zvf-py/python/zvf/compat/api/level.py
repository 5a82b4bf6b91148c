"""One resolution of a dataset: where reads happen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import zvf

from .. import constants as c
from .._config import config
from ..core.store import get_resolution_level, read_level_metadata
from ..core.user_metadata import Metadata
from ..exceptions import ArrayError, ZVError, translating
from .grid import CellRef, CellSet, Grid
from .groups import GroupCatalog
from .objects import ObjectCatalog
from .result import Attributes, ReadResult, slices_from_lengths
from .plan import ReadPlan, plan_of
from .select import Query, Selection, as_box, condition

if TYPE_CHECKING:
    from .dataset import Dataset

_ATTR_GROUPS = {
    "vertex": c.VERTEX_ATTRIBUTES,
    "fragment": c.FRAGMENT_ATTRIBUTES,
    "object": c.OBJECT_ATTRIBUTES,
    "group": c.GROUP_ATTRIBUTES,
    "link": c.LINK_ATTRIBUTES,
}
_READERS = {
    c.GEOM_POINT_CLOUD: "read_points",
    c.GEOM_LINE: "read_lines",
    c.GEOM_POLYLINE: "read_polylines",
    c.GEOM_STREAMLINE: "read_polylines",
    c.GEOM_MESH: "read_mesh",
    c.GEOM_GRAPH: "read_graph",
    c.GEOM_SKELETON: "read_graph",
}
#: What the functions of ``types`` take, of those that take other words than the rest.
_TAKEN = {
    c.GEOM_POINT_CLOUD: ("bbox", "object_ids", "group_ids", "chunks", "attribute_names", "attribute_filter"),
    c.GEOM_LINE: ("bbox", "object_ids", "attribute_filter"),
    **dict.fromkeys((c.GEOM_POLYLINE, c.GEOM_STREAMLINE), ("bbox", "object_ids", "group_ids", "chunks", "attribute_filter")),
}
_CHAINS = (c.GEOM_POLYLINE, c.GEOM_STREAMLINE, c.GEOM_LINE)


def attribute_families() -> tuple[str, ...]:
    """What attributes can belong to."""
    return tuple(sorted(_ATTR_GROUPS))


def known_kinds() -> tuple[str, ...]:
    """The kinds of geometry."""
    return tuple(sorted(_READERS))


def _narrows(selection: Selection) -> bool:
    return selection.narrows


class Level:
    """One resolution of a dataset."""

    def __init__(self, dataset: Dataset, index: int) -> None:
        self._dataset = dataset
        self._index = int(index)
        self._meta: Any = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._kind: str | None = None  # of several kinds, the one that is asked for

    def of_kind(self, kind: str) -> Level:
        """The same level, of a store with several kinds asked for this one."""
        found = Level(self._dataset, self._index)
        found._kind = kind if kind in self._dataset.kinds else None
        return found

    @property
    def _single_kind(self) -> str | None:
        """The kind that has to be said, since there are several."""
        return self.kind if len(self._dataset.kinds) > 1 else None

    @property
    def index(self) -> int:
        """Its number."""
        return self._index

    @property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self._dataset

    @property
    def kind(self) -> str:
        """The kind of geometry."""
        return self._kind or self._dataset.kind_of(self._index)

    def _metadata(self) -> Any:
        if self._meta is None:
            self._meta = read_level_metadata(self._dataset.store, self._index)
        return self._meta

    @property
    def vertex_count(self) -> int:
        """How many vertices there are, from metadata."""
        if self._single_kind is not None and self.kind != self._dataset.kinds[0]:
            return self._dataset.store._shared.dataset().count(level=self._index, kind=self.kind)
        return int(self._metadata().vertex_count or 0)

    @property
    def scale(self) -> tuple[float, ...]:
        """The size of a cell."""
        return tuple(float(x) for x in self._metadata().chunk_shape or self._dataset._root_meta.chunk_shape)

    @property
    def resolution(self) -> tuple[float, ...]:
        """The size of a bin."""
        meta, root = self._metadata(), self._dataset._root_meta
        if meta.bin_shape:
            return tuple(float(x) for x in meta.bin_shape)
        if not root.base_bin_shape:
            return self.scale
        ratio = meta.bin_ratio or (1,) * len(root.base_bin_shape)
        return tuple(float(b) * float(r) for b, r in zip(root.base_bin_shape, ratio))

    @property
    def objects(self) -> ObjectCatalog:
        """The objects, by id."""
        return ObjectCatalog(self)

    @property
    def groups(self) -> GroupCatalog:
        """The groups, by name."""
        return GroupCatalog(self)

    @property
    def metadata(self) -> Metadata:
        """What applications keep beside the level."""
        return Metadata(self.store)

    @property
    def grid(self) -> Grid:
        """The grid of cells."""
        bounds = self._dataset._root_meta.bounds
        if not bounds or not self.scale:
            return Grid(shape=(), cell_shape=self.scale)
        return Grid.plan(bounds, cell_size=self.scale)

    @property
    def store(self) -> Any:
        """The node of the level."""
        return get_resolution_level(self._dataset.store, self._index)

    def attribute_names(self, kind: str = "vertex") -> tuple[str, ...]:
        """The names of attributes of vertices, fragments, objects, groups or links, sorted."""
        if kind not in _ATTR_GROUPS:
            raise ValueError(f"unknown attribute family {kind!r}; expected one of {sorted(_ATTR_GROUPS)}")
        if kind == "vertex" and self._single_kind is not None and self.kind != self._dataset.kinds[0]:
            answer = self._dataset.store._shared.dataset().read(level=self._index, kind=self.kind, limit=1)
            return tuple(sorted(answer))
        if kind not in self._names:
            node = self.store
            if node.is_local and not node._shared.address.endswith(".tet"):
                family = _ATTR_GROUPS[kind]
                found = node[family].children() if family in node else []
            else:
                found = [a["name"] for a in self._entry().get("attributes", []) if a["scope"] == kind]
            self._names[kind] = tuple(sorted(found))
        return self._names[kind]

    def cells(self, bbox: Any = None) -> CellSet:
        """The cells that hold something, all or those that a box meets."""
        if not self.vertex_count:
            return CellSet()
        found = self._dataset.store._shared.dataset()._native.chunks(self._index).wait()
        refs = [CellRef(tuple(int(x) for x in key)) for key in found]
        if bbox is None:
            return CellSet(refs)
        size, ndim = np.asarray(self.scale), self._dataset.ndim
        box = as_box(bbox)
        if any(corner.shape != size.shape for corner in box):
            raise ArrayError(f"bbox: expected corners of {ndim} coordinates, found the shapes {box[0].shape} and {box[1].shape}")
        low, high = np.floor(box[0] / size), np.floor(box[1] / size)  # as they are: corners may be infinite, or NaN
        return CellSet(ref for ref in refs if ((low <= ref.coords[-ndim:]) & (ref.coords[-ndim:] <= high)).all())

    def select(self, **kw: Any) -> Query:
        """A query."""
        if kw.get("level") is None:
            kw["level"] = self._index
        return Query(self, Selection(**kw))

    def read(self, **kw: Any) -> ReadResult:
        """The answer to ``select(**kw)``."""
        return self.select(**kw).read()

    async def aread(self, **kw: Any) -> ReadResult:
        """The same in asyncio."""
        return await self.select(**kw).aread()

    def plan(self, selection: Selection | None = None) -> ReadPlan:
        """What a read asks for: by cells where it is narrowed by space, else whole arrays; nothing is read."""
        selection = selection or Selection(level=self._index)
        level = self._for(selection)
        cells = None
        if selection.bbox is not None or selection.near is not None or selection.cells is not None:
            touched, ndim = level._touched(replace(selection, objects=None)), self._dataset.ndim
            # Of chunks by an attribute, the place alone may be given.
            cells = [ref.key for ref in level.cells() if ref in touched or CellRef(ref.coords[-ndim:]) in touched]
        return plan_of(level.index, level.attribute_names("vertex"), selection, cells)

    def _for(self, selection: Selection) -> Level:
        return self if selection.level in (None, self._index) else self._dataset.level(int(selection.level))

    def _touched(self, selection: Selection) -> Any:
        if selection.cells is not None:
            return {ref if isinstance(ref, CellRef) else CellRef(tuple(int(x) for x in ref)) for ref in selection.cells}
        box = _box_of(selection)
        if box is not None and not (box[0] <= box[1]).all():
            return set()
        found = self.cells(box)
        if selection.objects is not None:
            own = {at for refs in self.objects.manifests(list(selection.objects)).values() for at, _ in refs}
            found = CellSet(ref for ref in found if ref.coords in own)
        return found

    # Reads.

    def _check(self, selection: Selection) -> None:
        if config.limits == "reference" and self.kind in (c.GEOM_MESH, c.GEOM_GRAPH, c.GEOM_SKELETON):
            term = "objects=" if selection.objects is not None else "groups=" if selection.groups is not None else None
            if term:
                raise ZVError(f"select({term}...) is not supported for {self.kind!r}: use level.objects[...]")

    def _wanted(self, selection: Selection) -> list[str]:
        known = self.attribute_names("vertex")
        if isinstance(selection.attributes, str):
            return list(known) if selection.attributes == "all" else [selection.attributes]
        return [str(name) for name in selection.attributes]

    def _count(self, selection: Selection) -> int:
        level = self._for(selection)
        if not selection.narrows:
            count = level.vertex_count
            return count if selection.limit is None else min(count, int(selection.limit))
        return self._execute(selection).vertex_count

    async def _aexecute(self, selection: Selection) -> ReadResult:
        return await asyncio.to_thread(self._execute, selection)

    def _explain(self, selection: Selection) -> str:
        takes = _TAKEN.get(self.kind, ("bbox", "object_ids", "chunks", "attribute_filter"))
        words = {"level", *selection.to_reader_kwargs(supports=takes)}
        if selection.attributes == "all" and "attribute_names" in takes and self.attribute_names("vertex"):
            words.add("attribute_names")
        passed = sorted(words)
        note = " then filtered in memory" if selection.needs_post_filter else ""
        return f"{_READERS.get(self.kind, 'read')}({', '.join(passed)}){note}"

    def _execute(self, selection: Selection) -> ReadResult:
        level = self._for(selection)
        level._check(selection)
        with translating(ArrayError):
            return level._read(selection)

    def _read(self, selection: Selection) -> ReadResult:
        kind = self.kind
        if selection.limit is not None and int(selection.limit) < 0:
            raise ArrayError(f"limit: expected no negative number, found {selection.limit}")
        names = self._wanted(selection)
        unknown = [n for n in names if n not in self.attribute_names("vertex") and n != self._metadata().chunk_attribute_name]
        if unknown:
            if config.unknown != "reference":
                raise _UnknownAttribute(f"no attribute {unknown[0]!r}: there is {', '.join(self.attribute_names('vertex')) or 'none'}")
            names = [n for n in names if n not in unknown]
        box = _box_of(selection)
        if self._is_empty(selection, box):
            return self._empty(kind, names)
        chunked = self._chunk_attribute() if selection.where else None
        words: dict[str, Any] = {"level": self._index, "attributes": names, "unknown_objects": "skip"}
        if self._single_kind is not None:
            words["kind"] = self._single_kind
        if box is not None:
            words["box"] = box
            words["mode"] = _mode(kind)
        if selection.objects is not None:
            words["objects"] = list(dict.fromkeys(int(i) for i in selection.objects))
        if selection.groups is not None:
            words["groups"] = [int(g) for g in selection.groups]
        if selection.where:
            if chunked is not None and set(selection.where) == {chunked}:
                words["places"] = True
            else:
                words["where"] = condition(selection.where)
        dataset = self._dataset.store._shared.dataset()
        if selection.cells is not None and kind in (c.GEOM_POINT_CLOUD,):
            result = self._read_cells(dataset, words, selection, names)
        else:
            answer = dataset.select(**words).read()
            result = to_result(answer, kind, names, by_id=selection.objects is not None or selection.groups is not None)
            if "places" in words:
                result = result.restrict(self._with_value(answer.codes("zvf.place"), chunked, selection.where))
            if selection.cells is not None:
                result = self._in_cells(result, selection)
        if box is not None and kind == c.GEOM_LINE and config.touch == "reference" and result.vertex_count:
            inside = ((result.positions >= box[0]) & (result.positions <= box[1])).all(axis=1).reshape(-1, 2).any(axis=1)
            result = result.restrict(np.repeat(inside, 2))
        if selection.near is not None and result.vertex_count:
            centre, radius = selection.near
            away = result.positions.astype(np.float64) - np.asarray(centre, dtype=np.float64)
            result = result.restrict((away**2).sum(axis=1) <= float(radius) ** 2)
        limit = selection.limit
        if limit is not None and result.vertex_count > int(limit):
            result = result.restrict(np.arange(result.vertex_count) < int(limit), truncated=True)
        return result

    def _is_empty(self, selection: Selection, box: Any) -> bool:
        if not self.vertex_count or (box is not None and not (box[0] <= box[1]).all()):
            return True
        lists = (selection.objects, selection.groups, selection.cells)
        return any(ids is not None and not len(list(ids)) for ids in lists)

    def _empty(self, kind: str, names: Sequence[str]) -> ReadResult:
        ndim = self._dataset.ndim
        joined = kind in (c.GEOM_GRAPH, c.GEOM_SKELETON, c.GEOM_LINE)
        return ReadResult(
            kind=kind,
            positions=np.zeros((0, ndim), dtype=self._dtype),
            edges=np.zeros((0, 2), dtype=np.int64) if joined else None,
            faces=np.zeros((0, 3), dtype=np.int64) if kind == c.GEOM_MESH else None,
            attributes=Attributes({}),
        )

    def _entry(self) -> dict[str, Any]:
        """What the native interface says of the level."""
        return self._dataset.store._shared.dataset().level(self._index).info()

    @property
    def _dtype(self) -> str:
        """The type of a coordinate."""
        said = self._entry()["dtype"] if self.vertex_count else None
        return said or getattr(self._dataset.store._shared, "dtype", None) or "float32"

    def _chunk_attribute(self) -> str | None:
        """The attribute whose values give chunks, of a store that is cut so."""
        return self._entry().get("chunk_attribute")

    def _with_value(self, places: npt.NDArray[Any], name: str | None, where: Any) -> npt.NDArray[np.bool_]:
        """Whether each vertex lies in a chunk of the value that is asked for."""
        block = self.store.attrs.to_dict().get("zarr_vectors_level", {})
        values = list(block.get("chunk_attribute_values") or [])
        wanted = where[name].item() if isinstance(where[name], np.generic) else where[name]
        if wanted not in values:
            return np.zeros(len(places), dtype=bool)
        keys = np.array(self._dataset.store._shared.dataset()._native.chunks(self._index).wait(), dtype=np.int64)
        chunk = (places.astype(np.uint64) >> np.uint64(32)).astype(np.int64)
        return keys[chunk, 0] == values.index(wanted)

    def _cell_coords(self, positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.floor(positions.astype(np.float64) / np.asarray(self.scale)).astype(np.int64)

    def _read_cells(self, dataset: zvf.Dataset, words: dict[str, Any], selection: Selection, names: list[str]) -> ReadResult:
        """Points of some cells: only these cells are read."""
        refs = sorted(self._touched(selection))
        scale, ndim = np.asarray(self.scale), self._dataset.ndim
        answers: list[ReadResult] = []
        for ref in refs:
            at = np.asarray(ref.coords[-ndim:], dtype=np.float64)
            low, high = at * scale, (at + 1) * scale
            if "box" in words:
                low, high = np.maximum(low, words["box"][0]), np.minimum(high, words["box"][1])
            if (low > high).any():
                continue
            found = dataset.select(**{**words, "box": (low, high)}).read()
            result = to_result(found, self.kind, names, by_id="objects" in words)
            inside = (self._cell_coords(result.positions) == np.asarray(ref.coords[-ndim:])).all(axis=1)
            if inside.any():
                answers.append(result.restrict(inside))
        if not answers:
            return self._empty(self.kind, names)
        return joined(answers)

    def _in_cells(self, result: ReadResult, selection: Selection) -> ReadResult:
        """What lies in some cells; lines are split where they leave them, unless that is not wanted."""
        wanted = {ref.coords[-self._dataset.ndim :] for ref in self._touched(selection)}
        coords = self._cell_coords(result.positions)
        keep = np.array([tuple(row) in wanted for row in coords.tolist()], dtype=bool)
        if self.kind not in _CHAINS or not selection.cells_split:
            return result.restrict(keep)
        runs = [run for s in result.parts for run in true_runs(keep, s)]
        owners = [result.part_objects[i] for i, s in enumerate(result.parts) for _ in true_runs(keep, s)] if result.part_objects is not None else None
        cut = result.restrict(keep)
        return replace(
            cut,
            parts=slices_from_lengths([b - a for a, b in runs]),
            part_objects=None if owners is None else np.array(owners, dtype=np.int64),
        )

    def __repr__(self) -> str:
        return f"Level({self._index}, kind={self.kind!r}, vertices={self.vertex_count})"


class _UnknownAttribute(ArrayError, KeyError):
    """There is no such attribute."""

    __str__ = Exception.__str__


def true_runs(keep: npt.NDArray[Any], part: slice) -> list[tuple[int, int]]:
    """The runs of true values in a part."""
    inside = np.concatenate([[False], keep[part], [False]]).astype(np.int8)
    steps = np.flatnonzero(np.diff(inside))
    return [(part.start + int(a), part.start + int(b)) for a, b in zip(steps[::2], steps[1::2])]


def _mode(kind: str) -> str:
    """How geometry lies to a box: by its exact shape, or as the reference has it."""
    if kind in (c.GEOM_POINT_CLOUD, c.GEOM_GRAPH, c.GEOM_SKELETON):
        return "inside"
    if config.touch != "reference" or kind == c.GEOM_LINE:
        return "touch"
    return "inside" if kind == c.GEOM_MESH else "cells"


def _box_of(selection: Selection) -> Any:
    """The box of a selection: its own, that of the ball, or what both have in common; with NaN it holds nothing."""
    box = None if selection.bbox is None else as_box(selection.bbox)
    if selection.near is not None:
        centre, radius = np.asarray(selection.near[0], dtype=np.float64), float(selection.near[1])
        ball = centre - radius, centre + radius
        box = ball if box is None else (np.maximum(box[0], ball[0]), np.minimum(box[1], ball[1]))
    return box


def to_result(answer: zvf.Answer, kind: str, names: Sequence[str], *, by_id: bool) -> ReadResult:
    """An answer as a result."""
    positions, offsets = answer.positions, answer.offsets
    part_objects = answer.part_ids
    count = len(positions)
    attributes = {n: _decoded(answer[n]) for n in names if n in answer}
    edges = faces = object_ids = None
    if kind in _CHAINS:
        parts = slices_from_lengths(np.diff(offsets).tolist())
        owners = np.asarray(part_objects, dtype=np.int64) if len(parts) else None
        if kind == c.GEOM_LINE:
            edges = np.arange(count, dtype=np.int64).reshape(-1, 2)
            owners = owners if by_id else None
    else:
        owners = None
        parts = (slice(0, count),) if count else ()
        if kind == c.GEOM_MESH:
            faces = answer.faces if answer.faces is not None and len(answer.faces) else np.zeros((0, 3), dtype=np.int64)
        elif kind != c.GEOM_POINT_CLOUD:
            edges = answer.edges if answer.edges is not None else np.zeros((0, 2), dtype=np.int64)
        if by_id and len(offsets) > 1:
            object_ids = np.repeat(part_objects, np.diff(offsets))
    return ReadResult(
        kind=kind,
        positions=positions,
        parts=parts,
        part_objects=owners,
        object_ids=object_ids,
        edges=edges,
        faces=faces,
        attributes=Attributes(attributes),
        attributes_read=bool(attributes) or kind not in (c.GEOM_MESH, c.GEOM_GRAPH, c.GEOM_SKELETON),
        truncated=answer.truncated,
    )


def _decoded(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Text as NumPy has it, where categories were decoded; as Python objects where some are missing."""
    if values.dtype.kind != "O" or any(v is None for v in values.ravel()):
        return values
    return np.array(list(values.ravel())).reshape(values.shape)


def joined(results: Sequence[ReadResult]) -> ReadResult:
    """Several results of points as one."""
    positions = np.concatenate([r.positions for r in results])
    names = results[0].attributes.names()
    ids = [r.object_ids for r in results]
    return ReadResult(
        kind=results[0].kind,
        positions=positions,
        parts=(slice(0, len(positions)),),
        object_ids=np.concatenate(ids) if all(i is not None for i in ids) else None,
        attributes=Attributes({n: np.concatenate([r.attributes[n] for r in results]) for n in names}),
    )
