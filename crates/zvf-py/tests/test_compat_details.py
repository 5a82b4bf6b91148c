"""Calls of the drop-in beside the same of the reference, on the same stores: lazy reads, shards, groups, plans, errors."""

from __future__ import annotations

import importlib
import shutil

import numpy as np
import pytest
import zvf.compat as zv
from zvf.compat.exceptions import ArrayError, EditError, StoreError, ZVError
from zvf.compat.types.points import read_points, write_points
from zvf.compat.types.polylines import write_polylines

CHUNK = (100.0, 100.0, 100.0)
XYZ = np.random.default_rng(3).uniform(0, 300, (200, 3)).astype(np.float32)
LINES = [np.random.default_rng(i).uniform(0, 300, (4, 3)).astype(np.float32) for i in range(6)]
BOTH = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cloud(tmp_path):
    words = {"object_ids": np.arange(200) % 7, "object_attributes": {"s": np.arange(7.0)}, "vertex_attributes": {"m": np.arange(200.0)}}
    write_points(tmp_path / "cloud", XYZ, chunk_shape=CHUNK, groups={0: [0, 1], 1: [2, 5, 6]}, **words)
    return str(tmp_path / "cloud")


@pytest.fixture
def plain(tmp_path):
    write_points(tmp_path / "plain", XYZ, chunk_shape=CHUNK)
    return str(tmp_path / "plain")


@pytest.fixture
def tracts(tmp_path):
    write_polylines(tmp_path / "tracts", LINES, chunk_shape=CHUNK, groups={0: [0, 3], 2: [4]})
    return str(tmp_path / "tracts")


def of(package, module):
    return importlib.import_module(f"{package}.{module}")


def outcome(call):
    """What a call returns, as values that compare; what it raises, by the classes that it is."""
    try:
        return plain_values(call())
    except Exception as error:
        return error


def plain_values(value):
    if isinstance(value, np.ndarray):
        return value.dtype.kind, value.tolist()
    if isinstance(value, dict):
        return {k: plain_values(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [plain_values(v) for v in value]
    return value


def assert_same(call):
    """The same result from both packages; what the reference raises, ours does as well."""
    theirs, ours = outcome(lambda: call("zarr_vectors")), outcome(lambda: call("zvf.compat"))
    if isinstance(theirs, Exception):
        names = {cls.__name__ for cls in type(ours).__mro__}
        assert type(theirs).__name__ in names and isinstance(ours, ZVError), (theirs, ours)
    else:
        assert theirs == ours
    return ours


@BOTH
def test_lazy_reads_are_work_of_dask(cloud, tracts):
    delayed = pytest.importorskip("dask.delayed").Delayed
    lazy = of("zvf.compat", "lazy").open_zv(cloud)[0]
    assert isinstance(lazy.vertices[1, 1, 1], delayed) and all(isinstance(part, delayed) for part in lazy.vertices)
    assert len(lazy.vertices) == 200 and sum(len(part.compute()) for part in lazy.vertices.to_delayed()) == 200
    for package in ("zarr_vectors", "zvf.compat"):
        level = of(package, "lazy").open_zv(tracts)[0]
        assert isinstance(level.polylines[2], delayed) and level.polylines[2].compute().tolist() == LINES[2].tolist()
        assert [i for i, line in level.polylines.items() if isinstance(line, delayed)] == list(range(6))
    at = lambda package: of(package, "lazy").open_zv(cloud)[0]  # noqa: E731
    assert_same(lambda package: at(package).vertices[1, 1, 1].compute())
    assert_same(lambda package: at(package).vertices[9, 9, 9].compute())
    assert_same(lambda package: at(package).vertices[(0, 1, 0)].compute())
    for path in (cloud, tracts):
        assert_same(lambda package, path=path: of(package, "lazy").open_zv(path)[0].vertices.compute())
        assert_same(lambda package, path=path: [part.compute() for part in of(package, "lazy").open_zv(path)[0].vertices.to_delayed()])
        assert_same(lambda package, path=path: {k: v.compute() for k, v in of(package, "lazy").open_zv(path)[0].attributes.items()})
    assert_same(lambda package: of(package, "lazy").open_zv(tracts)[0].polylines.compute())
    assert_same(lambda package: of(package, "lazy").open_zv(tracts)[0].polylines[99])
    assert_same(lambda package: of(package, "lazy").open_zv(tracts)[0].object_index[99])
    assert_same(lambda package: at(package).preserves_object_ids or at(package).shared_fragments or at(package).inherited_num_objects)
    assert_same(lambda package: at(package).read_attribute_chunk("a"))


@BOTH
def test_lazy_views_have_the_object_of_each_vertex(cloud, plain, tracts):
    at = lambda package, path: of(package, "lazy").open_zv(path)[0]  # noqa: E731
    for path in (cloud, tracts):
        assert_same(lambda package, path=path: at(package, path).filter(object_ids=[4, 1]).compute())
        assert_same(lambda package, path=path: at(package, path).filter(object_ids=[999]).compute())
        assert_same(lambda package, path=path: at(package, path).filter(group_ids=[0]).compute())
    assert_same(lambda package: at(package, plain).filter(object_ids=[1]).compute())
    assert_same(lambda package: at(package, cloud).filter(object_ids=[1], bbox=([0, 0, 0], [150, 150, 150])).compute())
    found = at("zvf.compat", cloud).filter(group_ids=[1]).filter(object_ids=[5, 0]).compute()
    assert set(found["object_ids"]) == {5} and len(found["object_ids"]) == found["vertex_count"]


@BOTH
def test_shards_are_told_as_the_reference_does(cloud, tmp_path):
    copies = {package: str(tmp_path / package) for package in ("zarr_vectors", "zvf.compat")}
    for path in copies.values():
        shutil.copytree(cloud, path)

    def by_name(info):
        return {**info, "arrays": sorted(info["arrays"], key=lambda entry: entry["name"])}

    shards = lambda package, name: getattr(of(package, "sharding"), name)  # noqa: E731
    assert_same(lambda package: shards(package, "get_shard_info")(copies[package]))
    for step in ({"shard_shape": 2}, {"shard_shape": 2}, {"shard_shape": (3, 2, 1)}):
        found = {package: shards(package, "shard_store")(path, **step) for package, path in copies.items()}
        ours = {key: found["zvf.compat"][key] for key in found["zarr_vectors"]}
        assert ours == found["zarr_vectors"], step
        assert_same(lambda package: by_name(shards(package, "get_shard_info")(copies[package])))
    found = {package: shards(package, "unshard_store")(path) for package, path in copies.items()}
    assert {key: found["zvf.compat"][key] for key in found["zarr_vectors"]} == found["zarr_vectors"]
    assert zv.open(copies["zvf.compat"]).validate(level=5).ok


def test_bytes_are_no_shape_of_a_shard(cloud):
    for value in (b"\x02", bytearray(b"\x02\x02\x02")):
        with pytest.raises(ArrayError, match="shard_shape: expected positive integers, found b"):
            of("zvf.compat", "sharding").reshard(cloud, value)
    assert not of("zvf.compat", "sharding").is_sharded(cloud)


@BOTH
def test_groups_and_attributes_of_objects_are_values_of_python(cloud, plain):
    level = lambda package, path: of(package, "building").open_store(path)["0"]  # noqa: E731
    call = lambda package, name, path, *words: getattr(of(package, "building"), name)(level(package, path), *words)  # noqa: E731
    assert assert_same(lambda package: call(package, "read_all_groupings", cloud)) == (list, [(list, [0, 1]), (list, [2, 5, 6])])
    for path in (cloud, plain):
        for words in (("read_all_groupings",), ("read_group_object_ids", 1), ("read_group_object_ids", 9), ("read_object_attributes", "s"), ("read_object_attributes", "no")):
            name, *rest = words
            assert_same(lambda package, path=path, name=name, rest=rest: call(package, name, path, *rest))


@BOTH
def test_plans_name_arrays_and_cells(cloud):
    box = ([20, 20, 20], [180, 140, 210])
    for words in ({}, {"bbox": box}, {"near": ([150, 150, 150], 40.0)}, {"objects": [1]}, {"bbox": box, "attributes": []}, {"attributes": ["m"]}):

        def plan(package, words=words):
            found = of(package, "api").open(cloud).select(**words).plan()
            cost = found.cost()
            return found.nodes, found.arrays, found.expand, [(c.array, c.key) for c in found.cells], cost.nodes, cost.cells, cost.total

        assert_same(plan)
    ds = zv.open(cloud)
    assert ds.select().plan() == ds.select().plan() and len(ds.select().cells()) == len(ds.level(0).cells()) > 0


@BOTH
def test_chunks_by_an_attribute_are_counted_in_space(tmp_path):
    words = {"chunk_shape": CHUNK, "vertex_attributes": {"g": np.array(["a", "b", "c"])[np.arange(200) % 3]}, "chunk_by_attribute": "g"}
    assert_same(lambda package: of(package, "types.points").write_points(str(tmp_path / package), XYZ, **words))


def test_what_is_not_there_is_an_error_of_each_kind(plain, cloud):
    for call in (lambda: zv.open(plain).read(objects=[1]), lambda: zv.open(plain).read(groups=[0]), lambda: read_points(plain, object_ids=[1])):
        for kind in (StoreError, ArrayError, KeyError, ValueError, ZVError):
            with pytest.raises(kind, match="object index"):
                call()
    with pytest.raises(KeyError):
        zv.open(cloud).read(groups=[7])
    for name in ("StoreError", "MetadataError", "ArrayError", "CoarseningError", "EditError", "ValidationError", "IngestError", "ExportError"):
        theirs, ours = getattr(of("zarr_vectors", "exceptions"), name), getattr(of("zvf.compat", "exceptions"), name)
        assert [c.__name__ for c in theirs.__mro__ if c.__name__ != "object"] == [c.__name__ for c in ours.__mro__ if c.__name__ in {d.__name__ for d in theirs.__mro__} - {"object"}]


def test_empty_answers_have_the_type_of_the_store(tmp_path):
    ds = zv.create(tmp_path / "a", schema=zv.Schema(bounds=([0, 0, 0], [9, 9, 9]), position_dtype="float64"))
    assert ds.read().positions.dtype == np.float64
    ds.add_points(np.ones((2, 3)))
    assert ds.read(bbox=([5, 5, 5], [4, 4, 4])).positions.dtype == ds.read(objects=[]).positions.dtype == np.float64


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"attributes": [1, 2]}, "attributes: expected a mapping, found list"),
        ({"groups": [[1]], "object_ids": np.zeros(2, dtype=int)}, "groups: expected a mapping, found list"),
        ({"object_ids": [-1, 0]}, "object_ids: expected no negative numbers, found -1"),
        ({"object_ids": [0.5, 1]}, "object_ids: expected whole numbers"),
        ({"attributes": {"m": [[1], [1, 2]]}}, "attribute 'm': expected an array"),
        ({"attributes": {"m": ["a", 1.5, None]}}, "attribute 'm': expected 2 rows"),
    ],
)
def test_words_that_are_wrong_leave_nothing(tmp_path, words, said):
    ds = zv.create(tmp_path / "a", schema=zv.Schema(bounds=([0, 0, 0], [9, 9, 9])))
    with pytest.raises(ArrayError, match=said):
        ds.add_points(np.ones((2, 3)), **words)
    assert ds.read().vertex_count == 0
    with pytest.raises(ArrayError, match="needs a value of each vertex: expected text, found None in row 1"):
        write_points(tmp_path / "p", np.ones((2, 3)), chunk_shape=CHUNK, vertex_attributes={"g": ["a", None]}, chunk_by_attribute="g")
    with pytest.raises(ArrayError, match="edges: expected whole numbers"):
        of("zvf.compat", "types.graphs").write_graph(tmp_path / "g", np.ones((2, 3)), [[0.5, 1]], chunk_shape=CHUNK)
    with pytest.raises(ArrayError, match="object_ids: expected 3, one a vertex, found 1"):
        of("zvf.compat", "types.meshes").write_mesh(tmp_path / "m", np.eye(3), [[0, 1, 2]], chunk_shape=CHUNK, object_ids=[0])
    assert not any((tmp_path / name).exists() for name in "pgm")


def test_vertices_are_not_moved_to_nowhere(tracts):
    ds = zv.open(tracts, mode="r+")
    for to in ([np.nan, 0, 0], [0, 0], "here"):
        with pytest.raises(EditError, match="to: expected"), ds.editing() as edit:
            edit.move_vertex(object=1, index=0, to=to)
    assert ds.level(0).objects[1].positions.tolist() == LINES[1].tolist()
