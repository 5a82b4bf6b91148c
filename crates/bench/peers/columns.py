"""Points as columns, sorted by cells: Parquet and a table of DuckDB's own, asked by prepared statements, and Parquet
through polars. Coordinates come as arrays."""

import os
import sys

import duckdb
import numpy as np
import polars as pl

from serve import serve

folder = sys.argv[1]
path = os.path.join(folder, "points.parquet")
table = os.path.join(folder, "points.duckdb")

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

if not os.path.exists(table):
    made = duckdb.connect(table + ".new")
    made.execute(f"create table points as select * from '{path}'")
    made.close()
    os.rename(table + ".new", table)

con = duckdb.connect(table, read_only=True)
# The columns hold 32 bits, a bound 64: rows are compared with the bound, groups of rows with the nearest float32 of it.
near = " and ".join(f"{n} between ${i}::float and ${i + 3}::float" for i, n in enumerate("xyz", 1))
exact = " and ".join(f"{n}::double between ${i + 6} and ${i + 9}" for i, n in enumerate("xyz", 1))
for name, source in (("parquet", f"'{path}'"), ("own", "points")):
    con.execute(f"prepare box_{name} as select x, y, z from {source} where {near} and {exact}")
    con.execute(f"prepare bright_{name} as select x, y, z from {source} where intensity > $1::float")
    con.execute(f"prepare far_{name} as select x, y, z from {source} where x < $1::float and intensity > $2::float")


def run(statement, values):
    return len(con.execute(f"execute {statement}({', '.join(map(repr, values))})").fetchnumpy()["x"])


def boxes(ask):
    count = 0
    for low, high in ask["boxes"]:
        wider = [a - 1e-4 for a in low] + [b + 1e-4 for b in high]
        count += run(f"box_{ask['source']}", wider + low + high)
    return count


def scan(ask):
    source = "points" if ask["source"] == "own" else f"'{path}'"
    return len(con.execute(f"select * from {source}").fetchnumpy()["x"])


def bright(ask):
    return run(f"bright_{ask['source']}", [ask["above"]])


def far(ask):
    return run(f"far_{ask['source']}", [ask["below"], ask["above"]])


lazy = pl.scan_parquet(path)


def polars_points(rows):
    found = rows.select("x", "y", "z").collect()
    return len(found["x"].to_numpy()) and len(found)


def polars_boxes(ask):
    count = 0
    for low, high in ask["boxes"]:
        inside = [pl.col(n).cast(pl.Float64).is_between(a, b) for n, a, b in zip("xyz", low, high)]
        around = [pl.col(n).is_between(a - 1e-4, b + 1e-4) for n, a, b in zip("xyz", low, high)]
        count += polars_points(lazy.filter(*around, *inside))
    return count


def polars_scan(ask):
    found = lazy.collect()
    return len(found["x"].to_numpy()) and len(found)


def polars_bright(ask):
    return polars_points(lazy.filter(pl.col("intensity") > np.float32(ask["above"])))


def polars_far(ask):
    return polars_points(lazy.filter(pl.col("x") < np.float32(ask["below"]), pl.col("intensity") > np.float32(ask["above"])))


works = {"boxes": boxes, "scan": scan, "bright": bright, "far": far}
works |= {"polars_boxes": polars_boxes, "polars_scan": polars_scan, "polars_bright": polars_bright, "polars_far": polars_far}
serve(works)
