"""Statements on tables of stores, compared with DuckDB on the Parquet files that zvf-sql writes of them.

usage: compare_with_duckdb.py ZVF_SQL STORE...
"""

import csv
import io
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

TABLES = ["vertices", "objects", "groups", "members", "links", "levels"]

# What a store may lack, and what is said of it then; tables of other names may be empty, and are always there.
LACKS = {
    "objects": re.compile(r"the table objects of level 0: expected a level with objects, found"),
    "links": re.compile(r"the table links of level 0: expected a level with links, found"),
}


def ask(program, statement, *more):
    """The rows of a statement, as text."""
    done = subprocess.run([program, statement, "--format", "csv", *more], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return list(csv.reader(io.StringIO(done.stdout)))[1:]


def alike(ours, theirs):
    """Whether two values are the same, sums apart from their order."""
    if ours == "" or theirs is None:
        return ours == "" and theirs is None
    try:
        a, b = float(ours), float(theirs)
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return ours == str(theirs)


def statements(schema):
    """Three for each table: a count, a grouping, and conditions with a join of the table with itself."""
    numbers = [name for name, kind in schema if kind in NUMBERS]
    first = f'"{numbers[0]}"'
    last = f'"{numbers[-1]}"'
    yield "SELECT count(*), " + ", ".join(f'sum(CAST("{name}" AS DOUBLE))' for name in numbers) + " FROM {t}"
    yield f"SELECT {last}, count(*) FROM {{t}} GROUP BY {last} ORDER BY {last} NULLS LAST LIMIT 20"
    yield (
        f"SELECT count(*), min({last}), max({last}) FROM {{t}} WHERE {first} >= "
        f"(SELECT avg({first}) FROM {{t}}) AND {last} IS NOT NULL"
    )


NUMBERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE",
}


def main(program, stores):
    passed, failed, lacking = 0, 0, 0
    for store in stores:
        for table in TABLES:
            source = f"zvf('{store}', '{table}')"
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "table.parquet"
                done = subprocess.run(
                    [program, f"SELECT * FROM {source}", "-o", str(file)], capture_output=True, text=True
                )
                lack = LACKS.get(table)
                if done.returncode == 2 and lack and lack.search(done.stderr):
                    lacking += 1
                    print(f"{Path(store).name} has no {table}: {done.stderr.strip()}")
                    continue
                if done.returncode != 0:
                    failed += 1
                    print(f"{store}, {table}: {done.stderr.strip()}")
                    continue
                schema = duckdb.sql(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
                for statement in statements([(name, str(kind)) for name, kind, *_ in schema]):
                    ours = ask(program, statement.replace("{t}", source))
                    theirs = duckdb.sql(statement.replace("{t}", f"'{file}'")).fetchall()
                    same = len(ours) == len(theirs) and all(
                        len(a) == len(b) and all(map(alike, a, b)) for a, b in zip(ours, theirs)
                    )
                    passed += same
                    failed += not same
                    if not same:
                        print(f"{store}, {table}: {statement}\n  SQL    {ours[:5]}\n  DuckDB {theirs[:5]}")
    print(f"DuckDB: {passed} passed, {failed} failed, {lacking} tables that stores do not have")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
