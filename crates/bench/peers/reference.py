"""The Python reference as a contender: makes the data, then does one piece of work per line asked.

    python reference.py make DIR SCALE      write the stores the workloads use
    python reference.py serve DIR           read one JSON request a line, answer one JSON line

A request is {"work": NAME, "store": ID, ...}; the answer is {"seconds": s, "count": n} or {"error": text}.
Handles are opened once and kept, as a service would keep them; what the library itself caches it may use.
"""

import json
import os
import sys
import time

import numpy as np


ENOUGH = 0.02  # seconds; shorter work is repeated, as on the other side


def rng():
    return np.random.default_rng(20260101)


def cube(g, n, side=100.0):
    return (g.random((n, 3)) * side).astype(np.float32)


def chains(g, count, length, side=100.0, step=0.6):
    """Smooth random walks that stay inside the cube."""
    out = []
    for _ in range(count):
        heading = g.normal(size=3)
        turns = g.normal(scale=0.25, size=(length, 3)).cumsum(axis=0) + heading
        turns /= np.linalg.norm(turns, axis=1, keepdims=True)
        walk = g.random(3) * side + (turns * step).cumsum(axis=0)
        walk = np.abs(walk)
        walk = side - np.abs(side - walk)
        out.append(np.clip(walk, 0.0, side).astype(np.float32))
    return out


def sheet(n_side, side=100.0):
    """A wavy square of triangles."""
    u = np.linspace(0.0, side, n_side)
    x, y = np.meshgrid(u, u, indexing="ij")
    z = side / 2 + side / 4 * np.sin(x / 7.0) * np.cos(y / 9.0)
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3).astype(np.float32)
    i = np.arange(n_side - 1)[:, None] * n_side + np.arange(n_side - 1)[None, :]
    i = i.reshape(-1)
    faces = np.concatenate([np.stack([i, i + n_side, i + 1], 1), np.stack([i + 1, i + n_side, i + n_side + 1], 1)])
    return vertices, faces.astype(np.int64)


def make(folder, scale):
    from zarr_vectors.types.graphs import write_graph
    from zarr_vectors.types.meshes import write_mesh
    from zarr_vectors.types.points import write_points
    from zarr_vectors.types.polylines import write_polylines

    os.makedirs(folder, exist_ok=True)
    bounds = ([0.0, 0.0, 0.0], [100.0, 100.0, 100.0])
    cell = (12.5, 12.5, 12.5)

    def path(name):
        return os.path.join(folder, name + ".zarrvectors")

    def absent(name):
        return not os.path.exists(path(name))

    g = rng()
    if absent("points"):
        n = int(1_000_000 * scale)
        write_points(path("points"), cube(g, n), chunk_shape=cell, bounds=bounds)
    if absent("attributes"):
        n = int(2_000_000 * scale)
        values = {"intensity": g.random(n).astype(np.float32), "label": g.integers(0, 50, n).astype(np.int32)}
        write_points(path("attributes"), cube(g, n), chunk_shape=cell, bounds=bounds, vertex_attributes=values)
    if absent("objects"):
        n = int(1_000_000 * scale)
        many = max(10, int(10_000 * scale))
        centres = cube(g, many)
        ids = g.integers(0, many, n)
        near = centres[ids] + g.normal(scale=2.0, size=(n, 3))
        near = np.clip(near, 0.0, 99.99).astype(np.float32)
        write_points(path("objects"), near, chunk_shape=cell, bounds=bounds, object_ids=ids)
    if absent("streamlines"):
        lines = chains(g, max(10, int(20_000 * scale)), 100)
        write_polylines(path("streamlines"), lines, chunk_shape=cell, bounds=bounds)
    if absent("mesh"):
        vertices, faces = sheet(max(10, int((250_000 * scale) ** 0.5)))
        write_mesh(path("mesh"), vertices, faces, chunk_shape=cell, bounds=bounds)
    if absent("graph"):
        n = int(100_000 * scale)
        nodes = cube(g, n)
        order = np.lexsort((nodes[:, 2] // 4, nodes[:, 1] // 4, nodes[:, 0] // 4))
        edges = np.stack([order[:-1], order[1:]], axis=1)
        more = np.stack([order[:-3], order[3:]], axis=1)
        write_graph(path("graph"), nodes, np.concatenate([edges, more]), chunk_shape=cell, bounds=bounds)


class Peer:
    def __init__(self, folder):
        self.folder = folder
        self.handles = {}

    def path(self, ask):
        return ask.get("path") or os.path.join(self.folder, ask["store"] + ".zarrvectors")

    def level(self, ask):
        import zarr_vectors as zv

        path = self.path(ask)
        options = {}
        if path.startswith("http:"):
            allowed = {"client_options": {"allow_http": True}}
            options = {"storage": zv.StorageOptions(backend="obstore", options=allowed)}
        if ask.get("fresh"):
            return zv.open(path, **options).level(0)
        if path not in self.handles:
            self.handles[path] = zv.open(path, **options)
        return self.handles[path].level(0)

    def ready(self, ask):
        """Loads what all work needs, so that no work has to."""
        import zarr_vectors
        import zarr_vectors.validate

        return zarr_vectors is None

    def open(self, ask):
        """A handle that knows its level and where its chunks are."""
        self.level({**ask, "fresh": True})
        return None

    def boxes(self, ask):
        level = self.level(ask)
        count = 0
        for low, high in ask["boxes"]:
            count += len(level.select(bbox=(low, high)).read().positions)
        return count

    def objects(self, ask):
        return len(self.level(ask).select(objects=ask["ids"]).read().positions)

    def scan(self, ask):
        names = ask.get("attributes") or []
        return len(self.level(ask).select(attributes=names).read().positions)

    def validate(self, ask):
        from zarr_vectors.validate import validate

        result = validate(self.path(ask), level=ask["level"])
        return int(result.ok)

    def once(self, ask):
        work = getattr(self, ask["work"])
        began = time.perf_counter()
        times = 0
        enough = 0 if ask.get("once") else ENOUGH
        while times == 0 or time.perf_counter() - began < enough:
            count = work(ask)
            times += 1
        count = count if count is None else int(count)
        return {"seconds": (time.perf_counter() - began) / times, "count": count, "times": times}


def serve(folder):
    peer = Peer(folder)
    for line in sys.stdin:
        try:
            answer = peer.once(json.loads(line))
        except Exception as error:  # the asking side decides what an error means
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], float(sys.argv[3]))
    else:
        serve(sys.argv[2])
