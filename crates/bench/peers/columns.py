"""Points in Parquet, sorted by cells, asked through DuckDB; coordinates come as arrays."""

import os
import sys

import duckdb
import numpy as np

from serve import serve

folder = sys.argv[1]
path = os.path.join(folder, "points.parquet")
con = duckdb.connect()

if not os.path.exists(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    at = np.fromfile(os.path.join(folder, "positions.f32"), "<f4").reshape(-1, 3)
    value = np.fromfile(os.path.join(folder, "intensity.f32"), "<f4")
    cell = np.floor(at / 12.5).astype(np.int64)
    order = np.lexsort((cell[:, 2], cell[:, 1], cell[:, 0]))
    columns = {name: at[order, axis] for axis, name in enumerate("xyz")}
    pq.write_table(pa.table({**columns, "intensity": value[order]}), path + ".new", row_group_size=16384)
    os.rename(path + ".new", path)


def boxes(ask):
    count = 0
    for low, high in ask["boxes"]:
        # The file holds 32 bits; a bound of 64 compares as such.
        where = " and ".join(f"{n}::double between {a!r} and {b!r}" for n, a, b in zip("xyz", low, high))
        near = " and ".join(f"{n} between {a - 1e-4!r} and {b + 1e-4!r}" for n, a, b in zip("xyz", low, high))
        found = con.execute(f"select x, y, z from '{path}' where {near} and {where}").fetchnumpy()
        count += len(found["x"])
    return count


def scan(ask):
    return len(con.execute(f"select * from '{path}'").fetchnumpy()["x"])


serve({"boxes": boxes, "scan": scan})
