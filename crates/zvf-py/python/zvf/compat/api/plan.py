"""What a read would touch, by the names of arrays and chunks: a value that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..constants import OBJECT_INDEX, VERTEX_ATTRIBUTES, VERTEX_FRAGMENTS, VERTICES

if TYPE_CHECKING:
    from .select import Selection


@dataclass(frozen=True, slots=True, order=True)
class CellRequest:
    """One cell of one array, such as ``1.0.2`` of ``0/vertices``."""

    array: str
    key: str


@dataclass(frozen=True, slots=True)
class PlanCost:
    """How much a plan asks for."""

    nodes: int = 0
    cells: int = 0
    rows: int = 0
    row_indices: int = 0
    arrays: int = 0
    listings: int = 0
    expand: int = 0

    @property
    def total(self) -> int:
        """All requests."""
        return self.nodes + self.cells + self.rows + self.arrays + self.listings + self.expand

    def __str__(self) -> str:
        return (
            f"{self.nodes} node(s), {self.cells} cell(s), {self.rows} row-request(s) covering {self.row_indices} row(s), "
            f"{self.arrays} whole array(s), {self.listings} listing(s), {self.expand} fanned-out array(s)"
        )


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What would be read: cells by name where the read is narrower than the level, else arrays with all their cells (``expand``).

    ``rows`` and ``listings`` are there for programs that look at them; nothing here fills them.
    """

    nodes: tuple[str, ...] = ()
    cells: tuple[CellRequest, ...] = ()
    rows: tuple[object, ...] = ()
    arrays: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()
    expand: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, nodes: Iterable[str] = (), cells: Iterable[CellRequest] = (), arrays: Iterable[str] = (), expand: Iterable[str] = ()) -> ReadPlan:
        """A plan with each request once, in order."""
        names = (tuple(sorted(set(found))) for found in (nodes, arrays, expand))
        own, whole, all_cells = names
        return cls(nodes=own, cells=tuple(sorted(set(cells))), arrays=whole, expand=all_cells)

    def cost(self) -> PlanCost:
        """How much it asks for."""
        return PlanCost(nodes=len(self.nodes), cells=len(self.cells), arrays=len(self.arrays), expand=len(self.expand))

    def explain(self) -> str:
        """The same as text."""
        return str(self)

    def __len__(self) -> int:
        return self.cost().total

    def __str__(self) -> str:
        return str(self.cost())


def plan_of(level: int, names: Iterable[str], selection: Selection, cells: Iterable[str] | None) -> ReadPlan:
    """The plan of a read of a level with these columns; ``cells`` are the keys of those it is narrowed to."""
    wanted = selection.attributes
    known = [name for name in names if isinstance(wanted, str) and wanted in ("all", name) or not isinstance(wanted, str) and name in list(wanted)]
    paths = [f"{level}/{name}" for name in (VERTICES, VERTEX_FRAGMENTS, *(f"{VERTEX_ATTRIBUTES}/{name}" for name in known))]
    by_object = selection.objects is not None or selection.groups is not None
    index = [f"{level}/{OBJECT_INDEX}/{'object_ids' if by_object else 'manifests'}"]
    if cells is not None:
        keys = list(cells)
        return ReadPlan.of(nodes=[str(level), *paths], arrays=index, cells=(CellRequest(path, key) for path in paths for key in keys))
    if by_object:
        return ReadPlan.of(nodes=[str(level), *paths], arrays=index)
    return ReadPlan.of(nodes=[str(level)], arrays=index, expand=paths)


__all__ = ["CellRequest", "PlanCost", "ReadPlan", "plan_of"]
