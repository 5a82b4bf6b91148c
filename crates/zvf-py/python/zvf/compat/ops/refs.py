"""Where in a store something is: what edits are addressed to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from ..core.cells import chunk_answer, fragment_rows
from ..core.group import Group
from ..core.store import get_resolution_level
from ..exceptions import EditError, translating

AttrScope = Literal["vertex", "object", "fragment", "link"]


@dataclass(frozen=True)
class VertexRef:
    """A vertex: its level and chunk, the fragment in the chunk, and the place in the fragment."""

    level: int
    chunk: tuple[int, ...]
    fragment: int
    local: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", tuple(int(c) for c in self.chunk))
        if self.fragment < 0 or self.local < 0:
            raise ValueError(f"a vertex: expected no negative number, found fragment {self.fragment}, local {self.local}")

    @classmethod
    def from_object(cls, root: Group, *, level: int, object_id: int, vertex_index: int) -> VertexRef:
        """The vertex of this number of an object, in the order of its manifest."""
        from ..building import read_object_manifests

        node = get_resolution_level(root, level)
        refs = read_object_manifests(node, [int(object_id)]).get(int(object_id))
        if not refs:
            raise EditError(f"there is no object {object_id} in level {level}")
        left = int(vertex_index)
        rows_of = cache(partial(fragment_rows, node))  # a chunk may have several fragments of an object
        for chunk, fragment in refs:
            count = len(rows_of(chunk)[fragment])
            if 0 <= left < count:
                return cls(int(level), chunk, fragment, left)
            left -= count
        raise EditError(f"object {object_id} has no vertex {vertex_index}")

    @classmethod
    def from_position(cls, root: Group, *, level: int, pos: Any, tol: float = 0.0) -> VertexRef:
        """The vertex at a position, or the nearest of those at most ``tol`` away on every axis."""
        node, wanted = get_resolution_level(root, level), np.asarray(pos, dtype=np.float64).ravel()
        with translating(EditError):
            native = node._shared.dataset()
            answer = native.read(level=int(level), box=(wanted - tol, wanted + tol), mode="crop", attributes=[], places=True)
            if not len(answer):
                raise EditError(f"no vertex lies at {wanted.tolist()} (tol={tol})")
            nearest = int(((answer.positions.astype(np.float64) - wanted) ** 2).sum(axis=1).argmin())
            place = int(answer.codes("zvf.place").astype(np.uint64)[nearest])
            chunk = tuple(int(c) for c in native._native.chunks(int(level)).wait()[place >> 32])
        for number, rows in enumerate(fragment_rows(node, chunk)):
            at = np.flatnonzero(rows == (place & 0xFFFF_FFFF))
            if len(at):
                return cls(int(level), chunk, number, int(at[0]))
        raise EditError(f"the vertex at {wanted.tolist()} is in no fragment")

    def row(self, root: Group) -> int:
        """Its row in the chunk."""
        fragments = fragment_rows(get_resolution_level(root, self.level), self.chunk)
        if self.fragment >= len(fragments) or self.local >= len(fragments[self.fragment]):
            raise EditError(f"there is no vertex {self.local} of fragment {self.fragment} in chunk {self.chunk}")
        return int(fragments[self.fragment][self.local])

    def position(self, root: Group) -> np.ndarray:
        """Where it is."""
        answer, at, rows = chunk_answer(get_resolution_level(root, self.level), self.chunk, [])
        return answer.positions[at[int(np.searchsorted(rows, self.row(root)))]]


@dataclass(frozen=True)
class FragmentRef:
    """A fragment of a chunk."""

    level: int
    chunk: tuple[int, ...]
    fragment: int


@dataclass(frozen=True)
class ObjectRef:
    """An object of a level."""

    level: int
    object_id: int


@dataclass(frozen=True)
class LinkRef:
    """A link: the cell that holds it, and its row there."""

    level: int
    chunk: tuple[int, ...]
    fragment: int
    row: int
    delta: int = 0
    offsets: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class AttributeRef:
    """An attribute of a vertex, an object, a fragment or a link."""

    scope: AttrScope
    name: str
    target: VertexRef | FragmentRef | ObjectRef | LinkRef


__all__ = ["AttributeRef", "FragmentRef", "LinkRef", "ObjectRef", "VertexRef"]
