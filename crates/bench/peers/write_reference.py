"""The Python reference as a writer: reads the inputs once, then writes a store for each line asked.

    python write_reference.py INPUTS

A request is {"work": NAME, "to": PATH}; the answer is {"seconds": s} or {"error": text}. The clock runs
while the store is written; reading the inputs, and preparing lists that its interface wants, do not count.
"""

import json
import os
import sys
import time
import warnings

import numpy as np
from zarr_vectors.types.graphs import write_graph
from zarr_vectors.types.meshes import write_mesh
from zarr_vectors.types.points import write_points
from zarr_vectors.types.polylines import write_polylines

warnings.simplefilter("ignore")
LAYOUT = {"chunk_shape": (12.5, 12.5, 12.5), "bounds": ([0.0, 0.0, 0.0], [100.0, 100.0, 100.0])}


def load(folder, name, dtype, width):
    values = np.fromfile(os.path.join(folder, name), dtype=dtype)
    return values.reshape(-1, width) if width > 1 else values


class Inputs:
    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def of(self, work):
        if work not in self.known:
            self.known[work] = getattr(self, work)()
        return self.known[work]

    def points(self):
        positions = load(self.folder, "points.f32", "<f4", 3)
        values = {"a": load(self.folder, "points_a", "<f4", 1), "n": load(self.folder, "points_n", "<i4", 1)}
        return lambda to: write_points(to, positions, vertex_attributes=values, **LAYOUT)

    def objects(self):
        positions = load(self.folder, "objects.f32", "<f4", 3)
        ids = load(self.folder, "objects_id.i64", "<i8", 1)
        return lambda to: write_points(to, positions, object_ids=ids, **LAYOUT)

    def streamlines(self):
        positions = load(self.folder, "streamlines.f32", "<f4", 3)
        paths = list(positions.reshape(-1, 100, 3))
        return lambda to: write_polylines(to, paths, geometry_type="streamline", **LAYOUT)

    def mesh(self):
        corners = load(self.folder, "mesh.f32", "<f4", 3)
        faces = load(self.folder, "mesh_rows.i64", "<i8", 3)
        return lambda to: write_mesh(to, corners, faces, **LAYOUT)

    def graph(self):
        nodes = load(self.folder, "graph.f32", "<f4", 3)
        edges = load(self.folder, "graph_rows.i64", "<i8", 2)
        return lambda to: write_graph(to, nodes, edges, **LAYOUT)


def main():
    inputs = Inputs(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            write = inputs.of(request["work"])
            start = time.perf_counter()
            write(request["to"])
            answer = {"seconds": time.perf_counter() - start}
        except Exception as error:  # the asking side decides what an error means
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
