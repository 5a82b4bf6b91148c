"""Objects of other libraries on their way in and out: nothing is dropped or changed without a word."""

from __future__ import annotations

import pickle
import threading
import warnings

import geopandas
import networkx as nx
import nibabel as nib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import shapely
import trimesh
import zvf

CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
SIDES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])


@pytest.fixture
def silent():
    """Nothing is warned of: nothing is lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def by_place(answer, values):
    """Values in the order of the coordinates."""
    return np.asarray(values)[np.lexsort(answer.positions.T)]


def test_a_name_that_no_path_can_hold_is_told(tmp_path):
    with pytest.warns(zvf.LossWarning, match="column 'dose/mg' is stored as 'dose%2Fmg'"):
        ds = zvf.points(tmp_path / "a.zarrvectors", CORNERS, attributes={"dose/mg": np.arange(4)})
    assert sorted(ds.read()["dose%2Fmg"]) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="dose%2Fmg.*strict=True"):
        zvf.points(tmp_path / "b.zarrvectors", CORNERS, attributes={"dose/mg": np.arange(4)}, strict=True)


def test_a_tractogram_keeps_its_columns_and_its_place(tmp_path, silent):
    lines = [np.array([[1.0, 2, 3], [4, 5, 6]], "f4"), np.array([[7.0, 8, 9]] * 3, "f4")]
    per_point = {"fa": [np.array([[0.5], [0.25]], "f4"), np.ones((3, 1), "f4")], "dir": [np.ones((2, 3), "f4"), np.zeros((3, 3), "f4")]}
    tracts = nib.streamlines.Tractogram(lines, data_per_streamline={"len": np.array([[1.0], [2.0]])}, data_per_point=per_point, affine_to_rasmm=np.diag([2, 2, 2, 1]))
    ds = zvf.write(tmp_path / "a.zarrvectors", tracts)
    answer = ds.read(order="objects")
    assert ds.kinds == ("streamline",) and ds.axes[0]["unit"] == "millimeter"
    assert answer.parts[0].tolist() == [[2, 4, 6], [8, 10, 12]] and answer.positions.dtype == np.float32
    assert answer["fa"].tolist() == [0.5, 0.25, 1, 1, 1] and answer["dir"].shape == (5, 3) and ds.object_table()["object.len"].tolist() == [1, 2]
    back = answer.to_nibabel()
    assert np.array_equal(back.streamlines[0], lines[0] * 2) and np.array_equal(back.data_per_point["dir"][0], per_point["dir"][0])
    assert back.data_per_streamline["len"].ravel().tolist() == [1, 2]
    nib.streamlines.save(back, str(tmp_path / "a.trk"))
    with pytest.warns(zvf.LossWarning, match="header"):
        again = zvf.write(tmp_path / "b.zarrvectors", nib.streamlines.load(str(tmp_path / "a.trk")))
    assert np.allclose(again.read(order="objects").positions, answer.positions, atol=1e-5)


def test_a_mesh_keeps_colours_normals_and_places_in_its_texture(tmp_path, silent):
    colours = np.arange(16, dtype=np.uint8).reshape(4, 4)
    given = trimesh.Trimesh(CORNERS, SIDES, vertex_colors=colours, vertex_normals=CORNERS, process=False)
    answer = zvf.write(tmp_path / "a.zarrvectors", given).read()
    assert by_place(answer, answer["color"]).tolist() == colours[np.lexsort(CORNERS.T)].tolist() and "normal" in answer
    back = answer.to_trimesh()
    assert by_place(answer, back.visual.vertex_colors).tolist() == colours[np.lexsort(CORNERS.T)].tolist() and back.area == pytest.approx(given.area)
    faces = zvf.write(tmp_path / "f.zarrvectors", trimesh.Trimesh(CORNERS, SIDES, face_colors=colours, process=False)).read()
    assert sorted(faces.to_trimesh().visual.face_colors.tolist()) == colours.tolist()
    textured = trimesh.Trimesh(CORNERS, SIDES, process=False, visual=trimesh.visual.TextureVisuals(uv=CORNERS[:, :2], material=trimesh.visual.material.SimpleMaterial()))
    with pytest.warns(zvf.LossWarning, match="material"):
        assert zvf.write(tmp_path / "t.zarrvectors", textured).read()["uv"].shape == (4, 2)
    with pytest.raises(ValueError, match="strict=True"):
        zvf.write(tmp_path / "s.zarrvectors", textured, strict=True)


def test_scenes_clouds_and_paths_of_trimesh(tmp_path, silent):
    scene = trimesh.Scene()
    for name, shift in (("left", 0.0), ("right", 10.0)):
        scene.add_geometry(trimesh.Trimesh(CORNERS, SIDES, process=False), node_name=name, transform=trimesh.transformations.translation_matrix([shift, 0, 0]))
    ds = zvf.write(tmp_path / "s.zarrvectors", scene)
    assert ds.bounds[1].tolist() == [11, 1, 1] and len(ds.read(where="object.name = 'right'")) == 4 and len(ds.read().faces) == 8
    cloud = zvf.write(tmp_path / "c.zarrvectors", trimesh.PointCloud(CORNERS, colors=np.full((4, 4), 7, np.uint8))).read()
    assert cloud.kind == "point_cloud" and cloud["color"].tolist() == [[7] * 4] * 4 and cloud.to_trimesh().colors.tolist() == [[7] * 4] * 4
    path = trimesh.path.Path3D(entities=[trimesh.path.entities.Line([0, 1, 2]), trimesh.path.entities.Line([2, 3])], vertices=CORNERS)
    lines = zvf.write(tmp_path / "p.zarrvectors", path).read()
    assert [len(part) for part in lines.parts] == [3, 2] and len(lines.to_trimesh().entities) == 2


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_a_graph_keeps_its_names_and_text(tmp_path, kind):
    graph = kind()
    for name, place in (("tip", [9.0, 0, 0]), ("soma", [0.0, 0, 0]), ("fork", [5.0, 0, 0])):
        graph.add_node(name, pos=place, size=len(name))
    graph.add_edge("fork", "soma", word="axon", weight=1.5)
    graph.add_edge("tip", "fork", word="dendrite", weight=2.5)
    if kind is nx.MultiGraph:
        graph.add_edge("tip", "fork", word="twin", weight=3.5)
    back = zvf.write(tmp_path / "a.zarrvectors", graph).read().to_networkx()
    assert type(back) is kind and nx.utils.graphs_equal(back, graph)
    numbered = nx.relabel_nodes(graph, {"tip": 7, "soma": 3, "fork": 5})
    assert set(zvf.write(tmp_path / "b.zarrvectors", numbered).read().to_networkx()) == {3, 5, 7}
    graph.graph["name"] = "a tree"
    with pytest.warns(zvf.LossWarning, match="name"):
        zvf.write(tmp_path / "c.zarrvectors", graph)


def test_a_frame_keeps_its_index_and_what_is_called_like_a_part(tmp_path, silent):
    frame = pd.DataFrame({"x": [0.0, 1], "y": 0.0, "part": [5, 6], "layer": pd.Categorical([20, 10])}, index=pd.Index(["cell-a", "cell-b"], name="barcode"))
    ds = zvf.write(tmp_path / "a.zarrvectors", frame)
    back = ds.read().to_pandas().sort_values("x")
    assert back["barcode"].tolist() == ["cell-a", "cell-b"] and back["part"].tolist() == [5, 6] and back["layer"].tolist() == [20, 10]
    assert ds.count(where="layer = 10") == 1 and ds.count(where="barcode = 'cell-b'") == 1
    several = frame.reset_index().set_index(["barcode", "part"])
    assert set(zvf.write(tmp_path / "b.zarrvectors", several).level(0).attributes) == {"barcode", "part", "layer"}
    plain = zvf.write(tmp_path / "c.zarrvectors", frame.reset_index(drop=True))
    assert "index" not in plain.level(0).attributes
    with pytest.raises(ValueError, match="two columns 'part'"):
        zvf.write(tmp_path / "d.zarrvectors", pd.concat([frame, frame[["part"]]], axis=1))


def test_axes_are_the_same_from_a_frame_and_from_its_file(tmp_path):
    frame = pd.DataFrame({name: np.arange(3.0) for name in "xyzt"} | {"v": [1, 2, 3]})
    frame.to_parquet(tmp_path / "a.parquet")
    from_file, from_frame = zvf.ingest(tmp_path / "a.parquet", tmp_path / "f.zarrvectors"), zvf.write(tmp_path / "a.zarrvectors", frame)
    assert from_file.axes == from_frame.axes and from_frame.level(0).attributes == ["v"]
    moments = zvf.write(tmp_path / "b.zarrvectors", frame.assign(t=pd.Timestamp("2024-01-01")))
    assert moments.ndim == 3 and moments.read()["t"].dtype.kind == "M"


def test_lists_of_tables_say_what_they_are(tmp_path, silent):
    frames = [pd.DataFrame({"x": [0.0, 1], "y": 0.0, "v": [1, 2]}), pd.DataFrame({"x": [5.0], "y": 0.0, "v": [3]})]
    with pytest.raises(ValueError, match="kind='polyline'"):
        zvf.write(tmp_path / "a.zarrvectors", frames)
    assert zvf.write(tmp_path / "b.zarrvectors", frames, kind="point_cloud").read()["v"].tolist() == [1, 2, 3]
    assert [len(part) for part in zvf.write(tmp_path / "c.zarrvectors", frames, kind="polyline").read().parts] == [2, 1]
    records = np.array([(0.0, 1.0, 7)], dtype=[("x", "f8"), ("y", "f8"), ("n", "i4")])
    assert zvf.write(tmp_path / "d.zarrvectors", records).read()["n"].tolist() == [7]


def test_columns_called_like_those_of_every_table(tmp_path, silent):
    words = {name: [7, 8] for name in ("x", "position", "object", "part")}
    answer = zvf.points(tmp_path / "a.zarrvectors", [[0.0, 0], [1, 0]], attributes=words).read()
    frame, table, polars = answer.to_pandas(), answer.to_arrow(), answer.to_polars()
    assert frame["x"].tolist() == [0, 1] and frame["vertex.x"].tolist() == [7, 8] and frame["vertex.object"].tolist() == [7, 8]
    assert len(set(table.column_names)) == len(table.column_names) and table["vertex.position"].to_pylist() == [7, 8]
    assert polars["vertex.part"].to_list() == [7, 8] and answer["position"].tolist() == [7, 8]


def test_frames_have_text_as_pandas_makes_it_of_objects(tmp_path):
    answer = zvf.points(tmp_path / "a.zarrvectors", np.eye(4, 2), attributes={"word": np.array(["b", None, "", "é"], object)}).read()
    for part in (answer, answer[:0], answer[answer["word"] == None], answer[answer["word"] != None]):  # noqa: E711
        made, frame = pd.DataFrame({"word": part["word"]}), part.to_pandas()[["word"]]
        pd.testing.assert_frame_equal(frame, made)
        assert type(frame["word"].array) is type(made["word"].array)


def test_frames_of_geometries(tmp_path, silent):
    points = geopandas.GeoDataFrame({"n": [1, 2]}, geometry=shapely.points([[0.0, 0], [1, 1]]), crs="EPSG:4326")
    ds = zvf.write(tmp_path / "a.zarrvectors", points)
    back = ds.read().to_geopandas()
    assert back.geom_equals(points).all() and back.crs == points.crs and back["n"].tolist() == [1, 2]
    lines = geopandas.GeoDataFrame({"name": ["a", "b"]}, geometry=[shapely.LineString([[0, 0], [1, 1]]), shapely.LineString([[2, 2], [3, 3], [4, 3]])])
    back = zvf.write(tmp_path / "b.zarrvectors", lines).read(order="objects").to_geopandas()
    assert back.geom_equals(lines).all() and back["name"].tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="explode"):
        zvf.write(tmp_path / "c.zarrvectors", geopandas.GeoDataFrame(geometry=[shapely.MultiPoint([[0, 0], [1, 1]])]))


def test_an_answer_is_taken_apart(tmp_path):
    ds = zvf.mesh(tmp_path / "a.zarrvectors", CORNERS, SIDES, attributes={"word": list("abcd"), "n": np.ma.masked_array([1, 2, 3, 4], [0, 1, 0, 0])}, face_attributes={"k": [1, 2, 3, 4]})
    answer = ds.read()
    keep = answer["word"] != "d"
    part = answer[keep]
    assert len(part) == 3 and len(part.faces) == 1 and set(part["word"]) == {"a", "b", "c"} and part["n"].mask.sum() == 1
    assert np.array_equal(part.positions[part.faces[0]], answer.positions[keep][part.faces[0]]) and len(part.to_arrow()) == 3
    assert len(answer.head(2)) == len(answer[:2]) == len(answer[[0, 1]]) == 2 and answer.nbytes > 4 * 24
    again = pickle.loads(pickle.dumps(answer))
    assert again.to_pandas().equals(answer.to_pandas()) and np.array_equal(again.faces, answer.faces) and again.complete and again.level == 0
    assert answer.to_pandas("faces")["k"].tolist() == again.to_polars("faces")["k"].to_list() == answer.to_arrow("faces")["k"].to_pylist()
    with pytest.raises(ValueError, match="edges of a graph"):
        answer.to_pandas("edges")
    for wrong in (pd.DataFrame, np.asarray):
        with pytest.raises(TypeError, match="to_pandas"):
            wrong(answer)
    query = ds.select(where="n > 1")
    assert len(query) == 2 and sum(len(batch) for batch in query) == 2 and pl.DataFrame(query).height == 2
    tracts = zvf.polylines(tmp_path / "b.zarrvectors", [CORNERS, CORNERS[:2] + 10, CORNERS[:3] + 20], object_attributes={"name": ["a", "b", "c"]})
    copy = zvf.write(tmp_path / "c.zarrvectors", tracts)
    assert copy.object_table()["object.name"].tolist() == ["a", "b", "c"]
    lines = tracts.read(order="objects")
    some = lines[lines.positions[:, 0] != 10]
    assert [len(part) for part in some.parts] == [4, 1, 3] and some.part_ids.tolist() == [0, 1, 2]
    table = tracts.object_table()
    assert table["length"].tolist() == pytest.approx([1 + 2 * 2**0.5, 1, 1 + 2**0.5]) and table["vertices"].tolist() == [4, 2, 3]
    assert table["x_min"].tolist() == [0, 10, 20] and table["object.name"].tolist() == ["a", "b", "c"] and len(pd.DataFrame(table)) == 3


def test_a_dataset_stays_at_a_commit_or_follows(tmp_path):
    ds = zvf.points(tmp_path / "a.zarrvectors", CORNERS, object_ids=[0, 1, 2, 3], object_attributes={"n": [0, 0, 0, 0]})
    for value in (1, 2, 3):
        with ds.edit() as edit:
            edit.set("n", object=0, value=value)

    def value_at(source):
        return int(source.read(objects=[0], attributes=["object.n"])["object.n"][0])

    log = ds.log()
    stays = {commit: zvf.open(ds, commit=commit) for commit in (0, 1, 2, 3)}
    assert {commit: value_at(source) for commit, source in stays.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
    by_name = next(entry for entry in log if entry["head"] == 2)["txid"]
    assert value_at(zvf.open(ds, commit=by_name)) == 2 and stays[1].head == 1 and ds.head == 3
    with ds.edit() as edit:
        edit.remove(object=1)
    assert len(stays[2].read()) == 4 and len(ds.read()) == 3 and pickle.loads(pickle.dumps(stays[2])).head == 2
    stays[2].refresh()
    assert value_at(stays[2]) == 2
    with pytest.raises(FileNotFoundError, match="no commit 9"):
        zvf.open(ds, commit=9)
    with pytest.raises(FileNotFoundError, match="no commit 'abc'"):
        zvf.open(ds, commit="abc")
    for change in (stays[2].edit, lambda: stays[2].append(CORNERS), stays[2].build_pyramid, stays[2].undo):
        with pytest.raises(ValueError, match="stays at commit 2"):
            change()
    ds.undo(commit=next(entry for entry in ds.log() if entry["head"] == 4)["txid"])
    assert len(ds.read()) == 4


def test_what_is_read_in_a_transaction_belongs_to_it(tmp_path):
    ds = zvf.points(tmp_path / "a.zarrvectors", CORNERS, object_ids=[0, 1, 2, 3], object_attributes={"n": [0, 0, 0, 0]})

    def add_often(count):
        own = zvf.open(ds)
        for _ in range(count):
            while True:
                try:
                    with own.edit() as edit:
                        found = int(own.read(objects=[0], attributes=["object.n"])["object.n"][0])
                        edit.set("n", object=0, value=found + 1)
                    break
                except zvf.errors.ConflictError:
                    pass

    threads = [threading.Thread(target=add_often, args=(25,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(ds.read(objects=[0], attributes=["object.n"])["object.n"][0]) == 50
    with ds.edit() as edit:
        zvf.open(ds).append(CORNERS + 5, object_ids=[7, 7, 7, 7], object_attributes={"n": [1]})
        edit.set("n", object=1, value=9)  # reads nothing, and is of another object
    with ds.edit() as edit:
        assert len(ds.read()) == 8 and ds.head == 52
        with zvf.open(ds).edit() as other:
            other.remove(object=7)
        assert len(ds.read()) == 8
    assert len(ds.read()) == 4
    edit = ds.edit()
    edit.set("n", object=1, value=1)
    edit.commit()
    for late in (edit.commit, lambda: edit.remove(object=1)):
        with pytest.raises(ValueError, match="begin another"):
            late()
