"""Transactions: edits that are committed together."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import as_array, indices, is_missing, named
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
        columns = dataset.info()["levels"][0]["attributes"] if len(dataset.kinds) == 1 else []
        #: Columns of objects with text of a bounded length, and what makes them wider, before all else.
        self._texts = {a["name"]: a for a in columns if a["scope"] == "object" and a["dtype"].startswith("<U")}
        self._room: dict[str, list[dict[str, Any]]] = {}

    def apply(self, op: str, **words: Any) -> None:
        """Add an operation of the edit script, by its name."""
        if self._is_committed:
            raise ArgumentError("the transaction is committed: begin another one with ds.edit()")
        if op in ("object.set", "object.add", "object.replace"):
            for values in (words.get("values"), words.get("each")):
                for name, value in dict(values or {}).items():
                    self._make_room(name, value if isinstance(value, list) else np.ravel(value).tolist())
        fields = {k: _json(f"{op}, {k}", v) for k, v in words.items() if v is not None}
        self.operations.append({"op": text_of("op", op), **fields})

    def _make_room(self, name: str, values: Any) -> None:
        """Widens a column of objects whose text is shorter than one of these; the transaction begins with that."""
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        column = self._texts.get(name)
        if column is None or longest <= int(column["dtype"][2:]):
            return
        self._texts[name] = {**column, "dtype": f"<U{longest}"}
        # As they are stored: one without a value has a stand-in, which stays.
        texts = [(each, each["attributes"][name]) for each in self.dataset.objects() if each["attributes"].get(name) is not None]
        bare = next((each["id"] for each, _ in texts if not each["fragments"] and each["attributes"].get(f"{name}_valid", True)), None)
        if bare is not None:
            lost = f"a wider one loses that of object {bare}, which has no geometry"
            raise ArgumentError(f"column {name!r} has text of at most {column['dtype'][2:]} characters: {lost}")
        rows = [(each["id"], text) for each, text in texts if each["fragments"]]
        told = {key: column[key] for key in ("unit", "description") if column[key]}
        room: list[dict[str, Any]] = [
            {"op": "column.drop", "scope": "object", "name": name},
            {"op": "column.add", "scope": "object", "name": name, "dtype": f"<U{longest}", **told},
        ]
        if rows:
            room.append({"op": "object.set", "objects": [number for number, _ in rows], "each": {name: [text for _, text in rows]}})
        self._room[name] = room

    def move(self, *, object: int, vertex: Any, to: Any) -> None:
        """Move vertices of an object.

        Args:
            object: the id of the object.
            vertex: the number of a vertex, an array of numbers, or a mask with a truth value for each vertex of the object.
            to: the coordinates of the vertex; of several an array of the shape (vertices, axes).

        Raises:
            ArgumentError, ArgumentTypeError: `to` does not fit the vertices or the axes, or is not finite.
        """
        where, count = self._vertices(object, vertex)
        points: Any = corner("to", to) if count is None else as_positions(to, "to", np.float64)
        if count is not None and len(points) != count:
            raise wrong_value("to", f"{count} rows, one for each vertex", str(len(points)))
        if np.shape(points)[-1] != self._ndim or not np.isfinite(points).all():
            raise wrong_value("to", f"{self._ndim} finite coordinates", str(np.asarray(points).tolist()))
        if count != 0:
            self.apply("vertex.move", vertices=where, to=points)

    def remove(self, *, object: Any = None, vertex: Any = None) -> None:
        """Remove objects, or vertices of one: numbers, arrays of them or masks, as in :meth:`set`."""
        if vertex is None:
            objects = self._objects(object)
            if len(objects):
                self.apply("object.remove", objects=objects)
        else:
            where, count = self._vertices(object, vertex)
            if count != 0:
                self.apply("vertex.remove", vertices=where)

    def set(self, name: str, *, object: Any = None, value: Any, vertex: Any = None, where: str | None = None) -> None:
        """Set an attribute of objects or of vertices.

        Args:
            name: the column.
            object: the id of an object, an array of ids, or a mask with a truth value for each of ``ds.object_ids()``.
            value: one value for all, or an array with one for each.
            vertex: of one object, the number of a vertex, an array of numbers, or a mask over its vertices.
            where: a condition on vertices, instead of `object`, such as ``"fa < 0.1"``; with one value for all.

        Raises:
            ArgumentError: there are as many values as neither one nor the vertices or objects.

        >>> import numpy as np, tempfile, zvf
        >>> lines = [np.zeros((2, 3)), np.ones((3, 3))]
        >>> ds = zvf.polylines(tempfile.mkdtemp() + "/a.zarrvectors", lines, attributes={"fa": np.zeros(5)})
        >>> with ds.edit() as e:
        ...     e.set("fa", object=1, vertex=np.array([True, False, True]), value=np.array([0.5, 0.25]))
        >>> ds.read(objects=[1])["fa"].tolist()
        [0.5, 0.0, 0.25]
        """
        name = text_of("name", name)
        if where is not None:
            if object is not None or vertex is not None:
                raise ArgumentError("set: give either a condition or an object")
            self.apply("vertex.set", vertices={"where": text_of("where", where)}, values={name: value})
        elif vertex is None:
            objects = self._objects(object)
            self._set("object.set", "objects", objects, len(objects), name, value)
        else:
            selector, count = self._vertices(object, vertex)
            self._set("vertex.set", "vertices", selector, 1 if count is None else count, name, value)

    def _set(self, op: str, what: str, selector: Any, count: int, name: str, value: Any) -> None:
        """Sets one value of all, or one of each."""
        is_array = getattr(value, "ndim", 0) > 0 or (isinstance(value, (list, tuple)) and count > 1)
        if not is_array or (count == 1 and len(value) != 1):
            each, said = {"values": {name: value}}, count
        else:
            taken = list(value) if isinstance(value, np.ma.MaskedArray) else as_array(value, "value")
            each, said = {"each": {name: [None if is_missing(v) or v is np.ma.masked else v for v in taken]}}, len(value)
        if said != count:
            raise wrong_value("value", f"one, or {count}, one for each", str(said))
        if count:
            self.apply(op, **{what: selector}, **each)

    def _objects(self, object: Any) -> list[int]:
        """Ids of objects, of a number, an array or a mask."""
        if np.ndim(object) == 0:
            return [whole_of("object", object)]
        array = as_array(object, "object")
        if array.dtype.kind == "b":
            ids = self.dataset.object_ids()
            if array.shape != ids.shape:
                raise wrong_value("object", f"{len(ids)} truth values, one for each of ds.object_ids()", f"the shape {array.shape}")
            return [int(i) for i in ids[array]]
        return [int(i) for i in indices(array, "object").ravel()]

    def _vertices(self, object: Any, vertex: Any) -> tuple[dict[str, Any], int | None]:
        """How a script names vertices of an object, and how many an array or a mask of them names."""
        own = whole_of("object", object)
        if np.ndim(vertex) == 0:
            return {"object": own, "index": whole_of("vertex", vertex)}, None
        array = as_array(vertex, "vertex").ravel()
        if array.dtype.kind == "b":
            self.apply("expect", vertices={"object": own}, count=len(array))  # else rows of the mask mean other vertices
            array = np.flatnonzero(array)
        elif array.size and array.dtype.kind not in "iu":
            raise wrong_type("vertex", "a number, numbers or a mask", str(array.dtype))
        return {"object": own, "index": array.tolist()}, len(array)

    def group(self, name: str, members: Any, *, remove: bool = False) -> None:
        """Add objects to a group, which is made where there is none of this name; with `remove` take them out.

        >>> import numpy as np, tempfile, zvf
        >>> ds = zvf.polylines(tempfile.mkdtemp() + "/a.zarrvectors", [np.zeros((2, 3)), np.ones((3, 3))])
        >>> with ds.edit() as e:
        ...     e.group("long", [1])
        >>> ds.groups["long"].tolist()
        [1]
        """
        ids, label = self._objects(members), text_of("name", name)
        is_made = any(op["op"] == "group.add" and op.get("name") == label for op in self.operations)
        if remove or is_made or label in self.dataset.groups:
            self.apply("group.members", group=label, **{"remove" if remove else "add": ids})
        else:
            self.apply("group.add", name=label, members=ids)

    def remove_group(self, name: str) -> None:
        """Remove a group; its objects stay."""
        self.apply("group.remove", group=text_of("name", name))

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
            room = [op for ops in self._room.values() for op in ops]
            script.writelines(json.dumps(op) + "\n" for op in [*room, *self.operations])
        try:
            args = ["edit", self.dataset.address, "--script", script.name, *options]
            if self.message is not None:
                args += [f"--message={text_of('message', self.message)}"]
            return command(*args, storage=self.dataset._storage)[0]
        finally:
            os.unlink(script.name)


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
