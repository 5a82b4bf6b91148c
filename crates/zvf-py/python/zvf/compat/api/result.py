"""What a read returns: one form for every kind of geometry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt


class Attributes(Mapping[str, "npt.NDArray[Any]"]):
    """Columns by name."""

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        self._data = dict(data or {})

    def __getitem__(self, key: str) -> npt.NDArray[Any]:
        if key not in self._data:
            raise KeyError(f"no attribute {key!r}; this result carries {sorted(self._data) or 'none'}")
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(sorted(self._data))

    def __repr__(self) -> str:
        return f"Attributes({self.names()!r})"


@dataclass(frozen=True, slots=True)
class ReadError:
    """A cell that could not be read."""

    cell: str
    array: str
    error: str


def slices_from_lengths(lengths: Sequence[int]) -> tuple[slice, ...]:
    """Slices that follow each other."""
    ends = np.cumsum([0, *lengths]).tolist()
    return tuple(slice(a, b) for a, b in zip(ends, ends[1:]))


def _renumbered(table: npt.NDArray[Any] | None, places: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    if table is None or np.asarray(table).size == 0:
        return table
    moved = places[np.asarray(table)]
    return moved[(moved >= 0).all(axis=1)]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Geometry: positions for every kind, and what joins or divides them."""

    kind: str
    positions: npt.NDArray[Any]
    parts: tuple[slice, ...] = ()
    part_objects: npt.NDArray[Any] | None = None
    object_ids: npt.NDArray[Any] | None = None
    edges: npt.NDArray[Any] | None = None
    faces: npt.NDArray[Any] | None = None
    attributes: Attributes = field(default_factory=Attributes)
    attributes_read: bool = True
    truncated: bool = False
    errors: tuple[ReadError, ...] = ()

    @property
    def vertex_count(self) -> int:
        """How many vertices there are."""
        return len(self.positions)

    @property
    def part_count(self) -> int:
        """How many parts there are."""
        return len(self.parts)

    @property
    def ndim(self) -> int:
        """How many axes there are, of an empty result as well."""
        return int(self.positions.shape[1]) if self.positions.ndim == 2 else 0

    @property
    def polylines(self) -> list[npt.NDArray[Any]]:
        """The positions of each part."""
        return [self.positions[s] for s in self.parts]

    @property
    def endpoints(self) -> npt.NDArray[Any]:
        """Pairs of ends, where every part has two vertices."""
        lengths = {s.stop - s.start for s in self.parts}
        if lengths - {2}:
            raise ValueError(f"endpoints is only defined when every part is a vertex pair; there are parts of {sorted(lengths)}")
        return self.positions.reshape(len(self.parts), 2, self.ndim)

    @property
    def complete(self) -> bool:
        """Whether nothing failed and nothing was cut."""
        return not self.errors and not self.truncated

    def restrict(self, keep: npt.NDArray[np.bool_], *, truncated: bool = False) -> ReadResult:
        """The vertices where ``keep`` is true; edges and faces are renumbered, those that lost an end go."""
        keep = np.asarray(keep, dtype=bool)
        if keep.shape != (len(self.positions),):
            raise ValueError(f"restrict: expected {len(self.positions)} truth values, found the shape {keep.shape}")
        if keep.all():
            return replace(self, truncated=self.truncated or truncated)
        places = np.where(keep, np.cumsum(keep) - 1, -1)
        lengths = [int(keep[s].sum()) for s in self.parts]
        left = [i for i, n in enumerate(lengths) if n]
        return replace(
            self,
            positions=self.positions[keep],
            parts=slices_from_lengths([lengths[i] for i in left]),
            part_objects=None if self.part_objects is None else np.asarray(self.part_objects)[left],
            object_ids=None if self.object_ids is None else np.asarray(self.object_ids)[keep],
            edges=_renumbered(self.edges, places),
            faces=_renumbered(self.faces, places),
            attributes=Attributes({k: np.asarray(v)[keep] for k, v in self.attributes.items()}),
            truncated=self.truncated or truncated,
        )

    @classmethod
    def from_points(cls, raw: Mapping[str, Any], *, kind: str) -> ReadResult:
        """From what ``read_points`` returns."""
        ids = raw.get("object_ids")
        return cls._from(raw, "positions", kind, object_ids=None if ids is None else np.asarray(ids))

    @classmethod
    def from_graph(cls, raw: Mapping[str, Any], *, kind: str) -> ReadResult:
        """From what ``read_graph`` returns."""
        return cls._from(raw, "positions", kind, edges=np.asarray(raw["edges"]))

    @classmethod
    def from_mesh(cls, raw: Mapping[str, Any], *, kind: str) -> ReadResult:
        """From what ``read_mesh`` returns."""
        return cls._from(raw, "vertices", kind, faces=np.asarray(raw["faces"]))

    @classmethod
    def from_lines(cls, raw: Mapping[str, Any], *, kind: str) -> ReadResult:
        """From what ``read_lines`` returns: each line is a part, and an edge."""
        ends = np.asarray(raw["endpoints"])
        count, ndim = len(ends), int(ends.shape[2]) if ends.ndim == 3 else 0
        edges = np.arange(2 * count, dtype=np.int64).reshape(count, 2)
        joined = {**raw, "positions": ends.reshape(2 * count, ndim)}
        return cls._from(joined, "positions", kind, parts=slices_from_lengths([2] * count), edges=edges)

    @classmethod
    def from_polylines(cls, raw: Mapping[str, Any], *, kind: str) -> ReadResult:
        """From what ``read_polylines`` returns: the segments of each are joined."""
        lines = [np.concatenate([np.asarray(run) for run in runs]) for runs in raw.get("polylines") or []]
        ids = raw.get("object_ids")
        empty = np.zeros((0, int(raw.get("ndim") or 3)), dtype=np.float32)
        return cls._from(
            {**raw, "positions": np.concatenate(lines) if lines else empty}, "positions", kind,
            parts=slices_from_lengths([len(line) for line in lines]),
            part_objects=None if ids is None or not len(ids) else np.asarray(ids),
        )  # fmt: skip

    @classmethod
    def _from(cls, raw: Mapping[str, Any], name: str, kind: str, **fields: Any) -> ReadResult:
        positions = np.asarray(raw[name])
        fields.setdefault("parts", (slice(0, len(positions)),) if len(positions) else ())
        columns = raw.get("vertex_attributes")
        return cls(kind=kind, positions=positions, attributes=Attributes(columns or {}), attributes_read=columns is not None, **fields)

    def __repr__(self) -> str:
        words = [f"kind={self.kind!r}", f"vertices={self.vertex_count}"]
        if self.part_count != 1:
            words.append(f"parts={self.part_count}")
        for name in ("edges", "faces"):
            table = getattr(self, name)
            if table is not None:
                words.append(f"{name}={len(table)}")
        if self.attributes:
            words.append(f"attributes={list(self.attributes.names())}")
        if self.errors:
            words.append(f"errors={len(self.errors)}")
        return f"ReadResult({', '.join(words)})"


__all__ = ["Attributes", "ReadError", "ReadResult"]
