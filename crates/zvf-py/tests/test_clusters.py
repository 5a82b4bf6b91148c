"""Work on local clusters of dask and ray, with a worker killed in between."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile

import dask
import numpy as np
import pytest
import ray
import zvf
import zvf.dask
import zvf.ray
from dask.distributed import Client, LocalCluster


def measure(answer):
    return len(answer), float(answer["mass"].sum())


def test_map_over_chunks_and_ingest(tmp_path):
    xyz = np.random.default_rng(4).random((2000, 3)) * 100
    ds = zvf.points(tmp_path / "a.zarrvectors", xyz, attributes={"mass": np.arange(2000.0)}, chunk=25.0)
    rows = "\n".join(",".join(map(str, row)) for row in xyz.tolist())
    (tmp_path / "a.csv").write_text("x,y,z\n" + rows + "\n")
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        parts = zvf.dask.map_chunks(ds.select(), measure)
        futures = client.compute(parts)
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        found = client.gather(futures)
        made = zvf.dask.ingest(client, tmp_path / "a.csv", tmp_path / "b.zarrvectors", shares=3)
        checking = zvf.plan_work("validate", ds, folder=tmp_path / "checking", level=5, shares=3)
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        report = zvf.dask.run(client, checking)
        parts = zvf.dask.run(client, zvf.plan_work("convert", ds, tmp_path / "parts", folder=tmp_path / "converting", to="csv", shares=3))
    assert report.ok and report.summary == zvf.validate(ds, level=5).summary
    assert len(parts) == 3 and sum(len(open(part).readlines()) - 1 for part in parts) == 2000
    assert sum(count for count, _ in found) == 2000
    assert sum(mass for _, mass in found) == np.arange(2000.0).sum()
    assert made.count() == 2000


def test_ray_goes_on_without_a_worker(tmp_path):
    xyz = np.random.default_rng(6).random((2000, 3)) * 100
    ds = zvf.points(tmp_path / "a.zarrvectors", xyz, attributes={"mass": np.arange(2000.0)}, chunk=25.0)
    np.savetxt(tmp_path / "a.csv", xyz, delimiter=",", header="x,y,z", comments="")
    killed = tmp_path / "killed"

    def measure_or_die(answer):
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return len(answer), float(answer["mass"].sum())

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", _temp_dir=tempfile.mkdtemp(prefix="ray"))
    try:
        found = zvf.ray.map_chunks(ds.select(), measure_or_die)
        lines = zvf.polylines(tmp_path / "lines.zarrvectors", [xyz[at : at + 100] for at in range(0, 2000, 100)])
        assert zvf.ray.map_objects(lines.select(), len, objects=6) == [600, 600, 600, 200]
        made = zvf.ray.ingest(tmp_path / "a.csv", tmp_path / "b.zarrvectors", shares=3)
        leveled = zvf.ray.run(zvf.plan_work("pyramid", ds, folder=tmp_path / "leveling", levels=2))
        with lines.edit() as edit:
            edit.remove(object=3)
        cleaned = zvf.ray.run(zvf.plan_work("vacuum", lines, folder=tmp_path / "cleaning", shares=3))
    finally:
        ray.shutdown()
    assert killed.exists()
    assert len(leveled.levels) == 3 and leveled.count() == 2000
    assert cleaned.count() == 1900 and zvf.validate(cleaned, level=5).ok
    assert sum(count for count, _ in found) == 2000
    assert sum(mass for _, mass in found) == np.arange(2000.0).sum()
    assert made.count() == 2000


def test_objects_are_found_once(tmp_path):
    rng = np.random.default_rng(7)
    lines = [rng.random((10, 3)) * 10 for _ in range(25)]
    ds = zvf.polylines(tmp_path / "a.zarrvectors", lines, groups={"left": [1, 2, 20]}, chunk=2.5)
    for query in (ds.select(), ds.select(box=([0, 0, 0], [5, 5, 5])), ds.select(objects=[3, 9, 4]), ds.select(groups="left")):
        found = dask.compute(*zvf.dask.map_objects(query, lambda answer: sorted(answer.part_ids.tolist()), objects=4), scheduler="synchronous")
        assert sorted(sum(found, [])) == sorted(query.read().part_ids.tolist())
    cloud = zvf.points(tmp_path / "b.zarrvectors", lines[0])
    for query, said in ((cloud.select(), "is for lines"), (ds.select(limit=3), "without a limit"), (ds.select(level=zvf.max_vertices(9)), "a number")):
        with pytest.raises(ValueError, match=said):
            query.by_objects()
    with pytest.raises(ValueError, match="at least 1"):
        ds.select().by_objects(0)


@pytest.mark.parametrize("chunk", [2.5, 0.7, 1.1])
def test_chunks_hold_each_point_once(tmp_path, chunk):
    rng = np.random.default_rng(5)
    xyz = np.concatenate([rng.random((200, 2)) * 10, rng.integers(-9, 9, (99, 2)) * chunk, [[5.0, 5.0], [10.0, 10.0]]])
    ds = zvf.points(tmp_path / "a", xyz, attributes={"n": np.arange(301) % 3}, chunk=chunk)
    by_value = zvf.points(tmp_path / "b", xyz, attributes={"n": np.arange(301) % 3}, chunk=chunk, binned_by=("n", [0, 1, 2]))
    box = ([2.5, 0.0], [10.0, 5.0])
    for query in (ds.select(), by_value.select(), ds.select(box=box), ds.select(half_open_box=box), ds.select(ball=(box[0], 3.0), where="n > 0")):
        parts = query.by_chunk()
        assert len(parts) > 1 and sum(len(part.by_chunk()) for part in parts) == len(parts)
        assert sorted(map(tuple, np.concatenate([part.read().positions for part in parts]))) == sorted(map(tuple, query.read().positions))
    with pytest.raises(ValueError, match="without a limit"):
        ds.select(limit=3).by_chunk()
    with pytest.raises(ValueError, match="one region, and this one has box and ball"):
        ds.select(box=box).select(ball=(box[0], 3.0))


def test_work_goes_on_where_it_was(tmp_path):
    xyz = np.random.default_rng(8).random((400, 3)) * 100
    ds = zvf.points(tmp_path / "a.zarrvectors", xyz, chunk=25.0)
    plan = pickle.loads(pickle.dumps(zvf.plan_work("validate", ds, folder=tmp_path / "plan", level=4, shares=2)))
    assert plan.kind == "validate" and plan.target == ds.address and str(len(plan)) in repr(plan)
    first = plan.stages()[0][0]
    assert plan.run(first) == first and plan.run(first) == first
    with pytest.raises(zvf.Error, match="to be done|not done"):
        plan.finish()
    again = zvf.plan_work("validate", ds, folder=tmp_path / "plan", level=4, shares=2)
    assert [task["task"] for task in again.plan if task["done"]] == [first]
    report = again.run_all(2)
    assert report.ok and again.finish().summary == report.summary
    again.remove()
    with pytest.raises(FileNotFoundError):
        plan.run(first)


def test_plans_that_cannot_be(tmp_path):
    ds = zvf.points(tmp_path / "a.zarrvectors", np.eye(3))
    for words, said in (
        ({"work": "repair"}, "'validate'"),
        ({"work": "convert"}, "a folder for the parts"),
        ({"work": "vacuum", "out": tmp_path / "b"}, "nothing for 'vacuum'"),
        ({"work": "validate", "level": 6}, "1 to 5"),
        ({"work": "validate", "shares": 0}, "shares"),
        ({"work": "validate", "depht": 3}, "depht"),
    ):
        with pytest.raises(ValueError, match=said):
            zvf.plan_work(store=ds, folder=tmp_path / "plan", **words)
    with pytest.raises(FileNotFoundError):
        zvf.plan_work("validate", tmp_path / "none", folder=tmp_path / "plan")
    assert not (tmp_path / "plan").exists()
