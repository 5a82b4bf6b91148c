"""The 22 queries of TPC-H on Parquet files and a store: on one process, on clusters, and in DuckDB.

usage: compare_tpch.py FOLDER SCALE ZVF_SQL [SCHEDULER ...]

FOLDER keeps the tables. They are made by the extension tpch of DuckDB (packages duckdb, duckdb-extension-tpch).
"""

import sys
import time
from pathlib import Path

import duckdb
import duckdb_extension_tpch

from compare_with_duckdb import alike, ask

# The store: keys as positions, days as numbers, money as binary numbers, text as it is.
ORDERS = """COPY (SELECT CAST(o_orderkey AS DOUBLE) AS x, CAST(o_custkey AS DOUBLE) AS y, o_orderstatus,
 CAST(o_totalprice AS DOUBLE) AS o_totalprice, CAST(o_orderdate AS INT) AS o_orderdate, o_orderpriority, o_clerk,
 o_shippriority, o_comment FROM '{file}') TO '{store}' OPTIONS ('positions' 'x,y', 'chunk_shape' '{side},{side}')"""
VIEW = """CREATE VIEW orders AS SELECT CAST(x AS BIGINT) AS o_orderkey, CAST(y AS BIGINT) AS o_custkey, o_orderstatus,
 CAST(o_totalprice AS DECIMAL(15, 2)) AS o_totalprice, CAST(o_orderdate AS DATE) AS o_orderdate, o_orderpriority, o_clerk,
 o_shippriority, o_comment FROM '{store}'"""


def make_tables(folder, scale, program):
    """Makes the tables where they are not there, and returns the statements that name them, and the queries."""
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    root = Path(duckdb_extension_tpch.__file__).parent
    database.load_extension(str(next(root.rglob("*.duckdb_extension"))))
    database.execute(f"CALL dbgen(sf={scale})")
    named, store = [], folder / "orders.zarrvectors"
    for (table,) in database.execute("SHOW TABLES").fetchall():
        file = folder / f"{table}.parquet"
        if not file.exists():
            database.execute(f"COPY {table} TO '{file}'")
        if table == "orders":
            if not store.exists():
                ask(program, ORDERS.format(file=file, store=store, side=float(scale) * 1_500_000))
            named.append(VIEW.format(store=store))
        else:
            named.append(f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{file}'")
    return database, named


def close(ours, theirs):
    """Whether two values are the same; averages of decimals are cut to six places."""
    return alike(ours, theirs) or (isinstance(theirs, float) and abs(float(ours) - theirs) <= 1e-6)


def main(folder, scale, program, *schedulers):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    database, named = make_tables(folder, scale, program)
    failures, took = 0, {}
    for number, query in database.execute("SELECT query_nr, query FROM tpch_queries()").fetchall():
        query = query.strip().rstrip(";")
        theirs = database.execute(query).fetchall()
        first = None
        for place in [None, *schedulers]:
            begun = time.monotonic()
            where = [] if place is None else ["--cluster", place]
            ours = ask(program, ";".join([*named, query]), "--limit", "0", *where)
            took[place] = took.get(place, 0) + time.monotonic() - begun
            first = ours if first is None else first
            same = ours == first and len(ours) == len(theirs)
            same = same and all(close(a, b) for mine, other in zip(ours, theirs) for a, b in zip(mine, other))
            if not same:
                failures += 1
                print(f"query {number}, {place or 'one process'}: {ours[:3]}, in one process {first[:3]}, {theirs[:3]}")
    for place, seconds in took.items():
        print(f"{place or 'one process'}: {seconds:.1f} s")
    print(f"22 queries, {1 + len(schedulers)} times: {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
