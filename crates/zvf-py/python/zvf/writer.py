"""A store that is written in pieces."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _zvf
from ._arrays import column_of_lines, given, indices, join_lines, named
from ._arrays import positions as as_positions
from ._columns import columns, fitted
from ._creating import chunk_shape_for
from ._jobs import reporter
from ._losses import door
from ._pieces import CHAINS, Piece, is_thing, piece_of
from ._words import text_of
from .errors import ArgumentError, ArgumentTypeError, ExistsError, shown, wrong_value

_RUNS = ("polyline", "streamline")


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
        if words["chunk_shape"] is not None:
            self._begin()  # what cannot be written is refused here, not by the first push
        self._strict = strict
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # of columns pushed before, by kind and scope
        self._next = 0  # the id of the next object that has none
        self._vertices = 0
        self.report: dict[str, Any] | None = None

    def _begin(self, points: np.ndarray | None = None) -> Any:
        """The native writer; a chunk given in bytes gets its shape from the first points."""
        if self._begun is None:
            chunk = self._words.pop("chunk_bytes", None)
            if chunk is not None:
                first = np.zeros((0, self._ndim)) if points is None else points
                self._words["chunk_shape"] = chunk_shape_for(first, f"{chunk}b")
            try:
                self._begun = _zvf.create(self.address, self._words).wait()
            except ExistsError as error:
                there, hint = "something", "give another name, or overwrite=True to replace it"
                if os.path.isdir(f"{self.address}.zvf") and not os.path.exists(self.address):
                    there, hint = f"{self.address}.zvf, the journal of a store that is gone", "remove this folder, or give another name"
                error._reword(f"cannot write {self.address}: there is {there} already; {hint}", hint)
                raise
        return self._begun

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
        self._begin(points).push(given(points), of_vertices, parts, owners, of_parts, elements, of_elements, kind or self._default).wait()
        self._vertices += len(points)

    def _fitted(self, scope: str, kind: str | None, attributes: Any, rows: int | None, what: str) -> list[dict[str, Any]]:
        """Columns as the native half takes them, like those that were pushed before."""
        return fitted(columns(attributes, rows, what), self._known.setdefault((kind or self.kind, scope), {}), rows or 0)

    def objects(self, ids: Any, attributes: Mapping[str, Any] | None = None, *, kind: str | None = None) -> None:
        """Declare objects and their attributes."""
        wanted = indices(ids, "ids").ravel()
        with door(self._strict):
            of_objects = self._fitted("object", kind, attributes, len(wanted), "object_attributes")
        self._begin().object_columns(wanted.tolist(), of_objects, kind or self._default).wait()

    def group(self, name: str | None, members: Any) -> None:
        """Add a group of objects."""
        label = None if name is None else text_of("the name of a group", name)
        what = "members" if name is None else f"members of the group {name!r}"
        self._begin().group(label, indices(members, what).ravel().tolist()).wait()

    def finish(self, *, progress: Any = None) -> dict[str, Any]:
        """Write everything and make the store visible; returns what was written."""
        advance, end = reporter(progress, "write")
        try:
            report: dict[str, Any] = self._begin().finish().wait(advance)
        finally:
            end()
        self.report = report
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
