"""The grid of cells of a level, in physical units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exceptions import ChunkingError

_MAX_CELLS = 1 << 20
"""Cells of a box that are listed: each is an object of Python."""


@dataclass(frozen=True, slots=True, order=True)
class CellRef:
    """A cell, by its absolute coordinates."""

    coords: tuple[int, ...]

    @property
    def key(self) -> str:
        """The key on disk."""
        return ".".join(str(int(c)) for c in self.coords)

    def __repr__(self) -> str:
        return f"CellRef({self.key})"


class CellSet(frozenset):  # type: ignore[type-arg]
    """A set of cells."""

    def keys(self) -> tuple[str, ...]:
        """Their keys, sorted as text."""
        return tuple(sorted(ref.key for ref in self))

    def __repr__(self) -> str:
        return f"CellSet({len(self)} cell(s))"


@dataclass(frozen=True, slots=True)
class GridCapacity:
    """Whether a grid holds what is planned for it."""

    cells: int
    shape: tuple[int, ...]
    est_bytes_per_cell: float
    fits: bool
    reason: str | None = None

    def __str__(self) -> str:
        verdict = "fits" if self.fits else f"does not fit: {self.reason}"
        shape = "x".join(map(str, self.shape))
        return f"{shape} = {self.cells} cells, ~{self.est_bytes_per_cell / 1e6:.1f} MB/cell -- {verdict}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of one size that cover the bounds, both corners included: 0 to 800 by 100 is 9 cells."""

    shape: tuple[int, ...]
    cell_shape: tuple[float, ...]
    origin: tuple[float, ...] = ()

    @classmethod
    def plan(
        cls,
        bounds: tuple[Sequence[float], Sequence[float]],
        *,
        cell_size: Sequence[float] | None = None,
        target_cells: int | Sequence[int] | None = None,
    ) -> Grid:
        """The grid of a store with these bounds."""
        low, high = ([float(x) for x in corner] for corner in bounds)
        extent = [b - a for a, b in zip(low, high)]
        if cell_size is not None:
            size = tuple(float(x) for x in cell_size)
        elif target_cells is not None:
            counts = [target_cells] * len(low) if isinstance(target_cells, int) else [int(c) for c in target_cells]
            size = tuple((e / c if c > 0 else e) or 1.0 for e, c in zip(extent, counts))
        else:
            size = tuple(e or 1.0 for e in extent)
        if not np.isfinite([*low, *high, *size]).all() or min(size, default=1.0) <= 0:
            raise ChunkingError(f"a grid: expected finite corners and cells above 0, found {low} to {high} by {list(size)}")
        shape = tuple(math.floor(b / c) - math.floor(a / c) + 1 for a, b, c in zip(low, high, size))
        return cls(shape=shape, cell_shape=size, origin=tuple(low))

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape) if self.shape else 0

    @property
    def anchor(self) -> tuple[int, ...]:
        """The first cell."""
        origin = self.origin or (0.0,) * len(self.cell_shape)
        return tuple(math.floor(o / c) for o, c in zip(origin, self.cell_shape))

    def cell_of(self, point: Sequence[float]) -> CellRef:
        """The cell that a point lies in."""
        at = np.floor(np.asarray(point, dtype=np.float64) / np.asarray(self.cell_shape))
        return CellRef(tuple(int(x) for x in at))

    def cells_in(self, bbox: tuple[Sequence[float], Sequence[float]]) -> CellSet:
        """The cells that a box meets, whether there is something in them or not."""
        low, high = (np.asarray(corner, dtype=np.float64) / np.asarray(self.cell_shape) for corner in bbox)
        if not (low <= high).all():  # with NaN neither
            return CellSet()
        if not np.isfinite([low, high]).all():
            raise ValueError("the box meets cells without an end: take a smaller box")
        ranges = [range(math.floor(a), math.floor(b) + 1) for a, b in zip(low, high)]
        count = math.prod(max(0, own.stop - own.start) for own in ranges)
        if count > _MAX_CELLS:
            raise ValueError(f"the box meets {count} cells, more than the {_MAX_CELLS} that are listed: take a smaller box")
        return CellSet(CellRef(at) for at in itertools.product(*ranges))

    def __iter__(self) -> Iterator[CellRef]:
        if self.shape:
            yield from (CellRef(at) for at in _walk(self.anchor, self.shape))

    def holds(self, ref: Any) -> bool:
        """Whether a cell is one of the grid."""
        coords, anchor = tuple(getattr(ref, "coords", ref)), self.anchor
        if not len(coords) == len(self.shape) == len(anchor):
            return False
        return all(a <= int(c) < a + s for c, a, s in zip(coords, anchor, self.shape))

    def capacity(
        self,
        *,
        n_vertices: int | None = None,
        ndim: int = 3,
        bytes_per_coordinate: int = 4,
        target_cell_bytes: int = 64 << 20,
    ) -> GridCapacity:
        """Whether so many vertices fit."""
        a_cell = n_vertices / self.cells * ndim * bytes_per_coordinate if n_vertices and self.cells else 0.0
        reason = None
        if not self.cells:
            reason = "the grid has no cells"
        elif a_cell > target_cell_bytes:
            reason = (
                f"~{a_cell / 1e6:.0f} MB per cell exceeds the {target_cell_bytes / 1e6:.0f} MB target; use more cells"
            )
        return GridCapacity(self.cells, self.shape, a_cell, reason is None, reason)

    def __repr__(self) -> str:
        return f"Grid({'x'.join(map(str, self.shape))} cells of {self.cell_shape})"


def _walk(anchor: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The places of a grid one by one, however many there are."""
    if not shape:
        yield ()
        return
    for first in range(anchor[0], anchor[0] + shape[0]):
        yield from ((first, *rest) for rest in _walk(anchor[1:], shape[1:]))


__all__ = ["CellRef", "CellSet", "Grid", "GridCapacity"]
