"""Writes two stores of the same points, for counting requests: one object a cell, and one a shard.

    grid_stores.py OUT

OUT/cells.zarrvectors and OUT/shard.zarrvectors have 6 x 6 x 6 chunks of side 10 with 8 points each, and
one attribute `a`.
"""

import json
import sys
from pathlib import Path

import numpy as np
from zarr_vectors.types.points import write_points

out = Path(sys.argv[1])
rng = np.random.default_rng(3)
corners = np.stack(np.meshgrid(*[np.arange(6) * 10.0] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
points = (corners + 0.5 + rng.random((216, 8, 3)) * 9).reshape(-1, 3).astype("float32")
columns = {"a": rng.random(len(points)).astype("float32")}
for name, kwargs in {"cells": {}, "shard": {"shard_shape": 8}}.items():
    store = str(out / f"{name}.zarrvectors")
    write_points(store, points, chunk_shape=(10.0,) * 3, vertex_attributes=columns, **kwargs)
(out / "positions.json").write_text(json.dumps(points.tolist()))
