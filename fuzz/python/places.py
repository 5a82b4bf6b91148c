"""Stores and handles of every kind to call methods of, in a folder that goes with the process; and the values that are passed."""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import shutil
import tempfile
from types import SimpleNamespace

import numpy as np
import zvf
import zvf.compat as zv
from zvf import _zvf

#: Work is done here, and relative paths begin here.
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="zvf-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
NUMBERS = itertools.count()


def fresh(ending=""):
    """A path where nothing is."""
    return str(SCRATCH / f"{next(NUMBERS)}{ending}")


XYZ = np.random.default_rng(0).random((50, 3))


def _templates():
    folder = SCRATCH / "templates"
    zvf.points(folder / "cloud", XYZ, attributes={"m": np.arange(50.0)}, chunk=0.5)
    lines = [np.random.default_rng(i).random((5, 3)) for i in range(5)]
    words = {"attributes": {"m": np.arange(25.0)}, "object_attributes": {"a": np.arange(5)}, "groups": {"a": [1, 2]}}
    zvf.polylines(folder / "lines", lines, chunk=0.5, **words)
    zvf.mesh(folder / "mesh", XYZ[:4], [[0, 1, 2], [1, 2, 3]], attributes={"m": np.arange(4.0)}, chunk=1.0)
    zvf.graph(folder / "tree", XYZ[:4], [[1, 0], [2, 1], [3, 1]], tree=True, chunk=1.0)
    zvf.save_tensor(folder / "t.b2nd", np.arange(24).reshape(4, 6))
    zvf.pack(folder / "cloud", folder / "packed.tet")
    np.savetxt(folder / "points.csv", XYZ, delimiter=",", header="x,y,z", comments="")


_templates()


def places():
    """New handles of copies of the templates: what a call changes is there for no later one."""
    folder = pathlib.Path(fresh())
    shutil.copytree(SCRATCH / "templates", folder)
    at = SimpleNamespace(folder=folder, **{name: str(folder / name) for name in ("cloud", "lines", "mesh", "tree")})
    at.ds, at.tracts, at.surface = zvf.open(at.cloud), zvf.open(at.lines), zvf.open(at.mesh)
    at.old, at.old_lines, at.old_mesh = (zv.open(path, mode="r+") for path in (at.cloud, at.lines, at.mesh))
    at.values = [*PLAIN, at.ds, at.tracts, at.cloud, at.mesh, pathlib.Path(at.lines), at.old, at.old_lines.store["0"]]
    return at


PLAIN = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**64, -(2**70), 0.0, -1.5, 0.5, float("nan"), float("inf"), "", "a", "m", "\0", "\ud800",
    "m > 1", "m >", "vertex", "object", "x" * 5000, b"", b"\xff", bytearray(b"ab"), memoryview(b"abc"), [], [1], [1, 2, 3], [-1], ["m"],
    [None], [[1, 2], [3, 4]], (), (1, 2), (1.0, 1.0, 1.0), ([0, 0, 0], [1, 1, 1]), ([0], [1]), ([float("nan")] * 3, [1] * 3),
    ([1, 1, 1], [0, 0, 0]), {}, {"a": 1}, {"m": [1.0]}, {1: 2}, {"x": [1.0], "y": [2.0]}, set(), frozenset([1]), object(), int, len,
    lambda *args: None, np.zeros(0), np.zeros((0, 3)), np.zeros((2, 3)), np.full((2, 3), np.nan), np.zeros((2, 3), dtype=object),
    np.array(5), np.zeros((2, 2, 2)), np.arange(3, dtype=">i8"), np.array(["a"]), np.zeros(3, dtype="M8[s]"), np.zeros((0, 0)),
    np.zeros(4, dtype=[("a", "i4")]), np.asfortranarray(np.eye(3)), np.arange(6)[::-2], np.ma.masked_array([1, 2]), complex(1, 2),
    np.float16(1), np.int8(-1), np.bool_(True), range(3), slice(1, 2), slice(None, None, -1), Ellipsis, NotImplemented, iter([1, 2]),
    zv.Schema(), zv.Grid((2, 2, 2), (0.5, 0.5, 0.5)), zvf.max_vertices(10), SimpleNamespace(vertices=np.eye(3), faces=[[0, 1, 2]]),
]  # fmt: skip


def finished(at):
    """A plan of an ingest all of whose tasks are done."""
    plan = zvf.tasks(at.folder / "points.csv", at.folder / "ingested", shares=1)
    for task in plan:
        plan.run(task)
    return plan


def job():
    """Work that has ended."""
    found = _zvf.open_tensor(str(SCRATCH / "templates/t.b2nd"), [], None)
    while not found.is_done():
        pass
    return found


def writer(at):
    """A store that was begun."""
    return zvf.create(at.folder / f"written-{random.random()}", chunk=1.0)
