"""Transactions: edits that are committed together."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import as_array, named
from ._arrays import positions as as_positions
from ._jobs import command
from ._words import corner, text_of, whole_of
from .errors import ArgumentError, shown, wrong_type, wrong_value

if TYPE_CHECKING:
    from .datasets import Dataset


class Edit:
    """Changes that are committed together.

    A transaction covers every read from the dataset inside its ``with`` block: all of them are of the commit at which the
    block began, and the commit is refused with :class:`zvf.errors.ConflictError` where another one was made since. A block that
    reads nothing is committed after those of others, unless they changed the same.

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
        self._ndim = dataset.ndim
        self._begun_at: int | None = None  # the commit that what is read is of, inside of a block
        self._has_read = False
        self._is_committed = False

    def apply(self, op: str, **words: Any) -> None:
        """Add an operation of the edit script, by its name."""
        if self._is_committed:
            raise ArgumentError("the transaction is committed: begin another one with ds.edit()")
        fields = {k: _json(f"{op}, {k}", v) for k, v in words.items() if v is not None}
        self.operations.append({"op": text_of("op", op), **fields})

    def move(self, *, object: int, vertex: int, to: Any) -> None:
        """Move the vertex with the number ``vertex`` of an object."""
        point = corner("to", to)
        if len(point) != self._ndim or not np.isfinite(point).all():
            raise wrong_value("to", f"{self._ndim} finite coordinates", str(point))
        self.apply("vertex.move", vertices=_vertex(object, vertex), to=point)

    def remove(self, *, object: int | None = None, vertex: int | None = None) -> None:
        """Remove an object, or one of its vertices."""
        if vertex is None:
            self.apply("object.remove", objects=[whole_of("object", object)])
        else:
            self.apply("vertex.remove", vertices=_vertex(object, vertex))

    def set(self, name: str, *, object: int, value: Any, vertex: int | None = None) -> None:
        """Set an attribute of an object, or of one of its vertices."""
        values = {text_of("name", name): value}
        if vertex is None:
            self.apply("object.set", objects=[whole_of("object", object)], values=values)
        else:
            self.apply("vertex.set", vertices=_vertex(object, vertex), values=values)

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
        points = as_positions(positions, dtype=np.float64)
        if points.shape[1] != self._ndim:
            raise wrong_value("positions", f"{self._ndim} coordinates a row", str(points.shape[1]))
        columns = {k: as_array(v, f"column {k!r}") for k, v in named("attributes", attributes).items()}
        for name, column in columns.items():
            if column.ndim == 0 or len(column) != len(points):
                raise wrong_value(f"column {name!r}", f"{len(points)} rows", f"the shape {column.shape}")
        object = None if object is None else whole_of("object", object)
        self.apply("object.add", id=object, positions=points, attributes=columns or None, values=named("values", values) or None, **words)
        if object is None:
            object = self._ask_next_id() if self._next_id is None else self._next_id
            self.operations[-1]["id"] = object
            self._next_id = object + 1
        elif self._next_id is not None:
            self._next_id = max(self._next_id, object + 1)
        return object

    def _ask_next_id(self) -> int:
        """The id that the store gives to the object that was added last."""
        try:
            said = self._run("--dry-run")
        except BaseException:
            self.operations.pop()  # it is refused: the transaction goes on without it
            raise
        return int(said["commits"][-1]["objects"]["added"][-1])

    def __enter__(self) -> Edit:
        self._begun_at = self.dataset.head
        self.dataset._edits.append(self)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None and self.operations:
                self.commit()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Ends the transaction: later reads are no part of it."""
        if self in self.dataset._edits:
            self.dataset._edits.remove(self)

    def __repr__(self) -> str:
        return f"<zvf.Edit of {self.dataset.address!r}: {len(self.operations)} operations>"

    def commit(self) -> Any:
        """Commit the operations; later ones are refused, as they are of another transaction."""
        self.dataset._check_open()
        if self._is_committed:
            raise ArgumentError("the transaction is committed: begin another one with ds.edit()")
        said = self._run(*([f"--if-head={self._begun_at}"] if self._has_read else []))
        self._is_committed = True
        self.operations = []
        self._leave()
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
                args += [f"--message={text_of('message', self.message)}"]
            return command(*args, storage=self.dataset._storage)[0]
        finally:
            os.unlink(script.name)


def _vertex(object: Any, index: Any) -> dict[str, int]:
    """How a script names a vertex of an object."""
    return {"object": whole_of("object", object), "index": whole_of("vertex", index)}


_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # what JSON has no numbers for


def _json(name: str, value: Any) -> Any:
    """A value as an edit script has it."""
    if isinstance(value, np.ndarray):
        listed = value.tolist()
        return listed if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()) else _json(name, listed)
    if isinstance(value, np.generic):
        return _json(name, value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else _WORDS[str(value)]
    if isinstance(value, Mapping):
        return {str(k): _json(name, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(name, v) for v in value]
    if value is None or isinstance(value, (str, int)):
        return value
    raise wrong_type(name, "what JSON has", shown(value))
