"""Strategies that other packages register when they are imported."""

from __future__ import annotations

from typing import Any

_COARSEN: dict[str, Any] = {}
_SELECT: dict[str, Any] = {}


def register_coarsen_strategy(name: str, fn: Any = None) -> Any:
    """Register a way to coarsen; usable as a decorator."""
    if fn is None:
        return lambda given: register_coarsen_strategy(name, given)
    _COARSEN[str(name)] = fn
    return fn


def register_selection_strategy(name: str, fn: Any = None) -> Any:
    """Register a way to select objects; usable as a decorator."""
    if fn is None:
        return lambda given: register_selection_strategy(name, given)
    _SELECT[str(name)] = fn
    return fn


def registered_coarsen_strategies() -> tuple[str, ...]:
    """The names of ways to coarsen."""
    return tuple(sorted(_COARSEN))


def registered_selection_strategies() -> tuple[str, ...]:
    """The names of ways to select objects."""
    return tuple(sorted(_SELECT))
