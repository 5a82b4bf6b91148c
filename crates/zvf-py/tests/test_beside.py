"""One process edits while this one reads in every way: each answer is that of one commit.

``ZVF_BESIDE_SECONDS`` says how long, and ``ZVF_SQL`` names a zvf-sql that reads beside the others.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
import zvf

SECONDS = float(os.environ.get("ZVF_BESIDE_SECONDS", "4"))
LINES, EACH = 12, 20

# Each commit moves every vertex into the next layer of chunks, and writes the number of the commit into every row.
WRITER = """
import sys, numpy as np, zvf
at, lines, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
turn = 0
while True:
    turn += 1
    with zvf.open(at).edit() as edit:
        for line in range(lines):
            rows = np.arange(each)
            place = np.stack([rows * 5.0, np.full(each, line * 10.0), np.full(each, turn % 8 * 25.0)], axis=1)
            edit.move(object=line, vertex=rows, to=place)
            edit.set("turn", object=line, vertex=rows, value=np.full(each, turn))
        edit.set("turns", object=np.arange(lines), value=np.full(lines, turn))
    print(turn, flush=True)
"""


def held(turns, third):
    """The one commit that all rows are of."""
    turns, third = np.asarray(turns).astype(int), np.asarray(third).astype(float)
    assert len(turns) == LINES * EACH and set(turns) == {turns[0]} and set(third) == {turns[0] % 8 * 25.0}
    return int(turns[0])


def of_frame(frame):
    return held(frame["turn"].to_numpy(), frame["position"].to_numpy()[:, 2])


def readers(at, old, server):
    """Ways to read the whole store, by name."""

    def read(ds):
        answer = ds.read()
        return held(answer["turn"], answer.positions[:, 2])

    def batches(ds):
        parts = list(ds.select().batches(64))
        return held(np.concatenate([p["turn"] for p in parts]), np.concatenate([p.positions[:, 2] for p in parts]))

    def counts(ds):
        assert ds.count() == LINES * EACH
        assert ds.count(where="turn >= 0") == LINES * EACH
        return 0

    def table(ds):
        turns = set(ds.object_table()["object.turns"].tolist())
        assert len(turns) == 1
        return int(turns.pop())

    def served():
        url = f"{server.url}api/{server_name}/query?format=csv&attributes=turn"
        with urllib.request.urlopen(url) as got:
            rows = list(csv.DictReader(io.StringIO(got.read().decode())))
        return held([r["turn"] for r in rows], [r["z"] for r in rows])

    def sql():
        done = subprocess.run([program, "--format", "csv", f"SELECT z, turn FROM '{at}'"], capture_output=True, text=True, check=True)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        return held([r["turn"] for r in rows], [r["z"] for r in rows])

    server_name = at.name.split(".")[0]
    ways = {"served": served}
    for way in (read, batches, counts, table):
        ways[f"{way.__name__}, old handle"] = lambda way=way: way(old)
        ways[f"{way.__name__}, new handle"] = lambda way=way: way(zvf.open(at))
    ways["polars, old handle"] = lambda: of_frame(old.scan_polars().collect())
    ways["polars, new handle"] = lambda: of_frame(zvf.open(at).scan_polars().collect())
    if program := os.environ.get("ZVF_SQL"):
        ways["sql"] = sql
    return ways


def test_every_answer_is_of_one_commit(tmp_path):
    at = tmp_path / "a.zarrvectors"
    rows = [np.stack([np.arange(EACH) * 5.0, np.full(EACH, i * 10.0), np.zeros(EACH)], axis=1) for i in range(LINES)]
    old = zvf.polylines(at, rows, attributes={"turn": np.zeros(LINES * EACH, int)}, object_attributes={"turns": np.zeros(LINES, int)}, chunk=25.0, bounds=([0, 0, 0], [100, 120, 200]))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(at), str(LINES), str(EACH)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    latest: dict[str, int] = {}
    asked = 0
    try:
        with zvf.serve(at) as server:
            ways = readers(at, old, server)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until or asked < 2 * len(ways):
                for name, way in ways.items():
                    seen = way()
                    assert seen >= latest.get(name, 0) or seen == 0, f"{name}: went back from {latest[name]} to {seen}"
                    latest[name] = seen
                    asked += 1
                assert writer.poll() is None, writer.stderr.read()
    finally:
        writer.kill()
        written = writer.communicate()[0].split()
    print(f"{len(written)} commits, {asked} answers")
    assert len(written) >= 3 and max(latest.values()) >= 2


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-s", *sys.argv[1:]]))
