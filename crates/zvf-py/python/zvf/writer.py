"""A store that is written in pieces."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _zvf
from ._arrays import column_of_lines, given, indices, join_lines, named
from ._arrays import positions as as_positions
from ._columns import columns, fitted, flagged
from ._creating import chunk_shape_of
from ._jobs import reporter
from ._losses import door, lose, warn
from ._pieces import CHAINS, Piece, is_thing, piece_of
from ._words import text_of
from .errors import ArgumentError, ArgumentTypeError, ExistsError, shown, wrong_value

_RUNS = ("polyline", "streamline")


_FIRST = 1 << 20  # vertices that determine the shape of chunks
_HELD_BYTES = 256  # of memory that a vertex may take which waits, with its columns
_TINY, _MANY, _HUGE = 16, 1000, 4 << 20  # vertices of a chunk, chunks, vertices of a chunk


def _there_is(address: str) -> tuple[str, str]:
    """The message for a name that is taken, and what to do about it."""
    there, hint = "there is something already", "give another name, or overwrite=True to replace it"
    if os.path.isdir(f"{address}.zvf") and not os.path.lexists(address):
        there, hint = f"there is {address}.zvf, the journal of a store that is gone", "give another name, or overwrite=True to remove it"
    return f"cannot write {address}: {there}; {hint}", hint


def _copied(arg: Any) -> Any:
    """An argument of the native writer with copies of its arrays."""
    if isinstance(arg, np.ndarray):
        return arg.copy()
    if isinstance(arg, tuple):
        return tuple(_copied(item) for item in arg)
    if isinstance(arg, list) and arg and isinstance(arg[0], dict):
        return [{name: _copied(item) for name, item in entry.items()} for entry in arg]
    return arg


def _of_size(vertices: int, chunks: int) -> str | None:
    """What is wrong with the size of chunks, if anything."""
    each = vertices / max(chunks, 1)
    if (chunks > _MANY and each < _TINY) or each > _HUGE:
        size = "tiny" if each < _TINY else "huge"
        return f"chunks are {size}: {chunks} of them have {each:.3g} vertices each; leave chunk out, or give a size in bytes, such as chunk='256KiB'"
    return None


class Writer:
    """A store that is written in pieces. It is invisible until the end, and an exception leaves nothing behind.

    >>> import numpy as np, tempfile, zvf
    >>> at = tempfile.mkdtemp() + "/tracts.zarrvectors"
    >>> with zvf.create(at, kind="streamline", ndim=3, chunk=50.0) as w:
    ...     for i in range(3):
    ...         w.push(lines=[np.full((4, 3), 10.0 * i)])
    >>> zvf.open(at).count()
    12
    """

    def __init__(self, address: str, words: dict[str, Any], *, strict: bool = False) -> None:
        self.address = address
        self.kind = words["kind"]
        self._ndim = len(words["axes"])
        self._storage = words["storage"]
        self._words = words
        self._default = self.kind if words["also"] else None  # the native half may put another one first
        self._begun: Any = None
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []  # calls until the shape of chunks is known
        self._corners: tuple[np.ndarray, np.ndarray] | None = None  # the lowest and the highest of what was pushed
        if words["chunk_shape"] is not None:
            self._begin()  # what cannot be written is refused here, not by the first push
        elif not words["replace"] and (os.path.lexists(address) or os.path.isdir(f"{address}.zvf")):
            said, hint = _there_is(address)
            raise ExistsError(said, op="write", hint=hint)
        self._strict = strict
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # of columns pushed before, by kind and scope
        self._next = 0  # the id of the next object that has none
        self._vertices = 0
        self.report: dict[str, Any] | None = None

    def _begin(self) -> Any:
        """The native writer, and what waits for it; a chunk given in bytes gets its shape from the points so far."""
        if self._begun is None:
            chunk = self._words.pop("chunk_bytes", None)
            if chunk is not None:
                low, high = self._corners or (np.zeros(self._ndim), np.zeros(self._ndim))
                shape = chunk_shape_of(self._vertices, low, high, chunk)
                bins = self._words["bin_shape"]
                self._words["chunk_shape"] = shape if bins is None else [np.ceil(side / own) * own for side, own in zip(shape, bins)]
            journal = f"{self.address}.zvf"
            if self._words["replace"] and os.path.isdir(journal) and not os.path.lexists(self.address):
                shutil.rmtree(journal)  # that of a store that is gone
            try:
                self._begun = _zvf.create(self.address, self._words).wait()
            except ExistsError as error:
                error._reword(*_there_is(self.address))
                raise
            except ArgumentError as error:
                if self._words["replace"] and os.path.isdir(journal):
                    hint = "give another name, or move this folder away to give up the history"
                    error._reword(f"cannot replace {self.address}: its history is {journal}; {hint}", hint)
                raise
            waiting, self._waiting = self._waiting, []
            for call, args in waiting:
                getattr(self._begun, call)(*args).wait()
        return self._begun

    def _send(self, call: str, *args: Any) -> None:
        """Calls the native writer, at once or once there is one: then with copies, as the caller may change arrays."""
        if self._begun is not None:
            getattr(self._begun, call)(*args).wait()
        else:
            self._waiting.append((call, tuple(_copied(arg) for arg in args)))
            memory = self._words["memory"]
            if self._vertices >= (_FIRST if memory is None else min(_FIRST, memory // _HELD_BYTES)):
                self._begin()

    def _ids_of(self, piece: Piece) -> Any:
        """The objects of the piece that was pushed last, in the order that columns of them have."""
        if piece.objects is not None:
            return piece.objects
        if piece.offsets is not None:
            count = len(piece.offsets) - 1
            return np.arange(self._next - count, self._next) if piece.part_ids is None else piece.part_ids
        if piece.object_ids is not None:
            return np.unique(indices(piece.object_ids, "object_ids"))
        if piece.kind == "point_cloud":
            raise ArgumentError("columns of objects need the objects: give object_ids")
        return [0]  # vertices of a graph or a mesh without ids are those of one object

    def _push_piece(self, piece: Piece, kind: str | None) -> None:
        """Adds a piece, as the kind that it is."""
        own = kind or (piece.kind if piece.kind in (self.kind, *self._words["also"]) else self.kind)
        if own in CHAINS and piece.offsets is None and len(piece.positions):
            raise ArgumentError(f"a {piece.kind} has no lines and cannot be added to a store of the kind {own}")
        self.push(piece.positions, kind=own if self._default else None, **piece.push_words())
        if piece.object_attributes:
            self.objects(self._ids_of(piece), piece.object_attributes, kind=own if self._default else None)

    def push(
        self,
        positions: Any = None,
        *,
        lines: Sequence[Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        object_ids: Any = None,
        offsets: Any = None,
        part_ids: Any = None,
        edges: Any = None,
        faces: Any = None,
        element_attributes: Mapping[str, Any] | None = None,
        part_attributes: Mapping[str, Any] | None = None,
        kind: str | None = None,
    ) -> None:
        """Add geometry.

        Args:
            positions: one row a vertex; of lines and streamlines without ``offsets``, one object. Or whatever
                :func:`zvf.write` takes: an answer, a batch of a query, a table, a frame, a mesh, a graph; then alone.
            lines: many arrays of positions, each an object; instead of ``positions``. A list of such arrays that is given
                as ``positions`` is taken for this.
            attributes: columns of vertices; of ``lines`` also a list with one array for each.
            object_ids: the object of each vertex; of lines, of each line.
            offsets: where parts begin in ``positions``, and where the last one ends.
            part_ids: the object of each part.
            edges: pairs of rows of this call.
            faces: rows of this call, three a face or more.
            kind: of a store of several kinds, which; the first one unless said.
        """
        with door(self._strict):
            self._push(positions, lines, attributes, object_ids, offsets, part_ids, edges, faces, element_attributes, part_attributes, kind)

    def _push(
        self,
        positions: Any,
        lines: Sequence[Any] | None,
        attributes: Any,
        object_ids: Any,
        offsets: Any,
        part_ids: Any,
        edges: Any,
        faces: Any,
        element_attributes: Any,
        part_attributes: Any,
        kind: str | None,
    ) -> None:
        if lines is None and is_thing(positions):
            others = {"attributes": attributes, "object_ids": object_ids, "offsets": offsets, "part_ids": part_ids, "edges": edges}
            others.update(faces=faces, element_attributes=element_attributes, part_attributes=part_attributes)
            if given_too := [name for name, value in others.items() if value is not None]:
                raise ArgumentTypeError(f"push: a {type(positions).__name__} has its own {', '.join(given_too)}: leave these out, or give arrays")
            chains = kind or self.kind
            self._push_piece(piece_of(positions, chains if chains in CHAINS else None), kind)
            return
        if lines is None and isinstance(positions, (list, tuple)) and any(np.ndim(part) == 2 for part in positions):
            positions, lines = None, positions
        if (positions is None) == (lines is None):
            raise ArgumentTypeError("give either positions or lines")
        if lines is not None:
            points, cuts = join_lines(lines)
            columns_given = {k: column_of_lines(k, v, cuts) for k, v in named("attributes", attributes).items()}
            ids = part_ids if part_ids is not None else object_ids
            object_ids, offsets, part_ids = None, cuts, ids
        else:
            points = as_positions(positions)
            columns_given = attributes if isinstance(attributes, list) else named("attributes", attributes)
            if (kind or self.kind) in _RUNS and offsets is None and object_ids is None and len(points):
                offsets = [0, len(points)]
        if points.shape[1] != self._ndim:
            raise wrong_value("positions", f"{self._ndim} coordinates a row", str(points.shape[1]))
        parts = None
        if offsets is not None:
            cuts = indices(offsets, "offsets", len(points) + 1)
            if cuts.ndim != 1 or len(cuts) < 1 or cuts[0] != 0 or cuts[-1] != len(points) or (np.diff(cuts) < 0).any():
                raise wrong_value("offsets", f"ascending numbers from 0 to {len(points)}", shown(cuts))
            count = len(cuts) - 1
            if part_ids is None:
                ids = np.arange(self._next, self._next + count)
            else:
                ids = indices(part_ids, "part_ids").ravel()
                if len(ids) != count:
                    raise wrong_value("part_ids", f"{count}, one a part", str(len(ids)))
            self._next = max(self._next, int(ids.max(initial=-1)) + 1)
            parts = (cuts.tolist(), ids.tolist())
        owners = None
        if object_ids is not None:
            owners = indices(object_ids, "object_ids").ravel()
            if len(owners) != len(points):
                raise wrong_value("object_ids", f"{len(points)}, one a vertex", str(len(owners)))
            owners = owners.tolist()
        elements = None
        joined = edges if edges is not None else faces
        if edges is not None and faces is not None:
            raise ArgumentTypeError("give either edges or faces")
        if joined is not None:
            name, width, each = ("edges", 2, "two vertices each") if edges is not None else ("faces", 3, "three vertices each, or more")
            rows = indices(joined, name, len(points))
            if rows.size and (rows.ndim != 2 or rows.shape[1] < width or (rows.shape[1] > width and edges is not None)):
                raise wrong_value(name, each, f"the shape {rows.shape}")
            elements = (int(rows.shape[1]) if rows.size else width, rows.ravel().tolist())
        count = 0 if elements is None else len(elements[1]) // elements[0]
        of_vertices = self._fitted("vertex", kind, columns_given, len(points), "attributes")
        of_parts = self._fitted("part", kind, part_attributes, None if parts is None else len(parts[1]), "part_attributes")
        of_elements = self._fitted("element", kind, element_attributes, count, "element_attributes") if element_attributes else []
        if len(points):
            low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
            before = self._corners or (low, high)
            self._corners = np.minimum(before[0], low), np.maximum(before[1], high)
        self._vertices += len(points)
        self._send("push", given(points), of_vertices, parts, owners, of_parts, elements, of_elements, kind or self._default)

    def _fitted(self, scope: str, kind: str | None, attributes: Any, rows: int | None, what: str) -> list[dict[str, Any]]:
        """Columns as the native half takes them, like those that were pushed before."""
        entries = columns(attributes, rows, what)
        for name in (entry["name"] for entry in entries if "/" in entry["name"]):
            lose(f"column {name!r} is stored as {name.replace('/', '%2F')!r}")
        return fitted(flagged(entries) if scope == "object" else entries, self._known.setdefault((kind or self.kind, scope), {}), rows or 0)

    def objects(self, ids: Any, attributes: Mapping[str, Any] | None = None, *, kind: str | None = None) -> None:
        """Declare objects and their attributes."""
        wanted = indices(ids, "ids").ravel()
        with door(self._strict):
            of_objects = self._fitted("object", kind, attributes, len(wanted), "object_attributes")
        self._send("object_columns", wanted.tolist(), of_objects, kind or self._default)

    def group(self, name: str | None, members: Any) -> None:
        """Add a group of objects."""
        label = None if name is None else text_of("the name of a group", name)
        what = "members" if name is None else f"members of the group {name!r}"
        self._send("group", label, indices(members, what).ravel().tolist())

    def finish(self, *, progress: Any = None) -> dict[str, Any]:
        """Write everything and make the store visible; returns what was written.

        A warning tells of chunks that are tiny or huge. ``progress`` gets the vertices that are written and their number.
        """
        advance, end = reporter(progress, "write")
        tell = advance and (lambda done, total: advance(done, total or self._vertices))
        try:
            report: dict[str, Any] = self._begin().finish().wait(tell)
        finally:
            end()
        self.report = report
        if said := _of_size(self._vertices, int(report.get("chunks", 0))):
            warn(f"{self.address}: {said}", UserWarning)
        return report

    def abandon(self) -> None:
        """Abandon the store: nothing of it remains. After Ctrl-C, spilled data is removed in the background."""
        if self._begun is not None:
            self._begun.abandon()
            if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                _zvf.settle(60.0)

    def __repr__(self) -> str:
        end = "" if self.report is None else ", finished"
        return f"<zvf.Writer {self.address!r}: {self.kind}, {self._vertices} vertices{end}>"

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.abandon()
        elif self.report is None:
            self.finish()
