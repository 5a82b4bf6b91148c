"""Transactions: edits that are committed together."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._jobs import command

if TYPE_CHECKING:
    from .datasets import Dataset


class Edit:
    """Changes that are committed together.

    >>> import tempfile, numpy as np, zvf
    >>> at = tempfile.mkdtemp() + "/lines.zarrvectors"
    >>> ds = zvf.polylines(at, [np.zeros((2, 3)), np.ones((3, 3))])
    >>> with ds.edit() as e:
    ...     e.remove(object=0)
    >>> ds.object_ids().tolist() and ds.count()
    3
    """

    def __init__(self, dataset: Dataset, message: str | None = None) -> None:
        self.dataset = dataset
        self.message = message
        self.operations: list[dict[str, Any]] = []
        self._next_id: int | None = None

    def apply(self, op: str, **words: Any) -> None:
        """Add an operation of the edit script, by its name."""
        self.operations.append({"op": op, **{k: _json(v) for k, v in words.items() if v is not None}})

    def move(self, *, object: int, vertex: int, to: Any) -> None:
        """Move the vertex with the number ``vertex`` of an object."""
        self.apply("vertex.move", vertices={"object": int(object), "index": int(vertex)}, to=to)

    def remove(self, *, object: int | None = None, vertex: int | None = None) -> None:
        """Remove an object, or one of its vertices."""
        if vertex is None:
            self.apply("object.remove", objects=[int(_given(object))])
        else:
            self.apply("vertex.remove", vertices={"object": int(_given(object)), "index": int(vertex)})

    def set(self, name: str, *, object: int, value: Any, vertex: int | None = None) -> None:
        """Set an attribute of an object, or of one of its vertices."""
        if vertex is None:
            self.apply("object.set", objects=[int(object)], values={name: value})
        else:
            self.apply("vertex.set", vertices={"object": int(object), "index": int(vertex)}, values={name: value})

    def add(
        self,
        positions: Any,
        *,
        attributes: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        object: int | None = None,
        **words: Any,
    ) -> int:
        """Add an object with these vertices and return its id; further words are fields of ``object.add``.

        Without ``object`` it gets the next id of the store, which no object has had.
        """
        columns = {k: np.asarray(v) for k, v in (attributes or {}).items()}
        self.apply(
            "object.add",
            id=object,
            positions=np.asarray(positions, dtype=float),
            attributes=columns or None,
            values=dict(values) if values else None,
            **words,
        )
        if object is None:
            object = self._ask_next_id() if self._next_id is None else self._next_id
            self.operations[-1]["id"] = object
            self._next_id = object + 1
        elif self._next_id is not None:
            self._next_id = max(self._next_id, int(object) + 1)
        return int(object)

    def _ask_next_id(self) -> int:
        """The id that the store gives to the object that was added last."""
        try:
            said = self._run("--dry-run")
        except BaseException:
            self.operations.pop()  # it is refused: the transaction goes on without it
            raise
        return int(said["commits"][-1]["objects"]["added"][-1])

    def __enter__(self) -> Edit:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and self.operations:
            self.commit()

    def __repr__(self) -> str:
        return f"<zvf.Edit of {self.dataset.address!r}: {len(self.operations)} operations>"

    def commit(self) -> Any:
        """Commit what was said so far."""
        self.dataset._check_open()
        said = self._run()
        self.operations = []
        self._next_id = None
        self.dataset.refresh()
        return said

    def _run(self, *options: str) -> Any:
        """What the command says to the operations so far."""
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as script:
            script.writelines(json.dumps(op) + "\n" for op in self.operations)
        try:
            args = ["edit", self.dataset.address, "--script", script.name, *options]
            if self.message is not None:
                args += [f"--message={self.message}"]
            return command(*args, storage=self.dataset._storage)[0]
        finally:
            os.unlink(script.name)


def _given(object: int | None) -> int:
    if object is None:
        raise TypeError("which object: give object=")
    return object


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {k: _json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    return value
