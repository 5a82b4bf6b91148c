"""What somebody who is new tries in a notebook, wrong values first: each says what was expected, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os

import fsspec
import numpy as np
import pytest
import zvf

XYZ = np.random.default_rng(2).random((300, 3))


@pytest.fixture
def cloud(tmp_path):
    words = {"attributes": {"mass": np.arange(300.0)}, "object_ids": np.arange(300) % 5, "groups": {"left": [1, 2]}}
    return zvf.points(tmp_path / "cloud.zarrvectors", XYZ, **words)


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ({"box": [1, 2, 3]}, TypeError, "lowest and the highest corner"),
        ({"box": [0, 0, 0, 1, 1, 1]}, TypeError, "lowest and the highest corner"),
        ({"box": ([[0, 0, 0]], [1, 1, 1])}, TypeError, "list of coordinates"),
        ({"box": ([0, 0], [1, 1])}, ValueError, "2 axes"),
        ({"box": ([np.nan, 0, 0], [1, 1, 1])}, ValueError, "NaN"),
        ({"ball": ([0, 0, 0], "wide")}, TypeError, "a number"),
        ({"ball": ([0, 0, 0], -1)}, ValueError, "radius"),
        ({"half_spaces": ([1, 0, 0], 0.5)}, TypeError, "pairs of a normal and an offset"),
        ({"prism": ([[0, 0], [1, 0], [1, 1]], (0, 7), ([0, 0, 0], [1, 1, 1]))}, ValueError, "two different axes"),
        ({"prism": ([[0, 0], [1, 0], [1, 1]], (-1, 0), ([0, 0, 0], [1, 1, 1]))}, ValueError, "two different axes"),
        ({"objects": [1.5]}, TypeError, "whole numbers"),
        ({"objects": [2**63]}, ValueError, "64 bits"),
        ({"groups": "right"}, KeyError, "left"),
        ({"groups": -1}, ValueError, "negative"),
        ({"where": {"mass": 3}}, TypeError, "mass > 3"),
        ({"where": "mass >>> 3"}, ValueError, "character"),
        ({"where": "mas > 3"}, KeyError, "mas"),
        ({"attributes": 3}, TypeError, "names of columns"),
        ({"level": 0.5}, TypeError, "max_vertices"),
        ({"level": -1}, ValueError, "from 0"),
        ({"limit": 2.5}, TypeError, "whole number"),
        ({"mode": 1}, TypeError, "text"),
        ({"bbox": ([0, 0, 0], [1, 1, 1])}, TypeError, "box"),
    ],
)
def test_a_wrong_question_says_what_was_expected(cloud, words, error, said):
    with pytest.raises(error, match=said):
        cloud.read(**words)
    assert cloud.count() == 300


def test_questions_in_asyncio_are_the_same(cloud):
    async def ask():
        ds = await zvf.aopen(cloud.address)
        q = ds.select(where="mass < 10")
        return await q.acount(), await ds.acount(), (await q.aplan())["text"], (await q.acounts())["complete"]

    assert asyncio.run(ask()) == (10, 300, cloud.select(where="mass < 10").explain(), True)
    with pytest.raises(FileNotFoundError):
        asyncio.run(zvf.aopen(cloud.address + "x"))


def test_a_closed_dataset_is_refused_everywhere(tmp_path):
    ds = zvf.polylines(tmp_path / "a.zarrvectors", [np.zeros((2, 3)), np.ones((2, 3))])
    query, edit = ds.select(), ds.edit()
    edit.remove(object=0)
    ds.info()
    ds.close()
    calls = (ds.info, ds.read, query.read, query.count, ds.refresh, ds.log, ds.undo, ds.validate, ds.edit, ds.view, edit.commit, ds.__len__)
    for call in (*calls, lambda: ds.build_pyramid(levels=1), lambda: ds.append(np.zeros((2, 3)))):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert "closed" in repr(ds) and "closed" in ds._repr_html_()
    assert zvf.open(ds.address).object_ids().tolist() == [0, 1]


def test_room_in_words(cloud):
    assert zvf.open(cloud.address, memory="1GiB").count() == 300
    for memory in ("much", -1, "1 parsec"):
        with pytest.raises(ValueError, match="bytes"):
            zvf.open(cloud.address, memory=memory)


def test_a_folder_that_may_not_be_written_to(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "file").touch()
    with pytest.raises(OSError):
        zvf.points(folder / "file" / "a.zarrvectors", XYZ)
    os.chmod(folder, 0o555)
    try:
        if os.geteuid():
            with pytest.raises(PermissionError):
                zvf.points(folder / "a.zarrvectors", XYZ)
        else:  # nothing is closed to root
            assert zvf.points(folder / "a.zarrvectors", XYZ).count() == 300
    finally:
        os.chmod(folder, 0o755)


def test_paths_of_fsspec(cloud):
    class UPath:  # as universal_pathlib has it, of a protocol that is no path of this machine
        fs, path = fsspec.filesystem("file"), cloud.address

    assert zvf.open(UPath()).count() == 300
    with pytest.raises(TypeError, match="get_mapper"):
        zvf.open(fsspec.filesystem("file"))


def test_what_is_begun_shows_itself(tmp_path, cloud):
    writer = zvf.create(tmp_path / "b.zarrvectors", kind="point_cloud")
    writer.push(XYZ)
    assert "300 vertices" in repr(writer)
    writer.finish()
    assert "finished" in repr(writer)
    assert "0 operations" in repr(cloud.edit())
    zvf.convert(cloud, tmp_path / "a.csv")
    assert "tasks" in repr(zvf.tasks(tmp_path / "a.csv", tmp_path / "c.zarrvectors"))
    tensor = zvf.save_tensor(tmp_path / "t.b2nd", np.arange(6.0).reshape(2, 3))
    assert "(2, 3)" in tensor._repr_html_() and "float64" in tensor._repr_html_()
