"""Operations on stores."""

from __future__ import annotations

from typing import Any

from zvf._jobs import command

from ..core.group import Group, shared_for
from ..exceptions import EditError, translating


def vacuum(store: Any, **unused: Any) -> Any:
    """Remove what nothing refers to."""
    group = Group(shared_for(store, "r+"))
    group._shared.check_writable()
    with translating(EditError):
        said, _ = command("vacuum", group._shared.address, storage=group._shared.storage)
    group._shared.changed()
    return said


__all__ = ["vacuum"]
