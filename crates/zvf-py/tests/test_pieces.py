"""What can be written: answers, tables, frames, meshes, graphs; and adding to a store."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import zvf

XYZ = np.random.default_rng(3).random((60, 3)) * 50


@pytest.fixture
def tracts(tmp_path):
    lines = [XYZ[i : i + 10] for i in range(0, 60, 10)]
    words = {"attributes": {"fa": np.arange(60.0)}, "object_attributes": {"length": np.arange(6.0)}, "groups": {"left": [0, 1]}}
    return zvf.polylines(tmp_path / "tracts", lines, streamlines=True, chunk=20.0, **words)


@pytest.fixture
def cloud(tmp_path):
    words = np.array(["p", "q", None], dtype=object)[np.arange(60) % 3]
    return zvf.points(tmp_path / "cloud", XYZ, attributes={"m": np.arange(60.0), "word": words}, object_ids=np.arange(60) % 4, chunk=20.0)


def test_answers_are_written_as_what_they_are(tmp_path, tracts, cloud):
    part = tracts.read(objects=[4, 1], attributes=["fa", "object.length"])
    again = zvf.write(tmp_path / "a", part)
    assert again.kinds == ("streamline",) and again.object_ids().tolist() == [1, 4]
    assert np.array_equal(again.read(objects=[4]).positions, tracts.read(objects=[4]).positions)
    assert again.read(objects=[4])["fa"].tolist() == list(range(40, 50))
    assert [view["attributes"]["length"] for view in again.objects([1, 4])] == [1.0, 4.0]
    whole = zvf.write(tmp_path / "b", cloud)
    assert sorted(whole.read(objects=[3])["m"]) == list(range(3, 60, 4)), "the objects of a dataset come along"
    assert set(whole.read()["word"]) == {"p", "q", None}
    mesh = zvf.mesh(tmp_path / "m", XYZ[:4], [[0, 1, 2], [1, 2, 3]], face_attributes={"f": [5, 6]})
    copied = zvf.write(tmp_path / "n", mesh.select()).read()
    assert copied.kind == "mesh" and sorted(copied["f"]) == [5, 6] and len(copied.faces) == 2
    with pytest.raises(ValueError, match="cannot be written as"):
        zvf.write(tmp_path / "o", mesh, kind="polyline")
    assert not (tmp_path / "o").exists()


def test_batches_go_from_one_store_to_another(tmp_path, tracts, cloud):
    with zvf.create(tmp_path / "a", kind="streamline", chunk=20.0) as w:
        for batch in tracts.select().batches(rows=20):
            w.push(batch)
    assert np.array_equal(zvf.open(tmp_path / "a").read(objects=[5]).positions, tracts.read(objects=[5]).positions)
    with zvf.create(tmp_path / "b", chunk=20.0) as w:
        for batch in cloud.select(attributes=["m"]).batches(rows=7):
            w.push(batch)
    assert sorted(zvf.open(tmp_path / "b").read()["m"]) == list(range(60))
    with pytest.raises(ValueError), zvf.create(tmp_path / "c", kind="streamline", chunk=20.0) as w:
        w.push(cloud.read(attributes=[]))
    assert not (tmp_path / "c").exists()


def test_tables_are_lines_where_that_is_said(tmp_path, tracts):
    import polars as pl
    import pyarrow as pa

    for number, table in enumerate([pa.table(tracts.read()), pl.DataFrame(tracts.read())]):
        ds = zvf.write(tmp_path / str(number), table, kind="streamline")
        assert ds.kinds == ("streamline",) and ds.object_ids().tolist() == list(range(6))
        assert np.array_equal(ds.read(objects=[2]).positions, tracts.read(objects=[2]).positions)
    with zvf.create(tmp_path / "p", kind="polyline", chunk=20.0) as w:
        w.push(pa.table(tracts.read()))
    assert zvf.open(tmp_path / "p").object_ids().tolist() == list(range(6))


def test_arrow_of_any_layout(tmp_path):
    import pyarrow as pa

    xy = {"x": pa.chunked_array([[1.0], [2.0, 3.0]]), "y": pa.array([1.0, 2.0, 3.0])}
    words = pa.array(["a", None, "b"])
    table = pa.table({**xy, "w": words, "d": words.dictionary_encode(), "f": pa.array([0.5, None, 1.5]), "b": pa.array([True, False, True])})
    answer = zvf.write(tmp_path / "a", table).read()
    order = np.argsort(answer.positions[:, 0])
    assert answer["w"][order].tolist() == answer["d"][order].tolist() == ["a", None, "b"]
    assert np.array_equal(answer["f"][order], [0.5, np.nan, 1.5], equal_nan=True) and answer["b"][order].tolist() == [True, False, True]
    lists = pa.table({"position": pa.array([[1.0, 2.0], [3.0, 4.0]]), "c": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))})
    found = zvf.write(tmp_path / "b", lists.slice(1)).read()
    assert found.positions.tolist() == [[3.0, 4.0]] and found["c"].tolist() == [[3, 4]]
    outside = pa.DictionaryArray.from_arrays(pa.array([0, 5, 1]), pa.array(["a", "b"]), safe=False)
    for bad in (outside, pa.array([[1.0], [1.0, 2.0], [1.0]]), pa.array([{"a": 1}] * 3), pa.array([[1.0], None, [2.0]])):
        with pytest.raises(ValueError, match="column \"bad\""):
            zvf.write(tmp_path / "c", pa.table({**xy, "bad": bad}))
    assert not (tmp_path / "c").exists()


def test_neighbours_take_answers(tracts):
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    answer = tracts.read()
    query = tracts.select(where="fa >= 30")
    assert duckdb.sql("select count(*), sum(fa) from answer").fetchall() == [(60, 1770.0)]
    assert duckdb.sql("select count(*) from query").fetchall() == [(30,)]
    assert pd.DataFrame.from_arrow(answer).shape == answer.to_pandas().shape[:1] + (4,)
    assert pl.DataFrame(query).height == pa.table(query).num_rows == answer.to_polars().filter(pl.col("fa") >= 30).height
    address = np.asarray(answer.positions).__array_interface__["data"][0]
    arrow = pa.table(answer)["position"].chunk(0).values.buffers()[1]
    assert arrow.address == address, "Arrow has the same bytes"


def test_things_of_other_packages(tmp_path):
    import meshio
    import networkx as nx
    import pandas as pd
    import trimesh

    box = trimesh.creation.box()
    box.vertex_attributes["h"], box.face_attributes["k"] = np.arange(8.0), np.arange(12)
    mesh = zvf.write(tmp_path / "a", box).read()
    assert len(mesh) == 8 and len(mesh.faces) == 12 and sorted(mesh["h"]) == list(range(8)) and sorted(mesh["k"]) == list(range(12))
    cells = [("triangle", [[0, 1, 2]]), ("triangle", [[3, 4, 5]])]
    made = zvf.write(tmp_path / "b", meshio.Mesh(XYZ[:6], cells, point_data={"a": np.arange(6.0)}, cell_data={"c": [[1.0], [2.0]]})).read()
    assert len(made.faces) == 2 and sorted(made["c"]) == [1.0, 2.0]
    with pytest.raises(ValueError, match="line, triangle"):
        zvf.write(tmp_path / "x", meshio.Mesh(XYZ[:6], [("triangle", [[0, 1, 2]]), ("line", [[3, 4]])]))
    path = nx.path_graph(4)
    for node in path.nodes:
        path.nodes[node].update(pos=(node, 0.0, 1.0), r=node * 2.0)
    nx.set_edge_attributes(path, 2.5, "w")
    graph = zvf.write(tmp_path / "c", path).read()
    assert len(graph.edges) == 3 and sorted(graph["r"]) == [0.0, 2.0, 4.0, 6.0] and graph["w"].tolist() == [2.5] * 3
    path.nodes[0]["only"] = 1
    with pytest.raises(ValueError, match="'only': 3 of 4"):
        zvf.write(tmp_path / "x", path)
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0], "w": pd.Categorical(["a", None], categories=["b", "a"]), "n": [1, 2]})
    found = zvf.write(tmp_path / "d", frame).read()
    assert dict(zip(found["n"].tolist(), found["w"].tolist())) == {1: "a", 2: None}
    assert not (tmp_path / "x").exists()


def test_a_store_is_added_to(tmp_path, tracts, cloud):
    assert tracts.append([XYZ[:3], XYZ[3:7]], attributes={"fa": np.zeros(7)}, object_attributes={"length": [7.0, 8.0]}).count() == 67
    assert tracts.object_ids().tolist() == list(range(8)) and tracts.objects([7])[0]["attributes"]["length"] == 8.0
    assert np.array_equal(tracts.read(objects=[7]).positions, XYZ[3:7])
    before = tracts.object_ids()
    with pytest.raises(ValueError):
        tracts.append([XYZ[:3]], attributes={"fa": np.zeros(3)}, part_ids=[5])  # the id is used
    assert np.array_equal(zvf.open(tracts.address).object_ids(), before)
    assert np.isnan(tracts.append([XYZ[:3]]).read(objects=[8])["fa"]).all(), "a column of floats that is not given is NaN"
    with pytest.raises(ValueError, match="word"):
        cloud.append(XYZ[:3], attributes={"m": np.zeros(3)})  # one of text must be given
    more = {"m": [1.5, 2.5], "word": ["z", "p"]}
    assert cloud.append(XYZ[:2] + 100, attributes=more, object_ids=[9, 9], message="two more").count(where="word = 'z'") == 1
    assert cloud.read(objects=[9])["m"].tolist() == [1.5, 2.5] and cloud.log()[0]["message"] == "two more"
    other = zvf.points(tmp_path / "other", XYZ[:5], attributes={"m": np.zeros(5), "word": ["p"] * 5}, object_ids=[0] * 5, groups={"new": [0]})
    assert cloud.append(other).groups["new"].tolist() == [10]
    assert cloud.validate(level=5).ok and tracts.validate(level=5).ok
    with pytest.raises(TypeError):
        cloud.append(other, attributes={})
    assert [name for name in os.listdir(tmp_path) if name.startswith("zvf-append")] == []


def test_progress_counts(tmp_path, cloud):
    for work in (
        lambda progress: cloud.validate(level=5, progress=progress),
        lambda progress: cloud.build_pyramid(levels=2, progress=progress),
        lambda progress: zvf.shard(cloud, tmp_path / "sharded", cells=2, progress=progress),
    ):
        seen = []
        work(lambda done, total: seen.append((done, total)))
        assert seen and seen[-1][0] > 0 and all(total is None or total >= done >= 0 for done, total in seen)


def test_a_bar_of_tqdm(cloud, capsys):
    cloud.validate(level=5, progress=True)
    assert "validate" in capsys.readouterr().err


def test_everything_shows_itself_in_a_notebook(tracts):
    for thing in (tracts, tracts.level(0), tracts.select(where="fa > 3"), tracts.read(), tracts.validate(level=5), tracts.info()):
        shown = thing._repr_html_()
        assert "<table>" in shown and "<script" not in shown
    assert 'src="data:image/png;base64,' in tracts.read()._repr_html_() and 'src="data:image/png' in tracts._repr_html_()
    assert "&lt;b&gt;" in tracts.select(where="fa = '<b>'")._repr_html_()


def test_what_is_written_in_pieces_pickles_not(tmp_path):
    writer = zvf.create(tmp_path / "a", chunk=1.0)
    with pytest.raises(TypeError):
        pickle.dumps(writer)
    writer.abandon()
