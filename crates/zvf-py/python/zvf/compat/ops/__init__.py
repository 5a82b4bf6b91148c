"""Operations on stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zvf._jobs import command

from ..core.group import Group, shared_for
from ..exceptions import EditError, translating
from .attributes import add_attribute, edit_attribute, remove_attribute
from .refresh import rebuild_pyramid_from_level
from .refs import AttributeRef, FragmentRef, LinkRef, ObjectRef, VertexRef


@dataclass
class VacuumReport:
    """What was removed."""

    oid_remap: dict[int, int] = field(default_factory=dict)
    dropped_fragments_per_chunk: dict[Any, list[int]] = field(default_factory=dict)
    bytes_freed: int = 0
    said: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"oid_remap": {str(k): v for k, v in self.oid_remap.items()}, "dropped_fragments_per_chunk": {}, "bytes_freed": self.bytes_freed}


def vacuum(
    root: Any,
    *,
    compact_oids: bool = True,
    drop_empty_fragments: bool = False,
    dedup_parallel_rows: bool = False,
    dry_run: bool = False,
    message: str = "vacuum",
) -> VacuumReport:
    """Remove what nothing refers to; objects keep their ids, so that ``oid_remap`` is empty."""
    group = Group(shared_for(root, "r+"))
    group._shared.check_writable()
    before = _size(group)
    with translating(EditError):
        said, _ = command("vacuum", group._shared.address, *(["--dry-run"] if dry_run else []), storage=group._shared.storage)
    group._shared.changed()
    return VacuumReport(bytes_freed=max(before - _size(group), 0), said=said)


def _size(group: Group) -> int:
    if not group.is_local:
        return 0
    return sum(path.stat().st_size for path in group.path.rglob("*") if path.is_file())


__all__ = [
    "AttributeRef",
    "FragmentRef",
    "LinkRef",
    "ObjectRef",
    "VacuumReport",
    "VertexRef",
    "add_attribute",
    "edit_attribute",
    "rebuild_pyramid_from_level",
    "remove_attribute",
    "vacuum",
]
