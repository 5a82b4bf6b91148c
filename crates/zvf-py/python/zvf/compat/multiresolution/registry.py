"""Strategies that other packages register when they are imported."""

from __future__ import annotations

from typing import Any

_COARSEN: dict[str, Any] = {}
_SELECT: dict[str, Any] = {}


def register_coarsen_strategy(name: str, fn: Any = None) -> Any:
    """Register a way to coarsen; usable as a decorator."""
    return _register(_COARSEN, "coarsen method", ("per_object",), name, fn)


def register_selection_strategy(name: str, fn: Any = None) -> Any:
    """Register a way to select objects; usable as a decorator."""
    return _register(_SELECT, "selection strategy", ("random",), name, fn)


def _register(known: dict[str, Any], what: str, own: tuple[str, ...], name: str, fn: Any) -> Any:
    if name in own:
        raise ValueError(f"{what} {name!r} is a core built-in and cannot be overridden")
    if fn is None:
        return lambda given: _register(known, what, own, name, given) or given
    known[str(name)] = fn
    return None


def get_coarsen_strategy(name: str) -> Any:
    """The way to coarsen that has this name, or ``None``."""
    return _COARSEN.get(name)


def get_selection_strategy(name: str) -> Any:
    """The way to select objects that has this name, or ``None``."""
    return _SELECT.get(name)


def require_coarsen_strategy(name: str) -> Any:
    """The way to coarsen that has this name."""
    if name not in _COARSEN:
        raise ValueError(_missing("coarsen method", name, "per_object", _COARSEN))
    return _COARSEN[name]


def require_selection_strategy(name: str) -> Any:
    """The way to select objects that has this name."""
    if name not in _SELECT:
        raise ValueError(_missing("object-selection strategy", name, "random", _SELECT))
    return _SELECT[name]


def _missing(what: str, name: str, own: str, known: dict[str, Any]) -> str:
    return f"{what} {name!r} is not available in core, which has {own!r}: a package such as zarr-vectors-tools registers others when it is imported. Registered: {sorted(known)}."


def registered_coarsen_strategies() -> list[str]:
    """The names of ways to coarsen, sorted."""
    return sorted(_COARSEN)


def registered_selection_strategies() -> list[str]:
    """The names of ways to select objects, sorted."""
    return sorted(_SELECT)
