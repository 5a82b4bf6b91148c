"""Attributes of single vertices and objects: each call is one transaction."""

from __future__ import annotations

from typing import Any

import numpy as np

import zvf

from ..api.edit import EditReport
from ..core.group import Group, shared_for
from ..core.store import list_resolution_levels
from ..exceptions import EditError, translating
from .refs import AttributeRef, FragmentRef, ObjectRef, VertexRef


def edit_attribute(root: Any, ref: AttributeRef, value: Any, *, message: str = "edit_attribute") -> EditReport:
    """Set an attribute that is there."""
    return _apply(root, ref, value, is_new=False, message=message)


def add_attribute(root: Any, ref: AttributeRef, value: Any, *, message: str = "add_attribute") -> EditReport:
    """Set an attribute; a column that is not there is made, zero everywhere else."""
    return _apply(root, ref, value, is_new=True, message=message)


def remove_attribute(root: Any, ref: AttributeRef, *, message: str = "remove_attribute") -> EditReport:
    """Set an attribute to zero: a column has a value for each row."""
    return _apply(root, ref, 0, is_new=False, message=message)


def _apply(root: Any, ref: AttributeRef, value: Any, *, is_new: bool, message: str) -> EditReport:
    group = Group(shared_for(root, "r+"))
    group._shared.check_writable()
    if ref.target.level != 0:
        raise EditError("edits are made to level 0; coarser levels are built again from it")
    array = np.asarray(value)
    with translating(EditError):
        edit = zvf.Edit(group._shared.dataset(), message=message)
        if is_new and ref.name not in _columns(group, ref.scope):
            dtype = {"i": "int64", "u": "uint64", "b": "uint8"}.get(array.dtype.kind, "float32")
            edit.apply("column.add", scope=ref.scope, name=ref.name, dtype=dtype, width=int(array.shape[0]) if array.ndim else None, fill=0)
        chunks: list[tuple[int, tuple[int, ...]]] = []
        if ref.scope == "object" and isinstance(ref.target, ObjectRef):
            edit.apply("object.set", objects=[int(ref.target.object_id)], values={ref.name: array})
        elif ref.scope == "vertex" and isinstance(ref.target, VertexRef):
            where = {"chunk": list(ref.target.chunk), "row": ref.target.row(group)}
            edit.apply("vertex.set", vertices=where, values={ref.name: array})
            chunks.append((ref.target.level, ref.target.chunk))
        elif ref.scope == "fragment" and isinstance(ref.target, FragmentRef):
            chunk = [int(c) for c in ref.target.chunk]
            edit.apply("fragment.set", chunk=chunk, fragment=int(ref.target.fragment), values={ref.name: array})
            chunks.append((ref.target.level, tuple(chunk)))
        else:
            raise EditError(f"an attribute of a {ref.scope} needs a {ref.scope} as its target, found {type(ref.target).__name__}")
        edit.commit()
    group._shared.changed()
    dirty = [level for level in list_resolution_levels(group) if level > 0]
    return EditReport(n_edits=1, touched_chunks=chunks, dirty_pyramid_levels=dirty)


def _columns(group: Group, scope: str) -> list[str]:
    level = group._shared.dataset().info()["levels"][0]
    return [column["name"] for column in level["attributes"] if column["scope"] == scope]


__all__ = ["add_attribute", "edit_attribute", "remove_attribute"]
