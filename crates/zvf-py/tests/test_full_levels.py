"""Levels of the drop-in: the vertices and objects of the reference, and what else level 0 has; the reference reads all of it."""

from __future__ import annotations

import importlib
import shutil
import warnings

import numpy as np
import pytest
import zvf
import zvf.compat as zv
from zvf.compat.types.graphs import write_graph
from zvf.compat.types.meshes import write_mesh
from zvf.compat.types.points import write_points
from zvf.compat.types.polylines import write_polylines

pytestmark = pytest.mark.filterwarnings("ignore")
BIN = 10.0
WORDS = {"chunk_shape": (BIN,) * 3}
GROUPS = {"groups": {0: [0, 3], 1: [1, 2]}, "group_attributes": {"rank": np.array([4.0, 5.0])}}


def walk(seed, count):
    steps = np.random.default_rng(seed).normal(0, 3, (count, 3))
    return (50 + np.cumsum(steps, axis=0)).astype(np.float32)


def attributes(count, xyz):
    return {"x": np.asarray(xyz[:, 0]), "label": (np.arange(count) // 3 % 4).astype(np.int32)}


def points(path):
    xyz = np.concatenate([walk(seed, 50) for seed in range(4)])
    words = {"object_ids": np.repeat(np.arange(4), 50), "object_attributes": {"size": np.arange(4.0)}}
    write_points(path, xyz, vertex_attributes=attributes(200, xyz), **words, **GROUPS, **WORDS)


def polylines(path):
    lines = [walk(seed, 50) for seed in range(4)]
    per_line = {"x": [line[:, 0] for line in lines]}
    write_polylines(path, lines, vertex_attributes=per_line, object_attributes={"size": np.arange(4.0)}, **GROUPS, **WORDS)


def graph(path):
    xyz = np.concatenate([walk(seed, 50) for seed in range(4)])
    edges = np.array([[i, i + step] for i in range(200) for step in (1, 7) if (i + step) // 50 == i // 50])
    words = {"object_ids": np.repeat(np.arange(4), 50), "link_attributes": {"w": np.arange(float(len(edges)))}}
    write_graph(path, xyz, edges, vertex_attributes=attributes(200, xyz), **words, **WORDS)


def skeleton(path):
    xyz = np.concatenate([walk(seed, 50) for seed in range(4)])
    edges = np.array([[i, i - 1 if i % 9 else i - 5] for i in range(200) if i % 50])
    edges = np.array([[child, max(parent, child - child % 50)] for child, parent in edges])
    write_graph(path, xyz, edges, kind="skeleton", object_ids=np.repeat(np.arange(4), 50), vertex_attributes=attributes(200, xyz), **WORDS)


def mesh(path):
    x, y = np.meshgrid(np.arange(20.0), np.arange(20.0))
    xyz = np.stack([x.ravel() * 3, y.ravel() * 3, np.sin(x.ravel()) * 8 + 20], axis=1).astype(np.float32)
    at = np.arange(400).reshape(20, 20)[:-1, :-1].ravel()
    faces = np.concatenate([np.stack([at, at + 1, at + 20], axis=1), np.stack([at + 1, at + 21, at + 20], axis=1)])
    write_mesh(path, xyz, faces, vertex_attributes=attributes(400, xyz), **WORDS)


WRITERS = [points, polylines, graph, skeleton, mesh]


def build(package, path, **words):
    coarsen = importlib.import_module(f"{package}.multiresolution.coarsen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coarsen.build_pyramid(str(path), factors=[(1.0, 1.0), (2.0, 2.0)], sparsity_seed=5, **words)


@pytest.fixture(params=WRITERS, ids=lambda writer: writer.__name__)
def stores(request, tmp_path):
    """The same store three times: with full levels, with those of the switch, and with those that the reference builds."""
    paths = [tmp_path / name for name in ("full", "bare", "theirs")]
    request.param(paths[0])
    for path in paths[1:]:
        shutil.copytree(paths[0], path)
    build("zvf.compat", paths[0])
    with zv.config(pyramid="reference"):
        build("zvf.compat", paths[1])
    build("zarr_vectors", paths[2])
    return request.param.__name__, *map(str, paths)


def test_vertices_and_objects_are_those_of_the_reference(stores):
    _, *paths = stores

    def geometry(path, number):
        level = zv.open(path)[number]
        ids = level.objects.ids(present=False).tolist()
        cells = {name: (level.cells().keys(), level.vertex_count) for name in ("vertices",)}
        positions = zvf.open(path).select(level=number).read().positions
        return cells, positions.tolist(), ids, level.objects.manifests(ids) if ids else None

    for number in (1, 2):
        full, bare, theirs = (geometry(path, number) for path in paths)
        assert full == bare == theirs
    for package in ("zvf.compat", "zarr_vectors"):
        result = importlib.import_module(package).open(paths[0]).validate(level=5)
        assert result.ok, result.summary()


def test_the_reference_reads_what_full_levels_have(stores):
    kind, full, bare, _ = stores
    for number in (1, 2):
        ours, theirs = (importlib.import_module(package).open(full)[number] for package in ("zvf.compat", "zarr_vectors"))
        assert ours.attribute_names("vertex") == tuple(theirs.attribute_names("vertex")) == tuple(sorted(zv.open(full)[0].attribute_names("vertex")))
        own, other = ours.read(), theirs.read()
        assert own.positions.tolist() == other.positions.tolist()
        assert np.allclose(other.attributes["x"], own.positions[:, 0], atol=1e-3)
        for name in ours.attribute_names("vertex"):
            assert np.asarray(own.attributes[name]).tolist() == np.asarray(other.attributes[name]).tolist()

        def places(read, rows):
            return sorted(map(tuple, np.asarray(read.positions)[np.asarray(rows)].reshape(len(rows), -1).tolist()))

        if kind in ("graph", "skeleton"):
            assert len(own.edges) and places(own, own.edges) == places(other, other.edges)
        if kind == "mesh":
            assert len(own.faces) and places(own, own.faces) == places(other, other.faces)
        if kind in ("points", "polylines"):
            present = set(ours.objects.ids().tolist())
            for group, members in ((0, [0, 3]), (1, [1, 2])):
                left = [i for i in members if i in present]
                assert ours.groups.by_id(group).members.tolist() == left == theirs.groups.by_id(group).members.tolist()
        empty = zv.open(bare)[number]
        assert not empty.attribute_names("vertex") and not len(empty.groups)


def test_levels_stay_what_they_are_when_they_are_built_again(tmp_path):
    from zvf.compat.ops import rebuild_pyramid_from_level
    from zvf.compat.rechunk import rechunk_spatial

    points(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    build("zvf.compat", tmp_path / "a")
    with zv.config(pyramid="reference"):
        build("zvf.compat", tmp_path / "b")
        rebuild_pyramid_from_level(tmp_path / "a", 0)
    rebuild_pyramid_from_level(tmp_path / "b", 0)
    rechunk_spatial(tmp_path / "a", tmp_path / "c", (20.0,) * 3)
    ds = zv.open(tmp_path / "a", mode="r+")
    with ds.editing(refresh_pyramid=True) as edit:
        edit.move_vertex(object=1, index=0, to=[51, 51, 51])
    for path, names in (("a", ("label", "x")), ("b", ()), ("c", ("label", "x"))):
        found = zv.open(tmp_path / path)
        assert [tuple(found[number].attribute_names("vertex")) for number in (1, 2)] == [names, names], path
        assert path == "c" or found.validate(level=5).ok  # with chunks of 20, bins of level 1 are smaller than those of level 0


def test_findings_say_what_is_wrong(tmp_path):
    points(tmp_path / "a")
    document = tmp_path / "a" / "0" / "zarr.json"
    document.write_text(document.read_text().replace('"vertex_count":200', '"vertex_count":201').replace('"vertex_count": 200', '"vertex_count": 201'))
    findings = zvf.validate(tmp_path / "a", level=5).findings
    assert [f.message for f in findings if f.rule == "C8"] == ["zarr_vectors_level.vertex_count: expected 200, found 201"]
    assert all(f.key and "None" not in f.message for f in findings)


def test_stored_edges_of_skeletons_are_counted_as_in_the_reference(tmp_path):
    for number, make in enumerate((lambda i: i - 1, lambda i: (i - 1) // 2, lambda i: max(0, i - 5))):
        xyz = np.random.default_rng(number).uniform(0, 30, (40, 3)).astype(np.float32)
        edges = np.array([[i, make(i)] for i in range(1, 40)])
        counts = []
        for package in ("zvf.compat", "zarr_vectors"):
            graphs = importlib.import_module(f"{package}.types.graphs")
            counts.append(graphs.write_graph(str(tmp_path / f"{package}-{number}"), xyz, edges, kind="skeleton", **WORDS))
        assert counts[0] == {key: counts[1][key] for key in counts[0]}
