"""Objects of a level, by id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..exceptions import ArrayError, translating

if TYPE_CHECKING:
    from .level import Level
    from .result import ReadResult


class ObjectCatalog:
    """The objects of a level; ids may have no geometry."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def _views(self, references: int = 0, ids: list[int] | None = None) -> list[dict[str, Any]]:
        if not self._level.vertex_count:
            return []
        native = self._level.dataset.store._shared.dataset()._native
        with translating(ArrayError):
            return native.objects(self._level.index, ids, references).wait()

    def __len__(self) -> int:
        if not self._level.vertex_count:
            return 0
        return len(self.ids(present=False))

    @property
    def slots(self) -> int:
        """How many ids there are, with geometry or without."""
        return len(self)

    @property
    def count(self) -> int:
        """How many have geometry."""
        return int(self.present_mask().sum())

    def __getitem__(self, key: Any) -> ReadResult:
        if isinstance(key, slice):
            ids = self.ids(present=False)[key].tolist()
        elif isinstance(key, (int, np.integer)):
            ids = [int(key)]
        else:
            ids = [int(i) for i in key]
        return self._level.select(objects=ids).read()

    def __iter__(self) -> Iterator[int]:
        return iter(int(i) for i in self.ids())

    def ids(self, *, present: bool = True) -> npt.NDArray[Any]:
        """The ids, those with geometry unless said."""
        if not self._level.vertex_count:
            return np.zeros(0, dtype=np.int64)
        native = self._level.dataset.store._shared.dataset()._native
        return np.asarray(native.object_ids(self._level.index, bool(present)).wait())

    def present_mask(self) -> npt.NDArray[Any]:
        """Whether each id has geometry."""
        return np.isin(self.ids(present=False), self.ids())

    def manifests(self, ids: Sequence[int] | None = None) -> dict[int, list[tuple[tuple[int, ...], int]]]:
        """The fragments of each object: chunk and number; unknown ids are left out."""
        there = None
        if ids is not None:
            wanted = {int(i) for i in ids}
            there = [i for i in self.ids(present=False).tolist() if i in wanted]
            if not there:
                return {}
        return {
            view["id"]: [(tuple(int(c) for c in str(chunk).split(".")), int(number)) for chunk, number in view["references"]]
            for view in self._views(references=2**31, ids=there)
        }

    def __contains__(self, object_id: object) -> bool:
        return int(object_id) in set(self.ids().tolist())  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return f"ObjectCatalog(level={self._level.index}, count={self.count}, slots={self.slots})"


__all__ = ["ObjectCatalog"]
