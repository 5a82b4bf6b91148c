"""Groups of objects, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvf._arrays import ids_between

from ..constants import GROUPS
from ..exceptions import ArrayError, translating

if TYPE_CHECKING:
    from .level import Level
    from .result import ReadResult

GROUP_NAMES_ATTR = "group_names"


class ObjectGroup:
    """A named set of objects."""

    def __init__(self, level: Level, group_id: int, name: str, members: npt.NDArray[Any]) -> None:
        self._level = level
        self.id = int(group_id)
        self.name = name
        self.members = members

    def read(self, **kw: Any) -> ReadResult:
        """The geometry of its members."""
        return self._level.select(groups=[self.id], **kw).read()

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"ObjectGroup({self.name!r}, id={self.id}, members={len(self)})"


class GroupCatalog(Mapping[str, ObjectGroup]):
    """The groups of a level; one without a name is called ``group_`` and its number."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def _views(self) -> list[dict[str, Any]]:
        if not self._level.vertex_count:
            return []
        native = self._level.dataset.store._shared.dataset()._native
        return native.groups(self._level.index, 2**31).wait()

    def _members(self, view: Mapping[str, Any]) -> list[int] | range:
        return view["ids"] if view["ids"] is not None else range(*view["range"])

    def _group(self, view: Mapping[str, Any]) -> ObjectGroup:
        members = self._members(view)
        if isinstance(members, range):
            with translating(ArrayError):
                members = ids_between((members.start, members.stop), f"the group {view['name']!r}")
        return ObjectGroup(self._level, view["group"], view["name"], np.asarray(members, dtype=np.int64))

    def __getitem__(self, name: str) -> ObjectGroup:
        views = self._views()
        for view in views:
            if view["name"] == name:
                return self._group(view)
        raise KeyError(f"no group named {name!r}; this level has {[v['name'] for v in views] or 'none'}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._views())

    def names(self) -> tuple[str, ...]:
        """The names, in the order of the numbers."""
        return tuple(view["name"] for view in self._views())

    def by_id(self, group_id: int) -> ObjectGroup:
        """A group by its number."""
        views = self._views()
        if 0 <= int(group_id) < len(views):
            return self._group(views[int(group_id)])
        return ObjectGroup(self._level, int(group_id), f"group_{int(group_id)}", np.zeros(0, dtype=np.int64))

    def name_rows(self, names: Sequence[str]) -> None:
        """Give the groups names."""
        self._level.store.write_array_meta(GROUPS, {GROUP_NAMES_ATTR: [str(n) for n in names]})

    def __repr__(self) -> str:
        return f"GroupCatalog({list(self.names())})"
