"""Points of a box as a table of polars: the columns that are used are the ones that are read."""

import tempfile

import numpy as np
import polars as pl
import zvf

at = tempfile.mkdtemp() + "/cloud.zarrvectors"
xyz = np.random.default_rng(1).random((20_000, 3)) * 100
ds = zvf.points(at, xyz, attributes={"mass": xyz.sum(axis=1), "label": np.arange(20_000) % 5}, chunk=25.0)

table = pl.DataFrame(ds.select(box=([0, 0, 0], [50, 50, 50])).read())
print(table.group_by("label").agg(pl.len(), pl.col("mass").mean()).sort("label"))
assert table.height == (xyz <= 50).all(axis=1).sum()
