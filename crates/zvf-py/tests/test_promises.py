"""What is promised of every name and no other file tests: documentation, signatures, imports, pickles, defaults, words of messages."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import zvf
import zvf.compat as zv
from zvf.compat.exceptions import ArrayError, FormatError, MetadataError
from zvf.compat.sharding import shard_store
from zvf.compat.types.graphs import write_graph
from zvf.compat.types.points import read_points, write_points

CHUNK = (100.0, 100.0, 100.0)
XYZ = np.random.default_rng(6).uniform(0, 300, (120, 3)).astype(np.float32)
CLASSES = [thing for name in zvf.__all__ if inspect.isclass(thing := getattr(zvf, name))] + [zvf.tools.Tasks, zvf.tools.Work]


@pytest.fixture
def cloud(tmp_path):
    return zvf.points(tmp_path / "cloud.zarrvectors", XYZ, attributes={"mass": np.arange(120.0)}, chunk=100.0)


@pytest.fixture
def old(tmp_path):
    write_points(tmp_path / "old", XYZ, chunk_shape=CHUNK, vertex_attributes={"m": np.arange(120)}, object_ids=np.arange(120) % 4)
    return zv.open(tmp_path / "old")


def test_everything_says_what_it_is():
    named = [(name, getattr(zvf, name)) for name in zvf.__all__ if name not in ("__version__", "FEATURES")]
    named += [(f"{cls.__name__}.{name}", member) for cls in CLASSES for name, member in vars(cls).items() if not name.startswith("_")]
    for name, thing in named:
        if callable(thing) or isinstance(thing, property):
            assert inspect.getdoc(thing), f"{name}: help() says nothing"
        if inspect.isfunction(thing):
            for word in inspect.signature(thing).parameters.values():
                assert word.annotation is not word.empty or word.name == "self", f"{name}: {word.name} has no type"


@pytest.mark.parametrize("module", ["zvf", "zvf.compat", "zvf.dask", "zvf.ray"])
def test_an_import_loads_numpy_alone(module):
    others = ("pyarrow", "polars", "pandas", "dask", "distributed", "ray", "zarr", "obstore", "fsspec", "tqdm", "trimesh", "networkx", "zarr_vectors")
    program = f"import sys, {module}; print([name for name in {others!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_handles_and_values_pickle(cloud, tmp_path):
    level = pickle.loads(pickle.dumps(cloud.level(0)))
    assert level.number == 0 and level.count(where="mass < 5") == asyncio.run(level.acount(where="mass < 5")) == 5
    tensor = zvf.save_tensor(tmp_path / "t.b2nd", np.arange(6).reshape(2, 3))
    assert pickle.loads(pickle.dumps(tensor))[1].tolist() == [3, 4, 5]
    for value in (cloud.info(), cloud.validate(), cloud.select(box=([0, 0, 0], [9, 9, 9])).plan(), zvf.max_error(2.0)):
        assert pickle.loads(pickle.dumps(value)) == value
    for plan in (cloud.select(), cloud.select(level=zvf.max_vertices(10**6), where="mass > 3")):
        assert pickle.loads(pickle.dumps(plan)).words == plan.words


def test_a_tensor_is_never_had_without_a_copy(tmp_path):
    tensor = zvf.save_tensor(tmp_path / "t.b2nd", np.arange(6.0))
    assert np.asarray(tensor).tolist() == np.array(tensor).tolist() == list(range(6))
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(copy=False)


def test_boxes_without_an_end_and_with_nan(cloud, old):
    inf, nan = np.inf, np.nan
    everything, middle = ([-inf] * 3, [inf] * 3), ([100.0, -inf, 100.0], [200.0, inf, inf])
    inside = ((XYZ >= middle[0]) & (XYZ <= middle[1])).all(axis=1)
    assert cloud.count(box=everything) == 120 and len(cloud.read(box=middle)) == inside.sum() > 0
    assert old.read(bbox=everything).vertex_count == 120 and old.select(bbox=middle).count() == inside.sum()
    assert old.select(bbox=everything).cells() == old.level(0).cells(everything) == old.level(0).cells()
    assert {ref.coords for ref in old.select(bbox=middle).cells()} >= {tuple(row) for row in (XYZ[inside] // 100).astype(int).tolist()}
    assert sum(part.vertex_count for _, part in old.select(bbox=middle).iter_cells()) == inside.sum()
    assert old.level(0).cells(([-1e12] * 3, [1e12] * 3)) == old.level(0).cells()
    with pytest.raises(ArrayError, match="3 coordinates"):
        old.level(0).cells(([0, 0], [1, 1]))
    for words in ({"bbox": ([nan, 0, 0], [1, 1, 1])}, {"bbox": ([0, 0, 0], [1, 1, nan])}, {"near": ([nan, 0, 0], 5.0)}, {"near": ([0, 0, 0], nan)}):
        query = old.select(**words)
        assert query.count() == query.read().vertex_count == len(query.cells()) == len(query.object_ids()) == 0 and query.read().ndim == 3
        assert query.plan().cells == () and list(query.iter_cells()) == []
    assert read_points(old.url, bbox=([nan] * 3, [nan] * 3))["vertex_count"] == 0
    with pytest.raises(ValueError, match="NaN"):
        cloud.read(box=([nan, 0, 0], [1, 1, 1]))
    grid = old.level(0).grid
    assert len(grid.cells_in(([nan] * 3, [1] * 3))) == 0
    with pytest.raises(ValueError, match="smaller box"):
        grid.cells_in(everything)


def test_messages_have_the_words_that_programs_look_for(old, tmp_path):
    two = {"chunk_by_attribute": "side", "vertex_attributes": {"side": ["a", "b", "a"]}, "object_ids": [0, 0, 1]}
    at, three = tmp_path / "new", np.eye(3)
    for error, said, call in (
        (ValueError, "unknown attribute family 'faces'", lambda: old.level(0).attribute_names("faces")),
        (ValueError, "cannot parse", lambda: zv.require_format(old, "nine")),
        (ValueError, "cannot parse", lambda: zv.require_api("~1")),
        (FormatError, "rewritten from source", lambda: zv.require_format(old, ">=99")),
        (PermissionError, "read-only", lambda: old.add_points(three)),
        (ValueError, "read-only", lambda: old.add_points(three)),
        (MetadataError, "out_of_bounds", lambda: write_points(at, three, chunk_shape=CHUNK, out_of_bounds="perhaps")),
        (MetadataError, "out_of_bounds", lambda: write_points(at, three * 9, chunk_shape=CHUNK, bounds=([0] * 3, [1] * 3))),
        (ArrayError, "positive integers", lambda: shard_store(old.url, 0)),
        (ArrayError, "rank", lambda: shard_store(old.url, (2, 2))),
        (ArrayError, "rank", lambda: write_points(at, three, chunk_shape=(1.0, 1.0))),
        (ArrayError, "per-object uniformity", lambda: write_graph(at, three, [[0, 1]], chunk_shape=CHUNK, **two)),
        (ArrayError, "categorical-only", lambda: write_points(at, three, chunk_shape=CHUNK, vertex_attributes={"f": [0.5] * 3}, chunk_by_attribute="f")),
        (ArrayError, "must name a key", lambda: write_points(at, three, chunk_shape=CHUNK, chunk_by_attribute="f")),
        (KeyError, "no attribute 'x'", lambda: old.read().attributes["x"]),
    ):
        with pytest.raises(error, match=said):
            call()
        assert not at.exists()
    with pytest.raises(KeyError):
        zv.stability("numpy")
    with pytest.raises(ImportError, match="does not provide: flight"):
        zv.require_api(features="flight")
    for level in (0, 6):
        with pytest.raises(ValueError):
            old.validate(level=level)
    nothing = importlib.import_module("zvf.compat.validate").validate(tmp_path / "none")
    assert not nothing.ok and all(isinstance(text, str) for text in nothing.errors) and "FAIL" in nothing.summary()


#: Defaults that are others here, with the reason.
OTHER_DEFAULTS = {
    "read_chunk_vertices(ndim)": "the axes are those of the store",
    "rebuild_presence(on_sharded)": "arrays in shards are rebuilt too, as of API 1.3",
}


def test_words_that_are_left_out_mean_the_same():
    """Every default of a call or of a value of the reference is ours."""
    modules = ("", "building", "lazy", "sharding", "rechunk", "composite", "core.store", "core.aio", "headers", "validate", "ops", "multiresolution.coarsen")
    types = tuple(f"types.{kind}" for kind in ("points", "lines", "polylines", "graphs", "meshes", "parametric"))
    differences, compared = set(), 0
    for module in (*modules, *types):
        theirs, ours = (importlib.import_module(f"{package}.{module}".rstrip(".")) for package in ("zarr_vectors", "zvf.compat"))
        for name, thing in vars(theirs).items():
            own = getattr(ours, name, None)
            if name.startswith("_") or own is None or not str(getattr(thing, "__module__", "")).startswith("zarr_vectors"):
                continue
            calls = [(name, thing, own)] if inspect.isfunction(thing) or dataclasses.is_dataclass(thing) else []
            if inspect.isclass(thing):
                members = [m for m, v in vars(thing).items() if inspect.isfunction(v) and not m.startswith("_")]
                calls += [(f"{name}.{m}", getattr(thing, m), getattr(own, m)) for m in members if callable(getattr(own, m, None))]
            for label, one, other in calls:
                words = inspect.signature(other).parameters
                for word in inspect.signature(one).parameters.values():
                    if word.name in words and word.default is not word.empty:
                        compared += 1
                        mine = words[word.name].default
                        stands_for_none = type(word.default) is type(mine) is object
                        if not stands_for_none and repr(word.default) != repr(mine).replace("zvf.compat", "zarr_vectors"):
                            differences.add(f"{label}({word.name})")
    assert compared > 300 and differences == set(OTHER_DEFAULTS)
