"""Headers of other formats, kept in the store by the name of the format."""

from __future__ import annotations

from typing import Any

from ..core.group import Group
from ..core.store import open_store


class HeaderRegistry:
    """The headers of a store."""

    def __init__(self, store_path_or_root: Any) -> None:
        source = store_path_or_root
        self._root = source if isinstance(source, Group) else open_store(source, "r+")

    @property
    def available_formats(self) -> list[str]:
        """The formats that have one."""
        return self._root["headers"].children() if "headers" in self._root else []

    def has(self, format_name: str) -> bool:
        """Whether a format has one."""
        return format_name in self.available_formats

    def _check(self, format_name: str) -> None:
        if not self.has(format_name):
            raise KeyError(f"No header stored for format '{format_name}'")

    def get(self, format_name: str) -> dict[str, Any]:
        """The header of a format."""
        self._check(format_name)
        return self._root["headers"][format_name].attrs.to_dict()

    def add(self, format_name: str, header: dict[str, Any]) -> None:
        """Keep a header; keys that are there are replaced."""
        if not format_name or "/" in format_name or format_name.startswith("."):
            raise ValueError(f"a format name: expected a word, found {format_name!r}")
        self._root.require_group("headers").require_group(format_name).attrs.update(header)

    def remove(self, format_name: str) -> None:
        """Remove a header."""
        self._check(format_name)
        self._root["headers"].delete_subtree(format_name)

    def __repr__(self) -> str:
        return f"HeaderRegistry(formats={self.available_formats})"
