"""The drop-in: names, results and errors of the reference's facade."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import zvf
import zvf.compat as zv
from zvf.compat.exceptions import ArrayError, MetadataError, StoreError, ZVError
from zvf.compat.types.graphs import read_graph, write_graph
from zvf.compat.types.lines import read_lines, write_lines
from zvf.compat.types.meshes import read_mesh, write_mesh
from zvf.compat.types.parametric import read_parametric_objects, write_parametric_objects
from zvf.compat.types.points import read_points, write_points
from zvf.compat.types.polylines import read_polylines, write_polylines

CHUNK = (100.0, 100.0, 100.0)


def schema(**words):
    return zv.Schema(**{"bounds": ([0, 0, 0], [400, 400, 400]), "layout": zv.Layout(cells=4), **words})


def test_import_zarr_vectors():
    program = "import zvf.compat; zvf.compat.install(); import zarr_vectors as zv; from zarr_vectors.types.points import write_points; from zarr_vectors.exceptions import ZVError; print(zv.open.__module__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "zvf.compat.api.dataset"
    program = "import zvf.compat; zvf.compat.install(); import zarr_vectors.encoding"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError" in done.stderr and "use zarr_vectors.api" in done.stderr


def test_create_add_read(tmp_path):
    ds = zv.create(tmp_path / "a", schema=schema(position_dtype="float64"))
    assert ds.levels == (0,) and ds.read().vertex_count == 0 and ds.read().ndim == 3
    xyz = np.random.default_rng(1).uniform(0, 400, (300, 3))
    report = ds.add_points(xyz, attributes={"a": np.arange(300)})
    assert report["vertex_count"] == 300 and report["bins_per_chunk"] == (4, 4, 4)
    got = zv.open(tmp_path / "a").read()
    assert got.positions.dtype == np.float64 and np.array_equal(xyz[got.attributes["a"]], got.positions)
    ds.add_points(xyz[:5], attributes={"a": np.arange(5)})
    assert zv.open(tmp_path / "a").read().vertex_count == 305


def test_polylines_come_in_segments(tmp_path):
    line = np.array([[10, 50, 50], [90, 50, 50], [110, 50, 50]], dtype=np.float32)
    report = write_polylines(tmp_path / "p", [line, line[:2]], chunk_shape=CHUNK, groups={0: [0], 1: [1]})
    assert report == {"polyline_count": 2, "vertex_count": 5, "chunk_count": 2, "cross_chunk_link_count": 1, "group_count": 2}
    found = read_polylines(tmp_path / "p")
    assert [len(segments) for segments in found["polylines"]] == [2, 1]
    assert found["object_ids"] == [0, 1]
    runs = read_polylines(tmp_path / "p", chunks=[(0, 0, 0)])
    assert runs["vertex_count"] == 4
    assert read_polylines(tmp_path / "p", group_ids=[1])["object_ids"] == [1]


def test_lines_graphs_meshes(tmp_path):
    ends = np.array([[[1, 1, 1], [150, 1, 1]]], dtype=np.float32)
    assert write_lines(tmp_path / "l", ends, chunk_shape=CHUNK)["cross_chunk_count"] == 1
    assert np.array_equal(read_lines(tmp_path / "l")["endpoints"], ends)
    xyz = np.array([[10, 10, 10], [20, 20, 20], [150, 20, 20]], dtype=np.float32)
    assert write_graph(tmp_path / "g", xyz, [[0, 1], [1, 2]], chunk_shape=CHUNK)["cross_edge_count"] == 1
    assert read_graph(tmp_path / "g", bbox=([0, 0, 0], [100, 100, 100]))["edge_count"] == 1
    assert write_mesh(tmp_path / "m", xyz, [[0, 1, 2]], chunk_shape=CHUNK)["cross_face_count"] == 1
    assert read_mesh(tmp_path / "m")["faces"].shape == (1, 3)
    with pytest.raises(ArrayError):
        write_mesh(tmp_path / "x", xyz, [[0, 1, -1]], chunk_shape=CHUNK)
    with pytest.raises(ArrayError, match="circle"):
        write_graph(tmp_path / "x", np.zeros((4, 3)), [[1, 2], [2, 3], [3, 1]], chunk_shape=CHUNK, kind="skeleton")
    assert not (tmp_path / "x").exists()


def test_chunks_by_attribute(tmp_path):
    xyz = np.random.default_rng(2).uniform(0, 100, (20, 3))
    words = np.repeat(["a", "b"], [15, 5])
    write_points(tmp_path / "c", xyz, chunk_shape=CHUNK, vertex_attributes={"gene": words}, chunk_by_attribute="gene")
    assert read_points(tmp_path / "c", attribute_filter={"gene": "a"})["vertex_count"] == 15
    assert read_points(tmp_path / "c", attribute_filter={"gene": "z"})["vertex_count"] == 0
    with pytest.raises(ArrayError, match="must name a key"):
        read_points(tmp_path / "c", attribute_filter={"other": 1})


def test_parametric(tmp_path):
    write_parametric_objects(tmp_path / "s", [{"type": "sphere", "coefficients": [0, 0, 0, 2], "name": "ball"}], create_new_store=True)
    assert read_parametric_objects(tmp_path / "s") == [
        {"type": "sphere", "type_id": 2, "coefficients": [0.0, 0.0, 0.0, 2.0], "coefficient_names": ["cx", "cy", "cz", "r"], "name": "ball"}
    ]


def test_errors_are_builtins_too(tmp_path):
    with pytest.raises(FileNotFoundError):
        zv.open(tmp_path / "none")
    ds = zv.create(tmp_path / "a", schema=schema())
    with pytest.raises(FileExistsError):
        zv.create(tmp_path / "a", schema=schema())
    with pytest.raises(MetadataError):
        ds.add_points(np.full((1, 3), 500.0))
    with pytest.raises(IndexError):
        ds.level(5)
    with pytest.raises(PermissionError):
        zv.open(tmp_path / "a").add_points(np.ones((1, 3)))
    assert issubclass(StoreError, ZVError) and zv.exceptions.ZVFError is ZVError
    assert zv.open(tmp_path / "a").read().vertex_count == 0


def test_switches(tmp_path):
    write_mesh(tmp_path / "m", np.eye(3), [[0, 1, 2]], chunk_shape=CHUNK)
    ds = zv.open(tmp_path / "m")
    assert ds.select(objects=[0]).read().vertex_count == 3
    with zv.config(limits="reference"):
        with pytest.raises(ZVError):
            ds.select(objects=[0]).read()
        with pytest.raises(NotImplementedError):
            ds.select().iter_cells()
    with pytest.raises(KeyError):
        ds.read(attributes=["no"])
    with zv.config(unknown="reference"):
        assert ds.read(attributes=["no"]).vertex_count == 3
    for wrong, said in ({"limits": "other"}, "limits: expected off or reference, found 'other'"), ({"speed": "high"}, "no switch 'speed'"):
        with pytest.raises(ValueError, match=said):
            zv.config.set(**wrong)
    with pytest.raises(ValueError, match="pyramid: expected full or reference, found 'half'"):
        zv.config.set(pyramid="half")
    assert zv.config.pyramid == "full"


def test_edits_keep_ids(tmp_path):
    write_polylines(tmp_path / "p", [np.ones((3, 3)), np.zeros((2, 3))], chunk_shape=CHUNK)
    ds = zv.open(tmp_path / "p", mode="r+")
    with ds.editing() as edit:
        edit.move_vertex(object=1, index=0, to=[5, 5, 5])
        edit.remove_object(0)
    assert edit.renamed() == {} and edit.new_id_of(1) == 1 and edit.report.n_edits == 2
    assert ds.level(0).objects.ids().tolist() == [1]
    assert ds.level(0).objects[1].positions[0].tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match="either by object"):
        edit.move_vertex(to=[0, 0, 0])


def test_pyramids_validation_pickles(tmp_path):
    write_points(tmp_path / "a", np.random.default_rng(3).uniform(0, 400, (2000, 3)), chunk_shape=CHUNK, bin_shape=(25.0,) * 3)
    ds = zv.open(tmp_path / "a", mode="r+")
    report = ds.build_pyramid(factors=[(2.0, 1.0)])
    assert report["levels_created"] == 1 and ds.levels == (0, 1)
    assert ds.validate(level=5).ok
    assert pickle.loads(pickle.dumps(ds)).levels == (0, 1)
    assert sum(part.vertex_count for _, part in ds.select().iter_cells()) == 2000


def test_rechunking_keeps_everything(tmp_path):
    from zvf.compat.rechunk import RechunkSpec, rebin_level, rechunk, rechunk_by_attribute, rechunk_spatial

    xyz = np.random.default_rng(4).uniform(0, 200, (40, 3))
    words = {"vertex_attributes": {"mass": np.arange(40.0)}, "object_ids": np.arange(40) % 4, "object_attributes": {"size": np.arange(4.0)}}
    write_points(tmp_path / "a", xyz, chunk_shape=CHUNK, groups={0: [0, 1], 1: [2, 3]}, group_attributes={"w": np.array([1.0, 2.0])}, **words)

    def check(path):
        ds = zv.open(path)
        assert ds.read().vertex_count == 40 and set(ds.level(0).attribute_names("vertex")) >= {"mass"}
        assert ds.level(0).attribute_names("object") == ("size",) and ds.level(0).attribute_names("group") == ("w",)
        assert ds.groups["group_1"].members.tolist() == [2, 3]
        assert sorted(ds.select(objects=[2]).read().attributes["mass"]) == list(range(2, 40, 4))
        assert ds.validate(level=5).ok

    found = read_points(tmp_path / "a", group_ids=[1])
    assert len(found["object_ids"]) == found["vertex_count"] and set(found["object_ids"].tolist()) == {2, 3}
    assert rechunk(tmp_path / "a", RechunkSpec(by="group"), output=tmp_path / "b") == {
        "bins_created": 2, "objects_rechunked": 4, "total_vertices": 40, "rechunk_dims": ["group", "x", "y", "z"], "output_path": str(tmp_path / "b"),
    }  # fmt: skip
    assert rechunk_by_attribute(tmp_path / "a", "size", output=tmp_path / "c")["bins_created"] == 4
    rechunk_spatial(tmp_path / "a", tmp_path / "d", (50.0, 50.0, 50.0))
    for path in "abcd":
        check(tmp_path / path)
    assert read_points(tmp_path / "c", attribute_filter={"size": 3.0})["vertex_count"] == 10
    assert zv.open(tmp_path / "d").level(0).scale == (50.0, 50.0, 50.0)
    rebin_level(tmp_path / "d", (25.0, 25.0, 25.0))
    check(tmp_path / "d")
    assert zv.open(tmp_path / "d").level(0).resolution == (25.0, 25.0, 25.0)


def test_columns_and_points_are_added_lazily(tmp_path):
    from zvf.compat.lazy import open_zv

    write_points(tmp_path / "a", np.random.default_rng(5).uniform(0, 200, (20, 3)), chunk_shape=CHUNK, object_ids=np.arange(20))
    with open_zv(tmp_path / "a")[0].writer() as writer:
        writer.add_attribute_sync("n", np.arange(20))
        writer.add_object_attribute_sync("size", np.arange(20.0))
        with pytest.raises(ArrayError, match="!= level vertex count 20"):
            writer.add_attribute_sync("bad", np.arange(3))
        added = writer.append_vertices_sync(np.ones((2, 3)), attributes={"n": [20, 21]})
    assert added == {"vertices_added": 2, "new_objects": 2, "chunks_touched": 1}
    found = zv.open(tmp_path / "a")
    assert sorted(found.read().attributes["n"]) == list(range(22)) and len(found.level(0).objects) == 22
    assert found.validate(level=5).ok


def test_chunks_are_read_fragment_by_fragment(tmp_path):
    from zvf.compat.core.arrays import read_chunk_attributes, read_chunk_fragment_attributes, read_chunk_vertices, read_object_vertices

    xyz = np.array([[10, 10, 10], [20, 20, 20], [110, 110, 110], [120, 120, 120]], dtype=np.float32)
    rows = {(0, 0, 0): np.array([7, 8]), (1, 1, 1): np.array([9, 10])}
    write_points(tmp_path / "a", xyz, chunk_shape=CHUNK, object_ids=np.arange(4), vertex_attributes={"n": np.arange(4)}, fragment_attributes={"f": rows})
    level = zv.open(tmp_path / "a").level(0).store
    assert [g.tolist() for g in read_chunk_vertices(level, (1, 1, 1))] == [[[110.0] * 3], [[120.0] * 3]]
    assert [g.tolist() for g in read_chunk_attributes(level, "n", (1, 1, 1))] == [[2], [3]]
    assert read_chunk_fragment_attributes(level, "f", (1, 1, 1)).tolist() == [9, 10]
    assert [g.tolist() for g in read_object_vertices(level, 3)] == [[[120.0] * 3]]
    assert level.list_chunks("vertices") == ["0.0.0", "1.1.1"]
    assert zv.building.rebuild_presence(zv.open(tmp_path / "a", mode="r+").level(0).store, "vertices") == ["0.0.0", "1.1.1"]


def test_a_composite_holds_several_kinds(tmp_path):
    from zvf.compat.composite import add_geometry, read_composite

    rng = np.random.default_rng(7)
    write_points(tmp_path / "a", rng.uniform(0, 200, (50, 3)), chunk_shape=CHUNK, vertex_attributes={"mass": np.arange(50.0)})
    add_geometry(tmp_path / "a", "graph", positions=rng.uniform(0, 200, (4, 3)), edges=[[0, 1], [1, 2]])
    add_geometry(tmp_path / "a", "mesh", positions=rng.uniform(0, 200, (3, 3)), faces=[[0, 1, 2]])
    assert add_geometry(tmp_path / "a", "streamline", polylines=[np.ones((3, 3))]) == {"geometry_type": "streamline", "vertex_count": 3}
    found = read_composite(tmp_path / "a")
    assert {kind: entry["vertex_count"] for kind, entry in found.items()} == {"point_cloud": 50, "graph": 4, "mesh": 3, "streamline": 3}
    assert read_points(tmp_path / "a", attribute_names=["mass"])["vertex_attributes"]["mass"].sum() == np.arange(50).sum()
    assert read_mesh(tmp_path / "a")["face_count"] == 1 and read_graph(tmp_path / "a")["edge_count"] == 2
    assert read_polylines(tmp_path / "a")["polyline_count"] == 1
    assert zv.open(tmp_path / "a").validate(level=5).ok
    with pytest.raises(ArrayError, match="already"):
        add_geometry(tmp_path / "a", "mesh", positions=np.eye(3), faces=[[0, 1, 2]])


def test_attributes_are_edited_by_reference(tmp_path):
    from zvf.compat.core.arrays import read_chunk_attributes, read_object_attributes
    from zvf.compat.ops import AttributeRef, ObjectRef, VertexRef, add_attribute, edit_attribute, remove_attribute

    xyz = np.array([[10, 10, 10], [20, 20, 20], [30, 30, 30]], dtype=np.float32)
    words = {"vertex_attributes": {"i": np.arange(3, dtype=np.float32)}, "object_attributes": {"label": np.array([10, 20, 30]), "mass": np.float32([1, 2, 3])}}
    write_points(tmp_path / "a", xyz, chunk_shape=CHUNK, object_ids=np.arange(3), **words)
    root = zv.open_store(tmp_path / "a", "r+")
    ref = VertexRef.from_object(root, level=0, object_id=1, vertex_index=0)
    assert VertexRef.from_position(root, level=0, pos=[20, 20, 20]) == ref
    assert edit_attribute(root, AttributeRef("vertex", "i", ref), 9.0).n_edits == 1
    assert [g.tolist() for g in read_chunk_attributes(root["0"], "i", ref.chunk)] == [[0.0], [9.0], [2.0]]
    edit_attribute(root, AttributeRef("object", "label", ObjectRef(0, 1)), 99)
    assert read_object_attributes(root["0"], "label").tolist() == [10, 99, 30]
    remove_attribute(root, AttributeRef("object", "label", ObjectRef(0, 1)))
    add_attribute(root, AttributeRef("object", "sure", ObjectRef(0, 2)), 0.5)
    assert read_object_attributes(root["0"], "label").tolist() == [10, 0, 30]
    assert read_object_attributes(root["0"], "sure").tolist() == [0, 0, 0.5]
    assert read_object_attributes(root["0"], "mass").dtype == np.float32
    with pytest.raises(zv.exceptions.EditError):
        edit_attribute(root, AttributeRef("vertex", "i", ObjectRef(0, 1)), 1)
    with pytest.raises(zv.exceptions.EditError):
        VertexRef.from_object(root, level=0, object_id=7, vertex_index=0)


def test_switches_of_boxes_and_edits(tmp_path):
    diagonal = np.array([[10, 90, 50], [90, 10, 50]])
    write_polylines(tmp_path / "p", [diagonal, np.zeros((2, 3))], chunk_shape=CHUNK)
    write_lines(tmp_path / "l", np.stack([diagonal, diagonal + [0, 0, 5]]), chunk_shape=CHUNK)
    write_mesh(tmp_path / "m", np.array([[0, 0, 0], [90, 0, 0], [0, 90, 0]]), [[0, 1, 2]], chunk_shape=CHUNK)
    away, middle = ([60, 60, 40], [80, 80, 60]), ([45, 45, 40], [55, 55, 52])
    lines, ends, mesh = (zv.open(tmp_path / name) for name in "plm")
    assert lines.select(bbox=away).read().part_count == 0 and lines.select(bbox=middle).read().part_count == 1
    assert ends.select(bbox=middle).read().part_count == 1
    assert len(mesh.select(bbox=([20, 20, 0], [30, 30, 1])).read().faces) == 1
    with zv.config(touch="reference"):
        assert lines.select(bbox=away).read().part_count == 2, "all that has a vertex in a chunk of the box"
        assert ends.select(bbox=middle).read().part_count == 0, "no end lies there"
        assert ends.select(bbox=([0, 80, 50], [20, 95, 50])).read().part_count == 1
        assert len(mesh.select(bbox=([20, 20, 0], [30, 30, 1])).read().faces) == 0
    ds = zv.open(tmp_path / "p", mode="r+")
    with zv.config(edits="reference"), ds.editing() as edit:
        edit.move_vertex(object=1, index=0, to=[5, 5, 5])
        edit.move_vertex(object=1, index=1, to=[6, 6, 6])
    assert edit.renamed() == {1: 2} and edit.new_id_of(1) == 2 and edit.new_id_of(0) == 0
    assert ds.level(0).objects[1].positions.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert ds.level(0).objects[2].positions.tolist() == [[5, 5, 5], [6, 6, 6]]


def test_stores_of_zarr_that_only_it_knows(tmp_path):
    import obstore.store
    import zarr.storage

    xyz = np.random.default_rng(8).uniform(0, 400, (50, 3))
    write_points(tmp_path / "a", xyz, chunk_shape=CHUNK)
    fs = zarr.storage.FsspecStore.from_url(f"file://{tmp_path}/a")
    wrapped = zarr.storage.LoggingStore(zarr.storage.LocalStore(tmp_path / "a"))
    for store in (fs, wrapped, zarr.storage.ObjectStore(obstore.store.LocalStore(tmp_path / "a"))):
        assert zv.open(store).read().vertex_count == 50
    for store in (zarr.storage.MemoryStore(), zarr.storage.ObjectStore(obstore.store.MemoryStore())):
        ds = zv.create(store, schema=schema())
        ds.add_points(xyz)
        keys = zarr.open_group(store, mode="r").attrs.asdict()
        assert keys["zarr_vectors"]["geometry_types"] == ["point_cloud"], "the store of zarr has what was written"
        assert zv.open(store).read().vertex_count == 50
        with pytest.raises(TypeError, match="memory"):
            pickle.dumps(ds)


def test_levels_follow_when_level_0_is_written_again(tmp_path):
    """Whatever writes level 0 again keeps the levels above it: the bins, the objects and the vertices that they have."""
    from zvf.compat.composite import add_geometry
    from zvf.compat.lazy import open_zv
    from zvf.compat.ops import rebuild_pyramid_from_level
    from zvf.compat.rechunk import RechunkSpec, rebin_level, rechunk, rechunk_by_attribute, rechunk_spatial

    xyz = np.random.default_rng(8).uniform(0, 400, (500, 3)).astype(np.float32)
    words = {"object_ids": np.arange(500) % 6, "object_attributes": {"size": np.arange(6.0)}}
    write_points(tmp_path / "a", xyz, chunk_shape=CHUNK, bin_shape=(25.0,) * 3, **words)
    ds = zv.open(tmp_path / "a", mode="r+")
    report = ds.build_pyramid(factors=[(2.0, 2.0), (2.0, 1.0)], sparsity_seed=3, chunk_scale_factors=[2, 1])
    assert [spec["objects_kept"] for spec in report["level_specs"]] == [3, 6] and report["cross_level_depth"] == 1

    def levels(path):
        """Bins, objects, and which bins are occupied: means are weighted by how often objects pass, which goes by chunks."""
        found = zv.open(path)
        levels = [(found[n].resolution, found[n].objects.ids().tolist(), found[n].read().positions) for n in (1, 2)]
        return [(bins, ids, sorted(map(tuple, np.floor(at / np.asarray(bins)).tolist()))) for bins, ids, at in levels]

    before = levels(tmp_path / "a")
    assert rechunk_spatial(tmp_path / "a", tmp_path / "b", (200.0,) * 3)["level_chunk_shapes"] == {n: (200.0,) * 3 for n in range(3)}
    assert rechunk_spatial(tmp_path / "a", tmp_path / "c", (50.0,) * 3, level_chunk_shapes={1: (100.0,) * 3, 2: (100.0,) * 3})["levels"][2]["vertices"] > 0
    assert levels(tmp_path / "b") == before == levels(tmp_path / "c")
    assert zv.open(tmp_path / "c")[2].scale == (100.0,) * 3
    assert rechunk_spatial(tmp_path / "a", tmp_path / "d", (200.0,) * 3, levels=[0])["levels"][-1]["level"] == 0
    assert zv.open(tmp_path / "d").levels == (0,)
    rebin_level(tmp_path / "b", (12.5,) * 3)
    assert levels(tmp_path / "b") == before and zv.open(tmp_path / "b").level(0).resolution == (12.5,) * 3
    with open_zv(tmp_path / "b")[0].writer() as writer:
        writer.add_attribute_sync("n", np.arange(500))
    assert levels(tmp_path / "b") == before and zv.open(tmp_path / "b").validate(level=5).ok
    rebuild_pyramid_from_level(tmp_path / "b", 0)
    assert levels(tmp_path / "b") == before
    # What cannot have levels says so, and leaves the store as it is.
    for write in (lambda: rechunk_by_attribute(tmp_path / "a", "size"), lambda: rechunk(tmp_path / "a", RechunkSpec(by="object_id", bins=[0, 3]))):
        with pytest.raises(ArrayError, match="coarser levels"):
            write()
    with pytest.raises(ArrayError, match="no multiple"):
        rechunk_spatial(tmp_path / "a", tmp_path / "e", (30.0, 60.0, 90.0))
    assert levels(tmp_path / "a") == before and not (tmp_path / "e").exists()
    with pytest.warns(UserWarning, match="are not in"):
        rechunk_by_attribute(tmp_path / "a", "size", output=tmp_path / "f")
    zvf.open(tmp_path / "a").build_pyramid(levels=1)
    with pytest.raises(ArrayError, match="would drop it"):
        add_geometry(tmp_path / "a", "mesh", positions=np.eye(3), faces=[[0, 1, 2]])
    assert zv.open(tmp_path / "a").levels == (0, 1)


def test_levels_by_strategies_of_others(tmp_path):
    from zvf.compat.multiresolution.coarsen import build_pyramid, coarsen_level
    from zvf.compat.multiresolution.registry import register_coarsen_strategy, register_selection_strategy

    write_polylines(tmp_path / "p", [np.full((2, 3), 40.0 * i) for i in range(8)], chunk_shape=CHUNK)
    register_selection_strategy("test-last", lambda n, k, **_: np.arange(n - k, n))
    seen = []
    register_coarsen_strategy("test-nothing", lambda **words: seen.append(words) or {"vertex_count": 0})
    spec = build_pyramid(tmp_path / "p", factors=[(2, 4)], sparsity_strategy="test-last")["level_specs"][0]
    assert (spec["objects_kept"], spec["source_objects"]) == (2, 8)
    assert zv.open(tmp_path / "p")[1].objects.ids().tolist() == [6, 7]
    assert coarsen_level(tmp_path / "p", 1, 2, coarsen_factor=2)["vertex_count"] > 0
    assert zv.open(tmp_path / "p")[1].objects.ids().tolist() == [6, 7], "the level below keeps what it has"
    build_pyramid(tmp_path / "p", factors=[(2, 1)], method="test-nothing", options={"more": 1})
    assert seen[0]["target_level"] == 1 and seen[0]["more"] == 1
    for words, error in (
        ({"factors": [2.0]}, ValueError), ({"factors": [(2, 1)], "chunk_scale_factors": []}, ValueError),
        ({"factors": [(2, 1)], "sparsity_strategy": "none", }, None), ({"factors": [(2, 2)], "sparsity_strategy": "no"}, ValueError),
        ({"factors": [(2, 1)], "cross_level_depth": -2}, ValueError), ({"factors": [(2, 1)], "method": "no"}, ValueError),
        ({"factors": [(2, 1)], "options": {"a": 1}}, zv.exceptions.CoarseningError), ({"factors": [(2, 1)], "chunk_scale_factors": [0]}, zv.exceptions.CoarseningError),
        ({"factors": [(0, 1)]}, zv.exceptions.CoarseningError), ({"factors": [(2, 1)], "cross_level_storage": "some"}, ValueError),
    ):  # fmt: skip
        if error is None:
            build_pyramid(tmp_path / "p", **words)
            continue
        with pytest.raises(error):
            build_pyramid(tmp_path / "p", **words)
    with pytest.raises(ValueError, match="built-in"):
        register_coarsen_strategy("per_object", print)


def test_metadata_and_helpers_are_those_of_the_reference(tmp_path):
    """The same values from the same calls, of modules that compute and store nothing."""
    import importlib

    write_points(tmp_path / "a", np.random.default_rng(9).uniform(0, 400, (300, 3)), chunk_shape=CHUNK, bin_shape=(50.0,) * 3)
    zv.open(tmp_path / "a", mode="r+").build_pyramid(factors=[(2.0, 1.0)])
    xyz = np.random.default_rng(1).uniform(-50, 50, (40, 3)).astype(np.float32)

    def outcomes(package):
        of = lambda name: importlib.import_module(f"{package}.{name}")  # noqa: E731
        chunking, meta, result = of("spatial.chunking"), of("core.metadata"), of("api.result")
        root = of("building").open_store(tmp_path / "a")
        block, level = of("building").read_root_metadata(root), of("building").read_level_metadata(root, 1)
        made = meta.LevelMetadata.from_parent(block, level, level=2, vertex_count=3, arrays_present=["vertices"], bin_scale_from_parent=2, chunk_scale_from_parent=2)
        bins = chunking.assign_bins(xyz, (5.0,) * 3)
        selection = of("api.select").Selection(near=([1, 2, 3], 4.0), objects=[3], attributes=["a"])
        calls = [
            lambda: {k: v.tolist() for k, v in chunking.assign_chunks(xyz, (10.0, 20.0, 30.0)).items()},
            lambda: chunking.assign_chunks(xyz, (10.0, 0.0, 30.0)),
            lambda: chunking.assign_chunks(xyz[0], (10.0,)),
            lambda: [a.tolist() for a in chunking.compute_bounds(xyz)] + [chunking.compute_bounds(xyz)[0].dtype],
            lambda: chunking.compute_bounds(xyz[:0]),
            lambda: (chunking.compute_grid_shape(([0.0], [100.0]), (10.0,)), chunking.grid_layout(([-5.0], [100.0]), (10.0,))),
            lambda: chunking.chunks_intersecting_bbox([-5.0, 0.0], [15.0, 9.0], (10.0, 10.0)),
            lambda: chunking.positions_in_bbox(xyz, [-9.0] * 3, [30.0] * 3).tolist(),
            lambda: {c: {n: r.tolist() for n, r in own.items()} for c, own in chunking.group_bins_by_chunk(bins, (2, 3, 4)).items()},
            lambda: [chunking.bin_to_chunk((-1, 5, 8), (2, 2, 4)), chunking.chunk_to_bin_range((1, -1), (4, 2)), chunking.fragment_index_to_bin(17, (1, 0, -1), (2, 3, 4))],
            lambda: (block.to_dict(), block.is_complete(), block.bins_per_chunk, meta.RootMetadata.from_dict(root.attrs.to_dict()).to_dict()),
            lambda: (level.to_dict(), made.to_dict(), meta.level_factor(block, made, level), meta.level_chunk_scale(block, made, level)),
            lambda: meta.RootMetadata.from_dict({}), lambda: meta.LevelMetadata.from_dict({}), lambda: meta.RootMetadata.from_dict({"zarr_vectors": {}}),
            lambda: meta.LevelMetadata(1, 0, []).validate(), lambda: meta.LevelMetadata(0, 0, [], bin_shape=(1.0,)).validate(),
            lambda: meta.build_axes_metadata(["z", "y"], ["space", "space"], ["um", None]), lambda: meta.build_axes_metadata(["z"], [], []),
            lambda: meta.validate_axes([{"name": "x", "type": "space"}, {"name": "t", "type": "time"}, {"name": "y", "type": "space"}]),
            lambda: meta.validate_conventions("explicit", "identity", "both", num_spatial_chunks=2),
            lambda: (meta.compute_bin_shape((2.0, 3.0), (2, 1)), meta.compute_bin_ratio((2.0,), (4.0,))), lambda: meta.compute_bin_ratio((2.0,), (3.0,)),
            lambda: {k: str(v) for k, v in selection.to_reader_kwargs(supports=("bbox", "object_ids", "attribute_names")).items()},
            lambda: selection.cells_pushed_down(supports=("chunks",)),
            lambda: result.ReadResult.from_lines({"endpoints": np.zeros((2, 2, 3))}, kind="line").edges.tolist(),
            lambda: result.ReadResult.from_polylines({"polylines": [[xyz[:2], xyz[2:5]]], "object_ids": [4]}, kind="polyline").parts,
        ]  # fmt: skip
        found = []
        for call in calls:
            try:
                found.append(call())
            except Exception as error:
                found.append(type(error).__name__)
        return found

    for number, (theirs, ours) in enumerate(zip(outcomes("zarr_vectors"), outcomes("zvf.compat"))):
        assert theirs == ours, number


def test_words_of_sessions(tmp_path):
    write_polylines(tmp_path / "p", [np.full((3, 3), 60.0 * i) for i in range(4)], chunk_shape=CHUNK, bin_shape=(50.0,) * 3)
    ds = zv.open(tmp_path / "p", mode="r+")
    ds.build_pyramid(factors=[(2.0, 1.0)])
    assert len(ds[1].objects[1].positions) == 1
    with ds.editing(refresh_pyramid="batch", message="one moves") as edit:
        edit.move_vertex(object=1, index=0, to=[175, 175, 175])
    assert edit.report.dirty_pyramid_levels == [] and edit.report.touched_chunks == [(0, (0, 0, 0)), (0, (1, 1, 1))]
    assert edit.report.to_dict()["touched_chunks"][1] == {"level": 0, "chunk": [1, 1, 1]}
    assert len(ds[1].objects[1].positions) == 2 and ds.validate(level=5).ok
    with pytest.raises(TypeError, match="editing"):
        ds.editing(atomicity=True)
    with zv.config(edits="reference"), ds.editing(in_place=True) as edit:
        edit.move_vertex(object=1, index=0, to=[80, 80, 80])
    assert edit.renamed() == {}
