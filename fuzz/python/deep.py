"""Calls what does most with values that get further than any value would: a thousand times each.

    python deep.py SEED
"""

import itertools, os, pathlib, random, shutil, sys, tempfile, time, warnings
import numpy as np
import zvf
from zvf import _zvf

warnings.simplefilter("ignore")

rng = random.Random(int(sys.argv[1]))
at = tempfile.mkdtemp() + "/a.zarrvectors"
ds = zvf.points(at, np.random.default_rng(0).random((50, 3)), attributes={"m": np.arange(50.0)}, chunk=0.5)
lines = zvf.polylines(tempfile.mkdtemp() + "/b", [np.random.default_rng(i).random((5, 3)) for i in range(5)])
values = [
    None, True, 0, 1, -1, 2**31, 2**63, 2**64, -2**70, 0.0, -1.5, float("nan"), float("inf"), "", "a", "m", "\0", "\ud800",
    "m > 1", "m >", "x" * 5000, b"", b"\xff", [], [1], [1, 2, 3], [-1], ["m"], [None], (), (1, 2), ([0, 0, 0], [1, 1, 1]),
    ([0], [1]), ([float("nan")] * 3, [1] * 3), ([1, 1, 1], [0, 0, 0]), {}, {"a": 1}, {1: 2}, set(), object(), int, len,
    np.zeros(0), np.zeros((0, 3)), np.zeros((2, 3)), np.full((2, 3), np.nan), np.zeros((2, 3), dtype=object),
    np.array(5), np.zeros((2, 2, 2)), np.arange(3, dtype=">i8"), np.array(["a"]), np.zeros(3, dtype="M8[s]"), complex(1, 2),
    np.float16(1), np.int8(-1), range(3), slice(1, 2), Ellipsis, NotImplemented, ds, lines,
]
words = ["box", "half_open_box", "ball", "half_spaces", "prism", "mode", "objects", "groups", "where", "attributes", "order",
         "limit", "level", "kind", "unknown_objects", "allow_missing", "object_ids", "increment_only", "places"]
any_ = lambda: rng.choice(values)

scratch = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
counter = itertools.count()

def fresh():
    return str(scratch / str(next(counter)))

tensor = zvf.save_tensor(tempfile.mkdtemp() + "/t.b2nd", np.arange(24).reshape(4, 6))
writer = zvf.create(fresh(), chunk=1.0)
closed = zvf.create(fresh(), chunk=1.0)
closed.abandon()
packed = fresh() + ".tet"
zvf.pack(ds, packed)
import zvf.compat as zv
from zvf.compat.types.points import read_points, write_points
from zvf.compat.types.polylines import read_polylines, write_polylines
from zvf.compat.types.graphs import write_graph
from zvf.compat.types.meshes import write_mesh
old = zv.open(at)

def edited():
    edit = lines.edit()
    call = rng.choice([
        lambda: edit.move(object=any_(), vertex=any_(), to=any_()), lambda: edit.remove(object=any_(), vertex=any_()),
        lambda: edit.set(any_(), object=any_(), value=any_()), lambda: edit.add(any_(), object=rng.choice([1000, any_()])),
        lambda: edit.apply(rng.choice(["object.set", "vertex.move", any_()]), vertices=any_(), values=any_()),
    ])
    call()
    edit._run("--dry-run")

entries = {
    "select": lambda: rng.choice([ds, lines]).select(**{rng.choice(words): any_() for _ in range(rng.randint(1, 3))}).read(),
    "count": lambda: ds.count(**{rng.choice(words): any_()}),
    "plan": lambda: lines.select(**{rng.choice(words): any_()}).plan(),
    "batches": lambda: list(ds.select(**{rng.choice(words): any_()}).batches(rows=rng.choice([None, 7, any_()]))),
    "native query": lambda: _zvf.Query({rng.choice(words): any_()}),
    "level": lambda: ds.level(any_()).read(),
    "objects": lambda: rng.choice([ds, lines]).objects(any_(), any_()),
    "column": lambda: ds.read()[any_()],
    "open": lambda: zvf.open(any_(), storage_options=rng.choice([None, {"a": "b"}, any_()])),
    "points": lambda: zvf.points(fresh(), any_(), attributes=any_(), object_ids=any_(), chunk=any_()),
    "columns of points": lambda: zvf.points(fresh(), np.zeros((3, 3)), attributes={rng.choice(["m", any_()]): any_()}),
    "polylines": lambda: zvf.polylines(fresh(), any_(), attributes=any_()),
    "lines": lambda: zvf.lines(fresh(), any_(), attributes=any_(), groups=any_()),
    "graph": lambda: zvf.graph(fresh(), np.zeros((3, 3)), any_(), tree=rng.random() < 0.5, object_ids=any_()),
    "mesh": lambda: zvf.mesh(fresh(), np.zeros((3, 3)), any_(), attributes=any_()),
    "write": lambda: zvf.write(fresh(), any_()),
    "create": lambda: zvf.create(fresh(), kind=rng.choice(["mesh", any_()]), ndim=any_(), chunk=any_(), codec=any_(), bounds=any_()),
    "create with": lambda: zvf.create(fresh(), chunk=1.0, **{rng.choice(["bins", "bounds", "axes", "shard", "codec", "memory", "name", "crs", "metadata", "declared", "binned_by"]): any_()}),
    "push": lambda: writer.push(any_(), offsets=any_(), part_ids=any_(), edges=any_(), kind=rng.choice([None, any_()])),
    "push into a closed writer": lambda: closed.push(np.zeros((1, 3)), attributes=any_()),
    "objects of a writer": lambda: writer.objects(any_(), any_()),
    "group of a writer": lambda: writer.group(any_(), any_()),
    "edit": edited,
    "tensor": lambda: zvf.open_tensor(any_()),
    "index of a tensor": lambda: tensor[rng.choice([any_(), (any_(), any_())])],
    "save tensor": lambda: zvf.save_tensor(fresh() + ".b2nd", any_()),
    "render": lambda: ds.render(rng.choice([8, any_()]), rng.choice([8, any_()]), colour=any_()),
    "arrow": lambda: _zvf.read_arrow(any_()),
    "command": lambda: _zvf.call(rng.choice([["info", str(any_())], [str(any_())], any_()])).wait(),
    "validate": lambda: zvf.validate(any_(), level=any_()),
    "ingest": lambda: zvf.ingest(any_(), fresh(), workers=any_()),
    "native reader": lambda: rng.choice([ds._native.objects, ds._native.chunks, ds._native.groups, ds._native.object_ids])(any_(), any_()),
    "native writer": lambda: _zvf.create(fresh(), any_()).wait(),
    "compat open": lambda: zv.open(any_()),
    "compat select": lambda: old.select(**{rng.choice(["bbox", "near", "objects", "groups", "where", "cells", "limit", "attributes", "level"]): any_()}).read(),
    "compat read": lambda: read_points(at, **{rng.choice(["bbox", "object_ids", "group_ids", "chunks", "attribute_names", "attribute_filter", "level"]): any_()}),
    "compat write": lambda: write_points(fresh(), any_(), chunk_shape=rng.choice([(1.0,) * 3, any_()]), object_ids=any_(), vertex_attributes=any_()),
    "compat lines": lambda: write_polylines(fresh(), any_(), chunk_shape=(1.0,) * 3, groups=any_()),
    "compat graph": lambda: write_graph(fresh(), np.zeros((3, 3)), any_(), chunk_shape=(1.0,) * 3, object_ids=any_()),
    "compat mesh": lambda: write_mesh(fresh(), np.zeros((3, 3)), any_(), chunk_shape=any_()),
    "compat catalog": lambda: old.level(0).objects[any_()],
    "schema": lambda: zv.Schema(**{rng.choice(["ndim", "bounds", "axes", "kind"]): any_()}).layout.resolve(zv.Schema(bounds=any_())),
    "grid": lambda: zv.Grid.plan(any_(), cell_size=any_()),
}
calls = 0
SECONDS = 3 * float(os.environ.get("ZVF_RANDOM_SECONDS", "1"))
for name, entry in entries.items():
    start = time.monotonic()
    for turn in range(1000):
        if turn >= 100 and time.monotonic() - start > SECONDS:
            break
        calls += 1
        try:
            entry()
        except MemoryError:
            pass  # an extent that no machine has
        except KeyboardInterrupt:
            raise
        except Exception as error:
            assert "report this" not in str(error), (name, error)
            assert type(error).__name__ != "PanicException", (name, error)
        if turn % 100 == 0 and scratch.exists():
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(exist_ok=True)
shutil.rmtree(scratch, ignore_errors=True)
print("survived", calls)
