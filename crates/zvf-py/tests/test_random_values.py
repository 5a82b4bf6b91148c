"""No value from Python crashes the interpreter: each entry point gets a thousand random ones, in a child process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = '''
import random, sys, tempfile
import numpy as np
import zvf
from zvf import _zvf

rng = random.Random(int(sys.argv[1]))
at = tempfile.mkdtemp() + "/a.zarrvectors"
ds = zvf.points(at, np.random.default_rng(0).random((50, 3)), attributes={"m": np.arange(50.0)}, chunk=0.5)
lines = zvf.polylines(tempfile.mkdtemp() + "/b", [np.random.default_rng(i).random((5, 3)) for i in range(5)])
values = [
    None, True, 0, 1, -1, 2**31, 2**63, 2**64, -2**70, 0.0, -1.5, float("nan"), float("inf"), "", "a", "m", "\\0", "\\ud800",
    "m > 1", "m >", "x" * 5000, b"", b"\\xff", [], [1], [1, 2, 3], [-1], ["m"], [None], (), (1, 2), ([0, 0, 0], [1, 1, 1]),
    ([0], [1]), ([float("nan")] * 3, [1] * 3), ([1, 1, 1], [0, 0, 0]), {}, {"a": 1}, {1: 2}, set(), object(), int, len,
    np.zeros(0), np.zeros((0, 3)), np.zeros((2, 3)), np.full((2, 3), np.nan), np.zeros((2, 3), dtype=object),
    np.array(5), np.zeros((2, 2, 2)), np.arange(3, dtype=">i8"), np.array(["a"]), np.zeros(3, dtype="M8[s]"), complex(1, 2),
    np.float16(1), np.int8(-1), range(3), slice(1, 2), Ellipsis, NotImplemented, ds, lines,
]
words = ["box", "half_open_box", "ball", "half_spaces", "prism", "mode", "objects", "groups", "where", "attributes", "order",
         "limit", "level", "kind", "unknown_objects", "allow_missing", "object_ids", "increment_only", "places"]
any_ = lambda: rng.choice(values)

def fresh():
    return tempfile.mkdtemp() + "/n"

entries = {
    "select": lambda: rng.choice([ds, lines]).select(**{rng.choice(words): any_() for _ in range(rng.randint(1, 3))}).read(),
    "count": lambda: ds.count(**{rng.choice(words): any_()}),
    "plan": lambda: lines.select(**{rng.choice(words): any_()}).plan(),
    "native query": lambda: _zvf.Query({rng.choice(words): any_()}),
    "level": lambda: ds.level(any_()).read(),
    "column": lambda: ds.read()[any_()],
    "open": lambda: zvf.open(any_(), storage_options=rng.choice([None, {"a": "b"}, any_()])),
    "points": lambda: zvf.points(fresh(), any_(), attributes=any_(), object_ids=any_(), chunk=any_()),
    "polylines": lambda: zvf.polylines(fresh(), any_(), attributes=any_()),
    "graph": lambda: zvf.graph(fresh(), np.zeros((3, 3)), any_(), tree=rng.random() < 0.5, object_ids=any_()),
    "mesh": lambda: zvf.mesh(fresh(), np.zeros((3, 3)), any_(), attributes=any_()),
    "write": lambda: zvf.write(fresh(), any_()),
    "create": lambda: zvf.create(fresh(), kind=rng.choice(["mesh", any_()]), ndim=any_(), chunk=any_(), codec=any_(), bounds=any_()),
    "push": lambda: zvf.create(fresh(), chunk=1.0).push(any_(), offsets=any_(), part_ids=any_(), edges=any_()),
    "tensor": lambda: zvf.open_tensor(any_()),
    "render": lambda: ds.render(any_(), any_(), colour=any_()),
    "native reader": lambda: rng.choice([ds._native.objects, ds._native.chunks, ds._native.groups, ds._native.object_ids])(any_(), any_()),
}
calls = 0
for name, entry in entries.items():
    times = 1000 if name in ("select", "count", "plan", "native query", "level", "column", "native reader") else 150
    for _ in range(times):
        calls += 1
        try:
            entry()
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            assert "report this" not in str(error), (name, error)
            assert type(error).__name__ != "PanicException", (name, error)
print("survived", calls)
'''


def test_no_value_crashes_the_interpreter():
    done = subprocess.run([sys.executable, "-c", PROGRAM, "17"], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("survived")
