"""Operations on stores."""

from __future__ import annotations

from typing import Any

from zvf._jobs import command

from ..core.group import Group, shared_for
from ..exceptions import EditError, translating
from .attributes import add_attribute, edit_attribute, remove_attribute
from .refresh import rebuild_pyramid_from_level
from .refs import AttributeRef, FragmentRef, LinkRef, ObjectRef, VertexRef


def vacuum(store: Any, **unused: Any) -> Any:
    """Remove what nothing refers to."""
    group = Group(shared_for(store, "r+"))
    group._shared.check_writable()
    with translating(EditError):
        said, _ = command("vacuum", group._shared.address, storage=group._shared.storage)
    group._shared.changed()
    return said


__all__ = [
    "AttributeRef",
    "FragmentRef",
    "LinkRef",
    "ObjectRef",
    "VertexRef",
    "add_attribute",
    "edit_attribute",
    "rebuild_pyramid_from_level",
    "remove_attribute",
    "vacuum",
]
