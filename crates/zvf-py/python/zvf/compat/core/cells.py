"""What is in one chunk of a level, fragment by fragment.

Rows come from a query of the chunk's box with the place of each vertex (its chunk and row); which rows a fragment has is
what ``zvf inspect cells`` says. Nothing here decodes bytes. Not here: writing single cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import zvf
from zvf._arrays import ids_between
from zvf._jobs import command

from ..exceptions import ArrayError, translating
from .group import Group
from .store import read_level_metadata, read_root_metadata

_ROW = np.uint64(0xFFFF_FFFF)


def chunk_answer(level: Group, chunk: Sequence[int], columns: Sequence[str]) -> tuple[zvf.Answer, npt.NDArray[Any], npt.NDArray[Any]]:
    """The answer for the box of a chunk, which of its rows lie in the chunk, and their numbers there, sorted."""
    dataset = level._shared.dataset()
    keys = [tuple(key) for key in dataset._native.chunks(level.level).wait()]
    key = tuple(int(c) for c in chunk)
    if key not in keys:
        raise ArrayError(f"there is no chunk {'.'.join(map(str, key))} in level {level.level}")
    root = read_root_metadata(level)
    size = np.asarray(read_level_metadata(level, level.level).chunk_shape or root.chunk_shape, dtype=np.float64)
    corner = np.asarray(key[-len(size) :], dtype=np.float64) * size
    with translating(ArrayError):
        answer = dataset.read(level=level.level, box=(corner, corner + size), mode="crop", attributes=list(columns), places=True)
    places = answer.codes("zvf.place").astype(np.uint64)
    own = np.flatnonzero((places >> np.uint64(32)) == np.uint64(keys.index(key)))
    rows, first = np.unique(places[own] & _ROW, return_index=True)
    return answer, own[first], rows.astype(np.int64)


def fragment_rows(level: Group, chunk: Sequence[int]) -> list[npt.NDArray[Any]]:
    """The rows of each fragment of a chunk."""
    text = ".".join(str(int(c)) for c in chunk)
    with translating(ArrayError):
        said, _ = command("inspect", "cells", level._shared.address, text, "--level", level.level, "--limit", 1, storage=level._shared.storage)
    with translating(ArrayError):
        return [
            ids_between(fragment["range"], "rows of a fragment") if fragment["range"] is not None else np.asarray(fragment["listed"], dtype=np.int64)
            for fragment in said["fragments"]
        ]


def by_fragment(level: Group, chunk: Sequence[int], name: str | None) -> list[npt.NDArray[Any]]:
    """Positions, or a column, of each fragment of a chunk."""
    answer, at, rows = chunk_answer(level, chunk, [] if name is None else [name])
    values = (answer.positions if name is None else answer[name])[at]
    found = []
    for own in fragment_rows(level, chunk):
        place = np.searchsorted(rows, own)
        if len(own) and (place >= len(rows)).any():
            raise ArrayError(f"chunk {tuple(chunk)}: a fragment refers to rows that are not there")
        found.append(values[place])
    return found


def fragment_column(level: Group, chunk: Sequence[int], name: str) -> npt.NDArray[Any]:
    """A column of fragments: one value for each fragment of a chunk."""
    groups = by_fragment(level, chunk, f"fragment.{name}")
    return np.array([group[0] for group in groups if len(group)])
