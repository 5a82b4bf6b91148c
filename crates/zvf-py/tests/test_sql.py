"""``zvf.sql``: a stand-in says how the program is called, and the program that ``ZVF_SQL`` names answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zvf

# It says how it was called, that there is no such column, or nothing at all.
STAND_IN = f"""#!{sys.executable}
import json, sys, pyarrow as pa
words = sys.argv[1:]
if words[-1] == "SELECT wrong":
    sys.exit(print(json.dumps({{"type": "error", "class": "InvalidArgument", "exit_code": 2, "message": "InvalidArgument, no column wrong"}}), file=sys.stderr) or 2)
if "17" in words:
    sys.exit(print("zvf-sql: InvalidArgument, invalid value '17' for '--memory-limit <SIZE>': expected at least 16MiB", file=sys.stderr) or 2)
if words[-1] == "SELECT crash":
    sys.exit(print("out of luck", file=sys.stderr) or 101)
if words[-1].startswith("CREATE"):
    sys.exit(0)
table = pa.table({{"word": words}})
with pa.ipc.new_file(words[words.index("--output") + 1], table.schema) as file:
    file.write(table)
"""


@pytest.fixture
def cloud(tmp_path):
    columns = {"n": np.arange(4), "word": np.array(["a", None, "é", "a"], object), "mass": [0.5, np.nan, 2, 3]}
    return zvf.points(tmp_path / "cloud.zarrvectors", np.eye(4, 3), attributes=columns)


def test_the_program_is_called_with_what_was_given(tmp_path, monkeypatch, cloud):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(zvf.errors.NotFoundError, match="zvf-sql is not on PATH") as missing:
        zvf.sql("SELECT 1")
    assert "cargo install --path crates/zvf-sql" in missing.value.hint
    (tmp_path / "zvf-sql").write_text(STAND_IN)
    (tmp_path / "zvf-sql").chmod(0o755)
    words = zvf.sql("SELECT n FROM c", {"c": cloud}, memory="1GB", storage_options={"region": "x"})["word"].to_pylist()
    assert f"c={cloud.address}" in words and words[-2:] == ["--", "SELECT n FROM c"]
    assert words[words.index("--memory-limit") + 1] == "1000000000" and "region=x" in words
    with pytest.raises(ValueError, match="no column wrong"):
        zvf.sql("SELECT wrong")
    with pytest.raises(zvf.errors.BackendError, match="ended with 101: out of luck"):
        zvf.sql("SELECT crash")
    with pytest.raises(ValueError, match="statement: expected one with an answer, such as SELECT, found 'CREATE VIEW v"):
        zvf.sql("CREATE VIEW v AS SELECT 1")
    for statement, words, error, message in [
        (5, {}, TypeError, "statement: expected text, found 5"),
        ("SELECT 1", {"tables": [cloud]}, TypeError, "tables: expected a mapping"),
        ("SELECT 1", {"tables": {"a=b": cloud}}, ValueError, "tables: expected names without an equals sign, found 'a=b'"),
        ("SELECT 1", {"tables": {"c": zvf.open(cloud, commit=0)}}, ValueError, "stays at commit 0: zvf.checkout"),
        ("SELECT 1", {"memory": "many"}, ValueError, "memory: expected a number of bytes"),
        ("SELECT 1", {"memory": 17}, ValueError, "^invalid value '17' for 'memory_limit': expected at least 16MiB"),
    ]:
        with pytest.raises(error, match=message):
            zvf.sql(statement, **words)


@pytest.fixture
def program(tmp_path, monkeypatch):
    if not (found := os.environ.get("ZVF_SQL")):
        pytest.skip("ZVF_SQL names no zvf-sql")
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "zvf-sql").symlink_to(Path(found).absolute())
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_program_answers(tmp_path, cloud, program):
    answer = zvf.sql("SELECT n, word, mass FROM c ORDER BY n", {"c": cloud}, memory="64MiB")
    assert answer["n"].to_pylist() == [0, 1, 2, 3] and answer["word"].to_pylist() == ["a", None, "é", "a"]
    assert np.isnan(answer["mass"][1].as_py()) and answer.to_pandas()["word"].notna().sum() == 3
    names = pa.table({"word": ["a", "é", "z"], "name": ["first", "second", None]})
    pa.parquet.write_table(names, tmp_path / "names.parquet")
    tables = {"c": cloud, "names": tmp_path / "names.parquet"}
    joined = zvf.sql("SELECT name, count(*) AS c FROM c JOIN names USING (word) GROUP BY name ORDER BY name", tables)
    assert joined.to_pydict() == {"name": ["first", "second"], "c": [2, 1]}
    assert zvf.sql(f"SELECT max(n) AS n FROM '{cloud.address}'").to_pydict() == {"n": [3]}
    empty = zvf.sql("SELECT n, word FROM c WHERE n > 100", tables)
    assert empty.num_rows == 0 and empty.column_names == ["n", "word"]
    assert zvf.sql("CREATE VIEW v AS SELECT 1 AS a; SELECT a FROM v").to_pydict() == {"a": [1]}
    assert zvf.sql("SELECT vertices FROM c.levels", tables)["vertices"].to_pylist() == [4]


def test_the_program_refuses(cloud, program):
    for statement, words, error, message in [
        ("SELECT nothing FROM c", {}, ValueError, "nothing"),
        ("SELEC 1", {}, ValueError, "SELEC"),
        ("", {}, ValueError, "found none"),
        ("-", {}, ValueError, ""),
        ("SELECT 1; SELECT 2", {}, ValueError, "2 statements have answers"),
        ("CREATE VIEW v AS SELECT 1", {}, ValueError, "one with an answer"),
        ("SELECT * FROM 'absent.zarrvectors'", {}, FileNotFoundError, "absent"),
        ("SELECT 1", {"memory": 5}, ValueError, "at least 16MiB"),
    ]:
        with pytest.raises(error, match=message):
            zvf.sql(statement, {"c": cloud}, **words)
