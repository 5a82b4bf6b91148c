"""The table of the guide "from zarr-vectors to zvf": both sides of its rows, on one store, with one result."""

from __future__ import annotations

import numpy as np
import pytest
import zvf
import zvf.compat as zv
from zvf.compat.lazy import open_zv

BOX = ([0.0, 0.0, 0.0], [60.0, 60.0, 60.0])


@pytest.fixture
def cloud(tmp_path):
    xyz = np.random.default_rng(0).uniform(0, 100, (300, 3)).astype(np.float32)
    words = {"gene": np.array(["A", "B"])[np.arange(300) % 2], "fa": np.arange(300.0)}
    return zvf.points(tmp_path / "cloud.zarrvectors", xyz, attributes=words, chunk=25.0)


@pytest.fixture
def tracts(tmp_path):
    rng = np.random.default_rng(1)
    lines = [rng.uniform(0, 100, (6, 3)) for _ in range(10)]
    return zvf.polylines(
        tmp_path / "tracts.zarrvectors", lines, streamlines=True, attributes={"fa": np.arange(60.0)},
        groups={"left": [1, 2]}, object_attributes={"length": np.arange(10.0)}, chunk=25.0,
    )


def rows(array):
    return sorted(map(tuple, np.asarray(array).tolist()))


def test_rows_about_questions(cloud, tracts):
    old, old_tracts = zv.open(cloud.address), zv.open(tracts.address)
    assert rows(old.read().positions) == rows(cloud.read().positions)
    assert rows(old.select(bbox=BOX).read().positions) == rows(cloud.select(box=BOX).read().positions)
    near = ([50, 50, 50], 20.0)
    assert rows(old.select(near=near).read().positions) == rows(cloud.select(ball=near).read().positions)
    assert rows(old.select(where={"gene": "A"}).read().positions) == rows(cloud.select(where="gene = 'A'").read().positions)
    ids = old_tracts.select(objects=[7, 1], groups=[0]).read().part_objects.tolist()
    assert ids == [1] == tracts.select(objects=[7, 1], groups="left").read().part_ids.tolist()
    assert old.select(limit=10, attributes=["fa"]).read().vertex_count == len(cloud.select(limit=10, attributes=["fa"]).read()) == 10
    assert old.select(bbox=BOX).count() == cloud.select(box=BOX).count()
    assert old.select().explain() and cloud.select().explain() and cloud.select().plan() and old.select().plan()
    query = tracts.select(box=BOX)
    assert old_tracts.select(bbox=BOX).object_ids().tolist() == np.unique(query.read().part_ids).tolist()
    assert sum(part.vertex_count for _, part in old.select().iter_cells()) == sum(map(len, cloud.select().batches())) == 300


def test_rows_about_results(tracts):
    old, new = zv.open(tracts.address).read(), tracts.read()
    assert np.array_equal(old.positions, new.positions) and np.array_equal(old.attributes["fa"], new["fa"])
    assert [s.stop for s in old.parts] == new.offsets[1:].tolist()
    assert all(map(np.array_equal, old.polylines, new.parts)) and np.array_equal(old.part_objects, new.part_ids)
    assert old.complete == new.complete and old.truncated == new.truncated


def test_rows_about_stores(tracts):
    old = zv.open(tracts.address)
    assert np.array_equal(old.bounds, tracts.bounds) and old.kinds == tracts.kinds and old.ndim == tracts.ndim
    assert [axis["name"] for axis in old.axes] == [axis["name"] for axis in tracts.axes]
    assert list(old.levels) == [level.number for level in tracts.levels]
    assert np.array_equal(old.level(0).objects[7].positions, tracts.read(objects=[7]).positions)
    assert old.level(0).objects.ids().tolist() == tracts.object_ids().tolist()
    assert len(old.level(0).objects.manifests()) == len(tracts.objects())
    assert old.level(0).groups["left"].members.tolist() == tracts.groups["left"].tolist()
    zv.open(tracts.address, mode="r+").metadata["app"]["key"] = 1
    tracts.refresh()
    assert tracts.info()["user_metadata"] == {"app": {"key": 1}} and tracts.info()["headers"] == []


def test_rows_about_changes(tracts, tmp_path):
    with tracts.edit() as edit:
        edit.move(object=1, vertex=0, to=[1, 2, 3])
        edit.remove(object=9)
        edit.set("length", object=1, value=7.0)
    assert len(tracts.object_ids()) == 9
    tracts.build_pyramid(reference=["2,1"])
    assert len(tracts.levels) == 2
    assert tracts.build_pyramid(levels=2).validate(level=5).ok
    assert zvf.shard(tracts.address, cells=8).validate(level=5).ok and zv.sharding.is_sharded(tracts.address)
    assert zvf.unshard(tracts.address).validate(level=5).ok and not zv.sharding.is_sharded(tracts.address)
    assert np.array_equal(open_zv(tracts.address)[0].vertices.compute(), zvf.open(tracts.address).read().positions)
