"""Arguments are known: to mypy, to who completes names, and they are those of the command."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import zvf
from zvf import _keywords
from zvf._words import WORDS

COMMANDS = Path(__file__).parents[3] / "testdata/surface/commands.txt"

RIGHT = """import numpy as np
import zvf

ds = zvf.points("a.zarrvectors", np.eye(3), attributes={"mass": [1, 2, 3]}, chunk=10.0, strict=True)
ds.select(box=([0, 0, 0], [1, 1, 1]), where="mass > 1").read().to_pandas()
ds.level(0).count(limit=3)
ds.build_pyramid(levels=2, ratio=8)
zvf.convert(ds, "a.csv", where="mass > 1", overwrite=True)
zvf.shard(ds, "b.zarrvectors", cells=8, codec="zstd:9")
zvf.pack(ds, "a.tet", overwrite=True)
"""


def test_mypy_finds_a_misspelt_argument(tmp_path):
    lines = RIGHT.replace("chunk=10.0", "chnk=10.0").replace("limit=3", "limt=3").replace("]), where=", "]), wher=").replace("ratio=8", "ratios=8").replace("overwrite=True", "overwrit=True").replace("codec=", "codek=")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(lines + 'ds.count(limit="3")\n')
    said = {}
    for name in ("right", "wrong"):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", f"{name}.py"], cwd=tmp_path, capture_output=True, text=True)
        said[name] = re.findall(r"^\w+\.py:(\d+): error", done.stdout, re.M)
    assert said["right"] == [] and sorted(set(said["wrong"])) == ["10", "11", "4", "5", "6", "7", "8", "9"]


def test_a_signature_has_every_argument():
    for call in (zvf.Dataset.select, zvf.Dataset.read, zvf.Level.count, zvf.Query.select):
        assert set(WORDS) <= set(inspect.signature(call).parameters)
    assert set(WORDS) == set(_keywords.QueryWords.__annotations__)
    created = set(inspect.signature(zvf.create).parameters) - {"at", "kind", "ndim"}
    assert created == set(_keywords.StoreWords.__annotations__)
    for call in (zvf.points, zvf.polylines, zvf.lines, zvf.graph, zvf.mesh, zvf.write):
        assert created <= set(inspect.signature(call).parameters)
    lines = COMMANDS.read_text().splitlines()
    for command, words in (
        ("create", _keywords.FileWords), ("convert", _keywords.ConvertWords), ("pyramid", _keywords.PyramidWords),
        ("validate", _keywords.ValidateWords), ("rewrite", _keywords.RewriteWords), ("pack", _keywords.PackWords), ("unpack", _keywords.UnpackWords),
    ):
        options = {name.replace("-", "_") for line in lines if line.startswith(f"zvf {command} --") for name in re.findall(r"--([a-z-]+)", line)}
        assert options - set(words.__annotations__) <= {"overwrite", "levels", "in_place", "dry_run", "depth", "limit"}
        assert set(words.__annotations__) - {"box"} <= options
