"""Makes ``import zarr_vectors`` find the drop-in."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

_NAME = "zarr_vectors"
_OURS = "zvf.compat"


def absent(name: str) -> ImportError:
    """The error for a module of the reference that has no counterpart."""
    return ImportError(
        f"{name} is internal to zarr-vectors and zvf.compat has nothing for it: "
        f"use zarr_vectors.api, zarr_vectors.types, or the package zvf",
        name=name,
    )


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for ``zarr_vectors`` and what is below it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _NAME and not name.startswith(_NAME + "."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        ours = _OURS + spec.name[len(_NAME) :]
        if spec.name in (f"{_NAME}.encoding", f"{_NAME}._engine"):
            raise absent(spec.name)
        try:
            return importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name != ours:
                raise
            raise absent(spec.name) from None

    def exec_module(self, module: ModuleType) -> None:
        return None


def install() -> ModuleType:
    """Make ``import zarr_vectors`` resolve to ``zvf.compat``, for this process; returns the module.

    >>> import zvf.compat
    >>> _ = zvf.compat.install()
    >>> import zarr_vectors
    >>> zarr_vectors is zvf.compat
    True
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    ours = importlib.import_module(_OURS)
    for name in [n for n in sys.modules if n == _NAME or n.startswith(_NAME + ".")]:
        del sys.modules[name]
    sys.modules[_NAME] = ours
    for name, module in list(sys.modules.items()):
        if name.startswith((_OURS + ".encoding", _OURS + "._engine")):
            continue
        if name.startswith(_OURS + ".") and module is not None:
            sys.modules[_NAME + name[len(_OURS) :]] = module
    return ours
