"""Writes random stores of every kind with the reference library, and beside each what it was given.

    write_stores.py OUT SEED COUNT

OUT/<id>/store.zarrvectors is the store. OUT/stores.json lists them, each with its positions, parts (offsets),
ends (rows of edges or faces), objects, columns and groups. The same seed gives the same stores.
"""

import json
import sys
import warnings
from pathlib import Path
from unittest import mock

import DracoPy
import numpy as np
from zarr_vectors.encoding import draco as encoders
from zarr_vectors.multiresolution.coarsen import build_pyramid
from zarr_vectors.types.graphs import write_graph
from zarr_vectors.types.lines import write_lines
from zarr_vectors.types.meshes import write_mesh
from zarr_vectors.types.points import write_points
from zarr_vectors.types.polylines import write_polylines

KINDS = ["points", "point_objects", "by_attribute", "line", "polyline", "streamline", "graph", "skeleton", "mesh", "draco"]
STORAGE = [
    {},
    {"compressor": "zstd"},
    {"compressor": "blosc"},
    {"shard_shape": 2},
    {"shard_shape": 4, "compressor": "zstd"},
]


class Case:
    """One store in the making: where it goes, and how space is divided."""

    def __init__(self, rng, out, kind, turn):
        self.rng, self.kind = rng, kind
        self.folder = out / f"{turn:03}_{kind}"
        self.folder.mkdir(parents=True)
        self.store = str(self.folder / "store.zarrvectors")
        self.axes = int(rng.choice([2, 3])) if kind not in ("mesh", "draco") else 3
        self.low = rng.choice([0.0, -150.0, 1000.0])
        self.side = float(rng.choice([120.0, 300.0]))
        self.chunk = float(rng.choice([40.0, 64.0]))
        self.dtype = str(rng.choice(["float32", "float64"]))
        self.about = {"id": self.folder.name, "kind": kind, "axes": self.axes, "columns": {}}
        self.kwargs = dict(STORAGE[turn // len(KINDS) % len(STORAGE)])
        self.kwargs |= {"chunk_shape": (self.chunk,) * self.axes, "dtype": self.dtype}
        if rng.random() < 0.5 and kind in ("points", "point_objects"):
            self.kwargs["bin_shape"] = (self.chunk / int(rng.choice([2, 4])),) * self.axes

    def scatter(self, count):
        """Points in the cube, as the store will hold them."""
        points = self.low + self.rng.random((count, self.axes)) * self.side
        return points.astype(self.dtype)

    def walks(self, count, longest):
        """Chains of short and long steps, all inside the cube."""
        chains = []
        for _ in range(count):
            steps = int(self.rng.integers(2, longest))
            stride = self.chunk * float(self.rng.choice([0.1, 0.5, 1.7]))
            path = np.cumsum(self.rng.normal(0, stride, (steps, self.axes)), axis=0)
            path += self.rng.random(self.axes) * self.side
            chains.append((self.low + np.mod(path, self.side)).astype(self.dtype))
        return chains

    def column(self, name, rows, whole=False):
        """A column of that many values, kept for the comparison."""
        values = self.rng.integers(0, 5, rows) if whole else self.rng.random(rows)
        values = values.astype("int32" if whole else "float32")
        self.about["columns"][name] = values.tolist()
        return values

    def group(self, objects):
        """Some groups of objects, one of them empty, for the writer and for the comparison."""
        members = [sorted(self.rng.choice(objects, size, replace=False).tolist()) for size in (1, 7, objects // 2)]
        self.about["groups"] = [*members, []]
        self.kwargs["groups"] = dict(enumerate(self.about["groups"]))

    def keep(self, name, array):
        self.about[name] = array.tolist()

    def keep_parts(self, chains):
        self.keep("parts", np.cumsum([0] + [len(chain) for chain in chains]))


def points(case):
    positions = case.scatter(int(case.rng.integers(200, 1200)))
    columns = {"a": case.column("a", len(positions)), "n": case.column("n", len(positions), whole=True)}
    case.keep("positions", positions)
    if case.kind == "point_objects":
        owners = case.rng.integers(0, 30, len(positions)).astype("int64")
        case.keep("objects", owners)
        case.kwargs["object_ids"] = owners
        case.group(30)
    if case.kind == "by_attribute":
        case.kwargs["chunk_by_attribute"] = "n"
    write_points(case.store, positions, vertex_attributes=columns, **case.kwargs)


def lines(case):
    ends = np.stack([np.stack(walk[:2]) for walk in case.walks(int(case.rng.integers(50, 300)), 4)])
    case.keep("positions", ends.reshape(-1, case.axes))
    case.keep_parts(list(ends))
    write_lines(case.store, ends, **case.kwargs)


def chains(case):
    paths = case.walks(int(case.rng.integers(20, 80)), 40)
    case.keep("positions", np.concatenate(paths))
    case.keep_parts(paths)
    case.group(len(paths))
    values = case.column("a", sum(map(len, paths)))
    split = np.split(values, np.cumsum([len(path) for path in paths])[:-1])
    write_polylines(case.store, paths, geometry_type=case.kind, vertex_attributes={"a": split}, **case.kwargs)


def graph(case):
    count = int(case.rng.integers(60, 300))
    nodes = case.scatter(count)
    if case.kind == "skeleton":
        ends = np.array([[child, int(case.rng.integers(0, child))] for child in range(1, count)])
    else:
        ends = case.rng.integers(0, count, (count * 2, 2))
        ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    case.keep("positions", nodes)
    case.keep("ends", ends)
    columns = {"a": case.column("a", count)}
    write_graph(case.store, nodes, ends, kind=case.kind, vertex_attributes=columns, **case.kwargs)


def mesh(case):
    side = int(case.rng.integers(6, 16))
    across, up = np.meshgrid(np.linspace(0.01, 0.99, side), np.linspace(0.01, 0.99, side), indexing="ij")
    height = 0.5 + 0.3 * np.sin(4 * across) * np.cos(3 * up)
    jitter = case.rng.normal(0, 0.003, (side * side, 3))
    unit = np.clip(np.stack([across, up, height], axis=-1).reshape(-1, 3) + jitter, 0.001, 0.999)
    corners = (case.low + unit * case.side).astype(case.dtype)
    at = np.arange(side * side).reshape(side, side)
    first = np.stack([at[:-1, :-1], at[1:, :-1], at[1:, 1:]], axis=-1).reshape(-1, 3)
    second = np.stack([at[:-1, :-1], at[1:, 1:], at[:-1, 1:]], axis=-1).reshape(-1, 3)
    faces = np.concatenate([first, second])
    case.keep("positions", corners)
    case.keep("ends", faces)
    write_mesh(case.store, corners, faces, **case.kwargs)


def draco(case):
    """A mesh as Draco streams: what they hold is rounded, and lacks the faces between chunks."""
    streams = []

    def keeping(encode):
        def keep(*words, **options):
            stream = encode(*words, **options)
            streams.append(DracoPy.decode(stream))
            return stream

        return mock.patch.object(encoders, encode.__name__, keep)

    with keeping(encoders.draco_encode_mesh), keeping(encoders.draco_encode_point_cloud):
        case.kwargs["encoding"] = "draco"
        mesh(case)
    starts = np.cumsum([0] + [len(stream.points) for stream in streams])
    case.keep("positions", np.concatenate([stream.points for stream in streams]))
    faces = [start + stream.faces for start, stream in zip(starts, streams) if hasattr(stream, "faces")]
    # There may be none: each chunk then is a cloud of points.
    case.keep("ends", np.concatenate([np.empty((0, 3)), *faces]).astype("int64"))


WRITERS = {
    "points": points,
    "point_objects": points,
    "by_attribute": points,
    "line": lines,
    "polyline": chains,
    "streamline": chains,
    "graph": graph,
    "skeleton": graph,
    "mesh": mesh,
    "draco": draco,
}


def main(out, seed, count):
    warnings.simplefilter("ignore")
    written = []
    for turn in range(count):
        kind = KINDS[turn % len(KINDS)]
        case = Case(np.random.default_rng([seed, turn]), out, kind, turn)
        WRITERS[kind](case)
        if kind in ("points", "streamline") and turn % 2:
            build_pyramid(case.store, factors=[(2.0, 1.0)], sparsity_seed=seed)
            case.about["pyramid"] = True
        written.append(case.about)
    (out / "stores.json").write_text(json.dumps(written))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
