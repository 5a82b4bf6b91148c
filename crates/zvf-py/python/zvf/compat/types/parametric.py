"""Objects that are coefficients of an equation: read by the native interface, not written by this build."""

from __future__ import annotations

from typing import Any

from ..exceptions import ArrayError


def write_parametric_objects(store_path: Any, objects: list[dict[str, Any]], **words: Any) -> dict[str, Any]:
    """Not in this build."""
    raise ArrayError("parametric objects are not written by zvf.compat")


def read_parametric_objects(store_path: Any, *, backend: str | None = None) -> list[dict[str, Any]]:
    """Not in this build."""
    raise ArrayError("parametric objects are not read by zvf.compat")
