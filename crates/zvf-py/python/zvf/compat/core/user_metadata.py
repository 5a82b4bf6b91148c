"""What applications keep in a store, each under a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from ..exceptions import ZVError
from .group import Group

USER_METADATA_KEY = "user_metadata"


class MetadataConflict(ZVError):
    """Another value was found than the one expected."""


class Namespace(MutableMapping[str, Any]):
    """The keys of one application; every change reads and writes the document once."""

    def __init__(self, owner: Group, name: str) -> None:
        self._owner = owner
        self._name = name

    def to_dict(self) -> dict[str, Any]:
        """All keys and values."""
        return dict((self._owner.attrs.get(USER_METADATA_KEY) or {}).get(self._name) or {})

    def _write(self, value: dict[str, Any]) -> None:
        block = dict(self._owner.attrs.get(USER_METADATA_KEY) or {})
        self._owner.attrs[USER_METADATA_KEY] = {**block, self._name: value}

    def __getitem__(self, key: str) -> Any:
        found = self.to_dict()
        if key not in found:
            raise KeyError(f"{key!r} not in namespace {self._name!r}")
        return found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __setitem__(self, key: str, value: Any) -> None:
        self._write({**self.to_dict(), key: value})

    def __delitem__(self, key: str) -> None:
        found = self.to_dict()
        del found[key]
        self._write(found)

    def update(self, other: Any = (), /, **words: Any) -> None:  # type: ignore[override]
        """Set several keys in one write."""
        self._write({**self.to_dict(), **dict(other), **words})

    @contextmanager
    def transact(self) -> Iterator[dict[str, Any]]:
        """A copy to change; it is written once, at the end."""
        working = self.to_dict()
        yield working
        self._write(working)

    def compare_and_set(self, key: str, expect: Any, value: Any) -> bool:
        """Set a key if it has the value that is expected; says whether it did."""
        found = self.to_dict()
        if found.get(key) != expect:
            return False
        self._write({**found, key: value})
        return True

    def clear(self) -> None:
        """Remove all keys."""
        self._write({})

    def __repr__(self) -> str:
        return f"Namespace({self._name!r}, {len(self)} key(s))"


class Metadata:
    """The namespaces of a node."""

    def __init__(self, owner: Group) -> None:
        self._owner = owner

    def namespace(self, name: str) -> Namespace:
        """The namespace of this name."""
        if not name or "/" in name:
            raise ValueError(f"namespace name {name!r} must be non-empty and contain no '/'")
        return Namespace(self._owner, name)

    __getitem__ = namespace

    def names(self) -> tuple[str, ...]:
        """The names that are in use."""
        return tuple(sorted(self._owner.attrs.get(USER_METADATA_KEY) or {}))

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def drop(self, name: str) -> None:
        """Remove a namespace."""
        block = dict(self._owner.attrs.get(USER_METADATA_KEY) or {})
        block.pop(name, None)
        self._owner.attrs[USER_METADATA_KEY] = block

    def __repr__(self) -> str:
        return f"Metadata({list(self.names())})"
