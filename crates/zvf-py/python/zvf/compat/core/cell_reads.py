"""Many cells of many arrays in one call, as flat arrays and the offsets of each cell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..constants import FRAGMENT_ATTRIBUTES, LINK_ATTRIBUTES, LINKS, VERTEX_ATTRIBUTES, VERTEX_FRAGMENTS, VERTICES
from ..exceptions import ArrayError, ZVError
from .fragments import Ints, decode_fragment_index, decode_ragged, host_array, host_device, offsets_of
from .group import Group
from .linking import flat_links, link_columns
from .store import read_root_metadata
from .stored import Index
from .writing import column_width, is_flat, key_of, read_cell_bytes, stamped_dtype


@dataclass(frozen=True)
class CellReadError:
    """A cell that cannot be read; the others still were."""

    array: str
    chunk_key: str
    message: str


@dataclass(frozen=True)
class CellColumn:
    """The rows of an array: those of cell ``i`` are ``data[offsets[i]:offsets[i + 1]]``."""

    data: npt.NDArray[Any]
    offsets: Ints

    @property
    def num_cells(self) -> int:
        """How many cells were asked for."""
        return len(self.offsets) - 1

    def rows(self, i: int) -> npt.NDArray[Any]:
        """The rows of a cell."""
        return self.data[self.offsets[i] : self.offsets[i + 1]]

    @property
    def cell(self) -> npt.NDArray[np.int32]:
        """The cell of each row."""
        return np.repeat(np.arange(self.num_cells, dtype=np.int32), np.diff(self.offsets))


@dataclass(frozen=True)
class FragmentColumn:
    """The fragments of the cells: cell ``i`` has those from ``cell_offsets[i]``; fragment ``f`` has the rows ``rows[offsets[f]:offsets[f + 1]]`` of its cell."""

    rows: Ints
    offsets: Ints
    cell_offsets: Ints


class CellBatch(dict[str, CellColumn]):
    """What :func:`read_cells` read: a column for each array."""

    device = "cpu"

    def __init__(self, chunk_coords: Ints, columns: dict[str, CellColumn], errors: Sequence[CellReadError], fragments: FragmentColumn | None) -> None:
        super().__init__(columns)
        self.chunk_coords, self.columns, self.errors, self.fragments = chunk_coords, columns, tuple(errors), fragments

    def to_device(self, device: str) -> CellBatch:
        """The same batch; another device than the CPU is refused."""
        host_device(device)
        return self


def _decoder(level: Group, name: str, ndim: int | None) -> tuple[Any, tuple[int, ...]]:
    """What makes rows of a cell of an array, and the shape of a row."""
    parts, dtype = name.split("/"), stamped_dtype(level, name)
    families = {(VERTEX_ATTRIBUTES, 2), (FRAGMENT_ATTRIBUTES, 2), (LINKS, 3), (LINK_ATTRIBUTES, 4)}
    if name != VERTICES and (parts[0], len(parts)) not in families:
        raise ArrayError(
            f"read_cells cannot read {name!r}: expected vertices, vertex_attributes/NAME, fragment_attributes/NAME, links/DELTA/OFFSETS or "
            f"link_attributes/NAME/DELTA/OFFSETS; fragments=True reads {VERTEX_FRAGMENTS}"
        )
    if parts[0] == LINKS:
        width = link_columns(level, name)
        if is_flat(name):
            return lambda blob: flat_links(blob, dtype, width, name), (width,)
        return lambda blob: np.concatenate([np.empty((0, width), dtype), *decode_ragged(blob, dtype, width)]), (width,)
    if name == VERTICES:
        if level.read_array_meta(name).get("encoding", "raw") != "raw":
            raise ArrayError("read_cells does not decode Draco: level.read() does")
        width = ndim or len(read_root_metadata(level).chunk_shape)
    else:
        width = column_width(level, name)
    tail = (width,) if width > 1 else ()

    def decode(blob: bytes) -> npt.NDArray[Any]:
        if len(blob) % (dtype.itemsize * width):
            raise ArrayError(f"{len(blob)} bytes are not divisible by rows of {dtype.itemsize * width}")
        return np.frombuffer(blob, dtype).reshape(-1, *tail)

    return decode, tail


def read_cells(
    level_group: Group, chunk_coords: Any, arrays: Sequence[str] = (VERTICES,), *, ndim: int | None = None, missing_arrays: str = "raise",
    on_error: str = "record", device: str | None = None, decode: str = "auto", io: str = "auto", fragments: bool = False,
) -> CellBatch:  # fmt: skip
    """Read cells of arrays as they are stored, each object once. A cell that holds nothing, or is outside the grid, has no rows."""
    host_device(device, decode, io)
    coords = host_array(chunk_coords, "chunk_coords", np.int64)
    coords = coords.reshape(0, 0) if not coords.size else coords
    if coords.ndim != 2:
        raise ArrayError(f"chunk_coords must be (C, K), found the shape {coords.shape}")
    cells: list[Index] = [tuple(row) for row in coords.tolist()]
    errors: list[CellReadError] = []

    def cells_of(name: str, decoder: Any, absent: Any) -> list[Any]:
        try:  # at once; one by one where one of them cannot be read
            blobs: dict[Index, Any] = read_cell_bytes(level_group, name, dict.fromkeys(cells))
        except (ZVError, OSError):
            blobs = {}
        found = {}
        for cell in dict.fromkeys(cells):
            try:
                blob = blobs[cell] if cell in blobs else read_cell_bytes(level_group, name, [cell])[cell]
                found[cell] = decoder(blob) if blob else absent
            except (ZVError, OSError, ValueError) as error:
                if on_error == "raise":
                    raise
                errors.append(CellReadError(name, key_of(cell), str(error)))
                found[cell] = absent
        return [found[cell] for cell in cells]

    columns = {}
    for name in dict.fromkeys(arrays):
        if name not in level_group:
            if missing_arrays == "skip":
                continue
            raise ArrayError(f"{name!r} does not exist at level {level_group.level}")
        decoder, tail = _decoder(level_group, name, ndim)
        empty = np.empty((0, *tail), dtype=stamped_dtype(level_group, name))
        parts = cells_of(name, decoder, empty)
        columns[name] = CellColumn(np.concatenate([empty, *parts]), offsets_of([len(part) for part in parts]))
    found = None
    if fragments:
        flats = cells_of(VERTEX_FRAGMENTS, lambda blob: decode_fragment_index(blob).flat(), (np.empty(0, np.int64), np.zeros(1, np.int64)))
        counts = np.concatenate([np.empty(0, np.int64), *(np.diff(bounds) for _, bounds in flats)])
        rows = np.concatenate([np.empty(0, np.int64), *(own for own, _ in flats)])
        found = FragmentColumn(rows, offsets_of(counts), offsets_of([len(bounds) - 1 for _, bounds in flats]))
    return CellBatch(coords, columns, errors, found)


def read_neighbourhood(level_group: Group, chunk_coords: Any, arrays: Sequence[str] = (VERTICES,), *, halo: int = 1, **words: Any) -> CellBatch:
    """Read a chunk and those around it that hold vertices, the chunk itself first."""
    centre = tuple(int(c) for c in chunk_coords)
    present = {tuple(int(word) for word in key.split(".")) for key in level_group.list_chunks(VERTICES)}
    around = itertools.product(*(range(c - halo, c + halo + 1) for c in centre))
    return read_cells(level_group, [centre, *(cell for cell in around if cell in present and cell != centre)], arrays, **words)
