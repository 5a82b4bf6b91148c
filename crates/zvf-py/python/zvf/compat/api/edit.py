"""Edits by intent, applied together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import zvf
from zvf._arrays import as_array
from zvf._jobs import command
from zvf._words import corner

from .._config import config
from ..exceptions import EditError, translating

if TYPE_CHECKING:
    from .dataset import Dataset


@dataclass
class EditReport:
    """What was done."""

    touched_chunks: list[Any] = field(default_factory=list)
    oid_remap: dict[int, int] = field(default_factory=dict)
    dirty_pyramid_levels: list[int] = field(default_factory=list)
    snapshot_id: str | None = None
    n_edits: int = 0
    oid_prefix: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "touched_chunks": [{"level": level, "chunk": list(chunk)} for level, chunk in self.touched_chunks],
            "oid_remap": {str(old): new for old, new in self.oid_remap.items()},
            "dirty_pyramid_levels": list(self.dirty_pyramid_levels),
            "snapshot_id": self.snapshot_id,
            "n_edits": self.n_edits,
            "oid_prefix": None,
        }


class EditPlan:
    """Edits that are committed when the ``with`` block is left; ids stay, all happens or nothing."""

    def __init__(self, dataset: Dataset, *, level: int = 0, in_place: bool = False, **session_kw: Any) -> None:
        unknown = sorted(set(session_kw) - _SESSION)
        if unknown:
            raise TypeError(f"editing() has no {unknown[0]!r}; it has level, in_place, {', '.join(sorted(_SESSION))}")
        refresh = session_kw.get("refresh_pyramid", False)
        if refresh not in (True, False, "batch"):
            raise EditError(f"refresh_pyramid must be one of True / False / 'batch'; found {refresh!r}")
        self._dataset = dataset
        self._level = int(level)
        self._refresh = bool(refresh)
        self._copies = bool(session_kw.get("atomic", not in_place))
        self._message: str | None = session_kw.get("message")
        if self._level != 0:
            raise EditError("edits are made to level 0; coarser levels are built again from it")
        dataset.store._shared.check_writable()
        self._edit = zvf.Edit(dataset.store._shared.dataset(), self._message)
        self._report = EditReport()

    @property
    def report(self) -> EditReport:
        """What was done so far."""
        return self._report

    def __enter__(self) -> EditPlan:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.flush()

    def flush(self) -> EditReport:
        """Apply what was said so far."""
        count = len(self._edit.operations)
        if count:
            with translating(EditError):
                if config.edits == "reference" and self._copies:
                    self._copy_objects()
                said = self._edit.commit()
                self._note_chunks([commit["head"] for commit in said.get("commits", [])])
            self.report.n_edits += count
            self.report.dirty_pyramid_levels = [i for i in self._dataset.levels if i > 0]
            self._dataset._forget()
            self._dataset.store._shared.changed()
            self._edit = zvf.Edit(self._dataset.store._shared.dataset(), self._message)
            if self._refresh and self.report.dirty_pyramid_levels:
                self._refresh_levels()
        return self.report

    def _note_chunks(self, commits: Sequence[int]) -> None:
        """Adds the chunks whose cells the commits wrote; of cells in shards nobody says which."""
        level = self._dataset.level(0).store
        if not level.is_local:
            return
        address, storage = level._shared.address, level._shared.storage
        keys = [entry["key"] for number in commits for entry in command("history", "show", address, number, storage=storage)[0]["keys"]]
        found = set(self.report.touched_chunks)
        for key in keys:
            array, of_chunk, cell = str(key).removeprefix("0/").partition("/c/")
            if not of_chunk or not array.startswith(_BY_CHUNK) or array not in level or level[array]._is_sharded:
                continue
            at = [int(part) for part in cell.split("/")]
            origin = level.chunk_grid_bounds(array)[0] or (0,) * len(at)
            found.add((0, tuple(a + o for a, o in zip(at, origin))))
        self.report.touched_chunks = sorted(found)

    def _refresh_levels(self) -> None:
        """Builds what is behind of the coarser levels again, in a commit of its own."""
        shared = self._dataset.store._shared
        with translating(EditError):
            command("pyramid", shared.address, "--refresh", storage=shared.storage)
        shared.changed()
        self._dataset._forget()
        self.report.dirty_pyramid_levels = []

    def _copy_objects(self) -> None:
        """Edits of an object become edits of a copy under a new id; the object stays as it is."""
        operations = self._edit.operations
        found = (op["vertices"].get("object") if "vertices" in op else op["objects"][0] for op in operations if op["op"] != "object.remove")
        old = [i for i in dict.fromkeys(found) if i is not None and i not in self.report.oid_remap.values()]
        if not old:
            return
        copies = [{"op": "object.copy", "object": i} for i in old]
        self._edit.operations = list(copies)
        added = self._edit._run("--dry-run")["commits"][-1]["objects"]["added"]
        new = dict(zip(old, (int(i) for i in added)))
        for op in copies:
            op["id"] = new[op["object"]]
        for op in operations:
            if op["op"] == "object.remove":
                continue
            if "object" in op.get("vertices", {}):
                op["vertices"] = {**op["vertices"], "object": new.get(op["vertices"]["object"], op["vertices"]["object"])}
            elif "objects" in op:
                op["objects"] = [new.get(i, i) for i in op["objects"]]
        self._edit.operations = [*copies, *operations]
        self.report.oid_remap.update(new)

    def renamed(self) -> dict[int, int]:
        """Objects that got another id: none, unless the switch ``edits`` says so."""
        return dict(self.report.oid_remap)

    def new_id_of(self, object_id: int) -> int:
        """The id that an object has now."""
        return self.report.oid_remap.get(int(object_id), int(object_id))

    def _vertex(self, object: int | None, index: int, at: Sequence[float] | None) -> dict[str, Any]:
        if (object is None) == (at is None):
            raise ValueError("name the vertex either by object= and index=, or by at= (a coordinate)")
        if at is not None:
            return {"nearest": [float(x) for x in at], "within": 1e-6}
        return {"object": int(object), "index": int(index)}  # type: ignore[arg-type]

    def move_vertex(self, *, to: npt.ArrayLike, object: int | None = None, index: int = 0, at: Sequence[float] | None = None) -> None:
        """Move a vertex."""
        vertex = self._vertex(object, index, at)
        with translating(EditError):
            point = corner("to", as_array(to, "to").ravel())
            if len(point) != self._dataset.ndim or not np.isfinite(point).all():
                raise EditError(f"to: expected {self._dataset.ndim} finite coordinates, found {point}")
            self._edit.apply("vertex.move", vertices=vertex, to=point)

    def remove_vertex(self, *, object: int | None = None, index: int = 0, at: Sequence[float] | None = None) -> None:
        """Remove a vertex."""
        self._edit.apply("vertex.remove", vertices=self._vertex(object, index, at))

    def set_attribute(self, name: str, value: npt.ArrayLike, *, object: int | None = None, index: int = 0, at: Sequence[float] | None = None) -> None:
        """Set an attribute of a vertex."""
        self._edit.apply("vertex.set", vertices=self._vertex(object, index, at), values={name: np.asarray(value)})

    def set_object_attribute(self, name: str, object: int, value: npt.ArrayLike) -> None:
        """Set an attribute of an object."""
        self._edit.apply("object.set", objects=[int(object)], values={name: np.asarray(value)})

    def remove_object(self, object: int) -> None:
        """Remove an object."""
        self._edit.apply("object.remove", objects=[int(object)])

    def __repr__(self) -> str:
        return f"EditPlan(level={self._level}, edits={config.edits})"


_BY_CHUNK = ("vertices", "vertex_", "fragment_attributes", "links", "link_")

# Words of the reference's sessions; those that say how it edits have no meaning here: all happens, or nothing.
_SESSION = frozenset({"atomic", "auto_materialise_links", "concurrent_writers", "message", "oid_prefix", "propagate_to_objects", "refresh_pyramid"})

__all__ = ["EditPlan"]
