"""The native interface: answers, writing, errors, processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import zvf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


@pytest.fixture
def xyz():
    return (np.random.default_rng(7).random((5000, 3)) * 100).astype(np.float32)


@pytest.fixture
def cloud(tmp_path, xyz):
    words = np.array(["left", "right"])[np.arange(5000) % 2]
    return zvf.points(tmp_path / "cloud.zarrvectors", xyz, attributes={"mass": np.arange(5000.0), "side": words}, chunk=25.0)


@pytest.fixture
def tracts(tmp_path):
    rng = np.random.default_rng(8)
    lines = [rng.random((10, 3)) * 50 for _ in range(20)]
    return zvf.polylines(
        tmp_path / "tracts.zarrvectors",
        lines,
        attributes={"fa": np.arange(200.0)},
        object_attributes={"length": np.arange(20)},
        groups={"left": [1, 2], "right": [3]},
        chunk=20.0,
    )


def brute(xyz, low, high):
    return xyz[((xyz >= low) & (xyz <= high)).all(axis=1)]


def test_a_box_finds_what_numpy_finds(cloud, xyz):
    low, high = np.array([10, 20, 30.0]), np.array([60, 70, 80.0])
    found = cloud.read(box=(low, high)).positions
    want = brute(xyz, low, high)
    assert found.dtype == np.float32
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, want.tolist()))


def test_columns_stay_with_their_rows(cloud, xyz):
    answer = cloud.read(ball=([50, 50, 50], 20), where="side = 'left'")
    rows = answer["mass"].astype(int)
    assert len(rows) > 0 and (rows % 2 == 0).all()
    assert np.array_equal(xyz[rows], answer.positions)
    assert set(answer["side"]) == {"left"}


def test_results_are_views_without_a_copy(cloud):
    answer = cloud.read()
    positions = answer.positions
    first = positions.__array_interface__["data"][0]
    assert answer._native.positions().__array_interface__["data"][0] == first
    assert not positions.flags.writeable and not positions.flags.owndata
    del answer
    assert positions.sum() > 0, "the view keeps the memory"


def test_arrow_takes_answers(cloud):
    pa = pytest.importorskip("pyarrow")
    answer = cloud.read(limit=100)
    table = pa.table(answer)
    assert table.num_rows == 100
    assert table["mass"].to_numpy().tolist() == answer["mass"].tolist()


def test_arrow_tables_become_stores(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": [0.0, 1.0], "y": [2.0, 3.0], "word": ["a", "b"]})
    ds = zvf.write(tmp_path / "t.zarrvectors", table)
    answer = ds.read(where="word = 'b'")
    assert answer.positions.tolist() == [[1.0, 3.0]] and answer["word"].tolist() == ["b"]


def test_batches_hold_all_rows(cloud):
    masses = np.concatenate([batch["mass"] for batch in cloud.select().batches()])
    assert sorted(masses) == list(range(5000))


def test_batches_have_as_many_rows_as_wanted(cloud, tracts):
    whole = cloud.select().read()
    parts = list(cloud.select().batches(rows=100))
    assert all(0 < len(part) <= 100 for part in parts)
    assert sum(len(part) for part in parts) == len(whole)
    name = next(iter(whole))
    np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), whole[name])
    lines = tracts.read()
    cut = list(tracts.select().batches(rows=1))
    assert [len(part.part_ids) for part in cut] == [1] * len(lines.part_ids)
    np.testing.assert_array_equal(np.concatenate([part.positions for part in cut]), lines.positions)
    with pytest.raises(ValueError, match="rows"):
        next(cloud.select().batches(rows=0))


def test_asyncio(cloud):
    async def ask():
        whole = await cloud.aread(where="mass < 10")
        batches = [batch async for batch in cloud.select().abatches()]
        return len(whole), sum(map(len, batches))

    assert asyncio.run(ask()) == (10, 5000)


def test_objects_come_as_asked(tracts):
    answer = tracts.read(objects=[9, 7, 3])
    assert answer.part_ids.tolist() == [9, 7, 3]
    assert answer.offsets.tolist() == [0, 10, 20, 30]
    assert answer["fa"][:10].tolist() == list(range(90, 100))


def test_groups_by_name(tracts):
    assert sorted(tracts.read(groups="left").part_ids.tolist()) == [1, 2]
    assert {k: v.tolist() for k, v in tracts.groups.items()} == {"left": [1, 2], "right": [3]}
    with pytest.raises(KeyError):
        tracts.select(groups="middle")


def test_plans_and_counts(cloud):
    query = cloud.select(box=([0, 0, 0], [10, 10, 10]))
    assert query.count() == len(query.read())
    assert query.plan()["cells"] >= 1 and "level 0" in query.explain()


def test_edits_happen_together_or_not_at_all(tracts):
    with tracts.edit() as edit:
        edit.move(object=7, vertex=3, to=[1, 2, 3])
        edit.remove(object=9)
        edit.set("length", object=5, value=99)
    assert tracts.read(objects=[7]).positions[3].tolist() == [1, 2, 3]
    assert 9 not in tracts.object_ids()
    assert tracts.objects([5])[0]["attributes"]["length"] == 99
    with pytest.raises(RuntimeError), tracts.edit() as edit:
        edit.remove(object=1)
        raise RuntimeError
    assert 1 in tracts.object_ids()


def test_a_handle_answers_from_the_last_commit_and_no_other(tmp_path):
    at = tmp_path / "a.zarrvectors"
    writer = zvf.polylines(at, [np.full((10, 3), i, "f4") for i in range(5)], chunk=1000)
    reader = zvf.open(at)
    reader.read()
    with writer.edit() as edit:
        edit.remove(object=0)
        edit.add(np.full((10, 3), 77, "f4"))
    answer = reader.read()
    assert answer.part_ids.tolist() == [1, 2, 3, 4, 5]
    assert {int(x) for x in answer.positions[:, 0]} == {1, 2, 3, 4, 77}
    assert reader.bounds[1].max() == 77


def test_an_added_object_has_its_id_before_the_commit(tracts):
    ids = tracts.object_ids()
    with tracts.edit() as edit:
        first = edit.add(np.zeros((2, 3)))
        given = edit.add(np.ones((2, 3)), object=first + 5)
        third = edit.add(np.full((3, 3), 2.0))
    assert first > ids.max() and given == first + 5 and third == first + 6
    np.testing.assert_array_equal(tracts.read(objects=[third]).positions, np.full((3, 3), 2.0))


def test_what_is_known_of_a_store_is_a_table(cloud):
    info = cloud.info()
    assert info.to_dict() == dict(info) and "<table>" in info._repr_html_()


def test_a_chunk_may_be_said_in_bytes(tmp_path, xyz):
    with zvf.create(tmp_path / "a.zarrvectors", kind="streamline", chunk="16KiB") as w:
        w.push(xyz)
        w.push([xyz[:5], xyz[5:9]])
    ds = zvf.open(tmp_path / "a.zarrvectors")
    assert ds.count() == len(xyz) + 9 and ds.object_ids().tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        zvf.create(tmp_path / "b.zarrvectors", chunk="large")
    assert not (tmp_path / "b.zarrvectors").exists()


def test_a_cell_shows_the_viewer(cloud):
    from urllib.request import urlopen

    with cloud.view() as view:
        assert view.page in view._repr_html_().replace("&amp;", "&")
        assert b"<html" in urlopen(view.page.split("#")[0]).read().lower()
    with pytest.raises(FileNotFoundError):
        zvf.View(cloud.address + "-not-there", [])


def test_graphs_skeletons_and_meshes(tmp_path):
    xyz = np.arange(12.0).reshape(4, 3)
    graph = zvf.graph(tmp_path / "g", xyz, [[0, 1], [1, 2], [0, 3]], edge_attributes={"w": [1.0, 2.0, 3.0]}).read()
    ends = {tuple(sorted(map(tuple, graph.positions[e].tolist()))): w for e, w in zip(graph.edges, graph["w"])}
    assert ends[((0, 1, 2), (3, 4, 5))] == 1.0
    tree = zvf.graph(tmp_path / "s", xyz, [[1, 0], [2, 1], [3, 1]], tree=True).read()
    assert tree.kind == "skeleton" and len(tree.edges) == 3
    mesh = zvf.mesh(tmp_path / "m", xyz, [[0, 1, 2], [1, 2, 3]]).read()
    assert mesh.faces.shape == (2, 3)


def test_levels_and_pyramids(cloud):
    cloud.build_pyramid(levels=2)
    assert [level.number for level in cloud.levels] == [0, 1, 2]
    assert len(cloud.read(level=zvf.max_vertices(4000))) <= 4000
    with pytest.raises(IndexError):
        cloud.level(9)


def test_pictures(cloud):
    assert cloud.render(64, 48, colour="mass").startswith(b"\x89PNG")
    assert "<table>" in cloud._repr_html_() and "<script" not in cloud._repr_html_()


def test_rewriting(cloud, tmp_path):
    sharded = zvf.shard(cloud, tmp_path / "sharded.zarrvectors", cells=2)
    packed = zvf.pack(sharded, tmp_path / "packed.tet")
    back = zvf.unpack(packed, tmp_path / "back.zarrvectors")
    squeezed = zvf.recompress(back, tmp_path / "zstd.zarrvectors", codec="zstd")
    for ds in (sharded, packed, back, squeezed):
        assert np.array_equal(np.sort(ds.read()["mass"]), np.arange(5000.0))
    assert zvf.validate(squeezed, level=5).ok


def test_tensors(tmp_path):
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    for name in ("a.tet", "a.b2nd"):
        tensor = zvf.save_tensor(tmp_path / name, array)
        for key in (0, -1, slice(None), (1, slice(0, 3, 2)), (..., 2), (slice(None, None, -1), 1), ([2, 0], slice(1, 3))):
            assert np.array_equal(tensor[key], array[key]), key
        assert np.array_equal(np.asarray(tensor), array) and tensor.dtype == np.int16
        with pytest.raises(IndexError):
            tensor[3]


def test_pickles(cloud):
    query = pickle.loads(pickle.dumps(cloud.select(where="mass < 5")))
    assert query.count() == 5
    error = pickle.loads(pickle.dumps(zvf.errors.NotFoundError("gone", class_name="NotFound", key="k")))
    assert error.key == "k" and isinstance(error, FileNotFoundError)


def count_in_child(dataset):
    return dataset.count(where="mass < 7")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(cloud, method):
    assert cloud.count() == 5000
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(count_in_child, [cloud] * 4).get(timeout=120) == [7] * 4


def test_threads_ask_at_once(cloud):
    found = []
    threads = [threading.Thread(target=lambda: found.append(cloud.count(where="mass < 50"))) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert found == [50] * 8


def test_a_read_is_begun_by_whoever_looks_at_it(cloud):
    few, all_of_it = cloud.select(box=([0] * 3, [30.0] * 3)), cloud.select()
    expected = len(few.read())
    for query, rows in ((few, expected), (all_of_it, 5000)):
        for _ in range(2):  # the second time out of what is held
            job = cloud._native.run(query._query())
            while not job.is_done():
                time.sleep(0.001)
            assert len(job.result()) == rows
            job = cloud._native.run(query._query())
            assert len(job.wait()) == rows
            with pytest.raises(RuntimeError, match="taken already"):
                job.wait()
            ended = threading.Event()
            job = cloud._native.run(query._query())
            job.on_done(ended.set)
            assert ended.wait(60) and len(job.result()) == rows
    told = []
    assert len(few.read(progress=lambda done, total: told.append(done))) == expected and told
    job = cloud._native.run(few._query())
    job.cancel()
    with pytest.raises(KeyboardInterrupt):
        job.wait()


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_handle_goes_on_in_a_forked_child(cloud):
    program = (
        "import os, sys, zvf\n"
        f"cloud = zvf.open({cloud.address!r})\n"
        "few = cloud.select(box=([0] * 3, [30.0] * 3))\n"
        "expected = few.read().positions.tolist()\n"
        "job = cloud._native.run(few._query())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert few.read().positions.tolist() == expected\n"
        "    assert len(cloud.read(where='mass < 7')) == 7 and cloud.count() == 5000\n"
        "    try:\n"
        "        job.wait()\n"
        "    except RuntimeError as error:\n"
        "        os._exit(0 if 'after the fork' in str(error) else 3)\n"
        "    os._exit(2)\n"
        "assert len(job.wait()) == len(expected)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "0\n", ran.stderr


def test_a_program_may_end_while_reads_are_awaited(tmp_path):
    program = (
        "import asyncio, sys, zvf\n"
        "ds = zvf.open(sys.argv[1])\n"
        "async def main():\n"
        "    reads = [asyncio.create_task(ds.select(box=([0.0] * 3, [5.0 + i / 10] * 3)).aread()) for i in range(20)]\n"
        "    await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)\n"
        "asyncio.run(main())\n"
    )
    at = zvf.points(tmp_path / "a", np.random.default_rng(1).random((100_000, 3)) * 10).address
    # A thread that told of a read while the interpreter went away aborted one in three of them.
    children = [subprocess.Popen([sys.executable, "-c", program, at], stderr=subprocess.PIPE) for _ in range(12)]
    assert [(child.communicate(timeout=60)[1], child.returncode) for child in children] == [(b"", 0)] * 12


def interrupted(program, seconds):
    """What a program printed and said that gets SIGINT so many seconds after it printed "go"."""
    handler = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs in the background ignore it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-c", handler + program], **pipes)
    assert child.stdout.readline() == "go\n"
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)
    return child.communicate(timeout=60)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("side", [3.0, 90.0], ids=["small", "large"])
def test_ctrl_c_ends_reads_of_what_is_held(tmp_path, side):
    program = (
        "import numpy as np, zvf\n"
        f"ds = zvf.points({str(tmp_path / 'a')!r}, np.random.default_rng(1).random((1_000_000, 3), dtype='f4') * 100, chunk=25.0)\n"
        f"box = ([0.0] * 3, [{side}] * 3)\n"
        "ds.read(box=box)\n"
        "print('go', flush=True)\n"
        "try:\n"
        "    while True:\n"
        "        ds.read(box=box)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
    )
    printed, said = interrupted(program, 0.3)
    assert printed == "stopped\n", said


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_leaves_no_store(tmp_path):
    program = (
        "import numpy as np, zvf\n"
        f"w = zvf.create({str(tmp_path / 'big')!r}, ndim=3, chunk=0.01)\n"
        "np.random.rand(1)\n"  # numpy loads that module late, and loses an interrupt meanwhile
        "print('go', flush=True)\n"
        "while True:\n"
        "    w.push(np.random.rand(200000, 3))\n"
    )
    _, said = interrupted(program, 0.5)
    assert "KeyboardInterrupt" in said
    assert not (tmp_path / "big").exists()


def test_errors_are_builtins_too(tmp_path, cloud):
    with pytest.raises(FileNotFoundError) as caught:
        zvf.open(tmp_path / "nothing")
    assert caught.value.class_name == "NotFound" and caught.value.hint
    with pytest.raises(FileExistsError):
        zvf.points(cloud.address, [[0.0, 0, 0]])
    with pytest.raises(KeyError):
        cloud.read(where="mas < 3")
    with pytest.raises(KeyError):
        cloud.read()["mas"]
    for words in ({"box": ([0, 0], [1, 1])}, {"box": ([np.nan] * 3, [1] * 3)}, {"mode": "sideways"}, {"where": "mass <"}):
        with pytest.raises(ValueError):
            cloud.read(**words)
    with pytest.raises(TypeError):
        cloud.select(bbox=1)
    cloud.close()
    with pytest.raises(ValueError):
        cloud.read()


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros((3,)), ValueError),
        (np.zeros((3, 0)), ValueError),
        (np.array([[0, "a", 1]], dtype=object), TypeError),
        (np.array([[0, None, 1]], dtype=object), TypeError),
        (np.array([["a", "b", "c"]]), TypeError),
        (np.zeros((3, 3), dtype=complex), TypeError),
        (np.array([[np.nan, 0, 0]]), ValueError),
        (np.array([[np.inf, 0, 0]]), ValueError),
    ],
)
def test_bad_positions_leave_nothing(tmp_path, array, error):
    with pytest.raises(error):
        zvf.points(tmp_path / "bad", array)
    assert os.listdir(tmp_path) == []


def test_strides_and_byte_order_do_not_matter(tmp_path, xyz):
    for number, same in enumerate([xyz.astype(">f4"), np.asfortranarray(xyz), np.repeat(xyz, 2, axis=0)[::2], xyz.tolist()]):
        ds = zvf.points(tmp_path / str(number), same)
        assert sorted(map(tuple, ds.read().positions.astype("f4").tolist())) == sorted(map(tuple, xyz.tolist()))


def test_a_column_of_another_length_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected 2 rows, found 3"):
        zvf.points(tmp_path / "bad", np.zeros((2, 3)), attributes={"a": [1, 2, 3]})
    with pytest.raises(ValueError):
        zvf.graph(tmp_path / "bad", np.zeros((2, 3)), [[0, 2]])
    with pytest.raises(ValueError):
        zvf.mesh(tmp_path / "bad", np.zeros((3, 3)), [[0, 1, -1]])
    assert os.listdir(tmp_path) == []


@settings(max_examples=25, deadline=None)
@given(
    points=hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.just(2)), elements=st.floats(-1e3, 1e3)),
    corners=st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4),
)
def test_any_points_any_box(tmp_path_factory, points, corners):
    ds = zvf.points(tmp_path_factory.mktemp("h") / "a", points, chunk=100.0)
    low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
    found = ds.read(box=(low, high)).positions
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, brute(points, low, high).tolist()))


def test_the_command_comes_along(cloud):
    done = subprocess.run([sys.executable, "-m", "zvf", "info", cloud.address], capture_output=True, text=True, check=True)
    assert "point cloud" in done.stdout
    done = subprocess.run([sys.executable, "-m", "zvf", "info", "/nowhere"], capture_output=True, text=True, check=False)
    assert done.returncode == 4


def test_polars_pushes_columns_and_rows_down(tmp_path, xyz):
    pl = pytest.importorskip("polars")
    from zvf._polars import pushed

    fa = np.random.default_rng(1).random(5000).astype(np.float32)
    fa[::50] = np.nan
    sides = np.array(["left", "right", "mid"])[np.arange(5000) % 3]
    sides[0] = "\\'"
    ds = zvf.points(tmp_path / "a", xyz, attributes={"fa": fa, "n": np.arange(5000), "side": sides}, chunk=25.0)
    table, col = pl.DataFrame(ds.read()), pl.col
    said = {
        "not (`fa` < 0.3)": col("fa") > 0.3,
        "`fa` < 0.5": col("fa") < 0.5,
        "(`side` = 'left') or (`side` = 'mid')": col("side").is_in(["left", "mid"]),
        r"`side` = '\\\''": col("side") == "\\'",
        "(not (`n` < 3)) and (`n` <= 9)": col("n").is_between(3, 9),
        "(`n` <= 100) and (not (`fa` < 0.1))": ~((col("n") > 100) | (col("fa") < 0.1)),
        "(`n` < 10)": (col("n") < 10) & (col("fa").sqrt() < 0.5),
        "`z` < 5": col("position").arr.get(2) < 5,
        "`n` < 5": 5 > col("n"),
        None: col("n") % 2 == 0,
    }
    for condition, predicate in said.items():
        query = pushed(ds, ["n"], predicate)
        assert query.words.get("where") == condition
        assert set(query.words["attributes"]) <= {"n", "fa", "side"} and "n" in query.words["attributes"]
        found = ds.scan_polars().filter(predicate).select("n").collect()["n"]
        assert sorted(found) == sorted(table.filter(predicate)["n"])
        if condition is not None:
            assert query.count() < 5000, "fewer rows are read"
    assert pushed(ds, ["position"], None).words["attributes"] == []
    assert ds.scan_polars().select("n").head(3).collect().height == 3


@given(value=st.floats(-2, 2, width=32), operator=st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), negated=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_condition_that_is_pushed_down_loses_no_row(value, operator, negated):
    pl = pytest.importorskip("polars")
    import operator as operators

    ds = _small_columns()
    table = pl.DataFrame(ds.read())
    for name in ("f2", "f4", "f8", "i4"):
        predicate = getattr(operators, operator)(pl.col(name), value)
        predicate = ~predicate if negated else predicate
        found = ds.scan_polars().filter(predicate).collect()["i4"]
        assert sorted(found) == sorted(table.filter(predicate)["i4"])


def _small_columns(made=[]):  # noqa: B006: it is made once
    if not made:
        import tempfile

        values = np.array([-2, -1, -0.1, 0, 0.1, 0.3, 1, 1.5, 2, np.nan])
        columns = {"f2": values.astype(np.float16), "f4": values.astype(np.float32), "f8": values, "i4": np.arange(-4, 6, dtype=np.int32)}
        made.append(zvf.points(tempfile.mkdtemp() + "/a", np.zeros((10, 3)), attributes=columns))
    return made[0]


def test_ingest_by_processes(tmp_path, xyz):
    np.savetxt(tmp_path / "a.csv", xyz, delimiter=",", header="x,y,z", comments="")
    seen = []
    ds = zvf.ingest(tmp_path / "a.csv", tmp_path / "a.zarrvectors", workers=2, progress=lambda done, total: seen.append((done, total)))
    assert ds.count() == len(xyz) and zvf.validate(ds, level=5).ok
    assert len(seen) > 1 and seen[-1][0] == seen[-1][1]
    with pytest.raises(FileExistsError):
        zvf.ingest(tmp_path / "a.csv", tmp_path / "a.zarrvectors", workers=2)
    with pytest.raises(ValueError, match="workers"):
        zvf.ingest(tmp_path / "a.csv", tmp_path / "b.zarrvectors", workers=0)


def test_a_store_of_several_kinds(tmp_path, xyz):
    with zvf.create(tmp_path / "a", kind=["point_cloud", "graph"], chunk=50.0) as w:
        w.push(xyz[:100], attributes={"mass": np.arange(100.0)})
        w.push(xyz[:3], edges=[[0, 1], [1, 2]], kind="graph")
    ds = zvf.open(tmp_path / "a")
    assert ds.kinds == ("point_cloud", "graph")
    assert ds.count() == 100 and len(ds.read(kind="graph").edges) == 2
    with pytest.raises(ValueError, match="mesh"), zvf.create(tmp_path / "b", kind=["graph", "point_cloud"], chunk=50.0) as w:
        w.push(xyz[:3], faces=[[0, 1, 2]], kind="mesh")
    assert not (tmp_path / "b").exists()


def test_stores_in_memory(xyz):
    ds = zvf.points("memory://tests/a", xyz, attributes={"n": np.arange(5000)})
    assert zvf.open("memory://tests/a").count(where="n < 10") == 10
    with pytest.raises(TypeError, match="memory"):
        pickle.dumps(ds)
    with pytest.raises(FileNotFoundError):
        zvf.open("memory://tests/b")
    with pytest.raises(ValueError):
        zvf.open("memory://../a")


def test_an_array_that_changes_after_its_push_changes_nothing(tmp_path):
    array, masses = np.zeros((1000, 3)), np.arange(1000.0)
    with zvf.create(tmp_path / "a", chunk=1.0) as w:
        w.push(array, attributes={"mass": masses})
        array[:], masses[:] = np.nan, -1.0
    answer = zvf.open(tmp_path / "a").read()
    assert answer.positions.max() == 0.0 and sorted(answer["mass"]) == list(range(1000))


def test_an_array_that_changes_during_a_write_is_written_or_refused(tmp_path):
    array, going = np.zeros((200_000, 3)), threading.Event()

    def change():
        value = 0.0
        while not going.is_set():
            value += 1.0
            array[:] = value

    thread = threading.Thread(target=change)
    thread.start()
    try:
        ds = zvf.points(tmp_path / "a", array, chunk=1000.0, attributes={"n": array[:, 0]})
    finally:
        going.set()
        thread.join()
    assert ds.count() == 200_000 and zvf.validate(ds, level=5).ok


def test_what_is_closed_is_refused(tmp_path, cloud):
    writer = zvf.create(tmp_path / "a", chunk=1.0)
    writer.abandon()
    for call in (lambda: writer.push(np.zeros((1, 3))), lambda: writer.objects([1]), lambda: writer.group("a", [1]), writer.finish):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert not (tmp_path / "a").exists()
    batches = cloud.select().batches()
    next(batches)
    batches.close()
    assert list(batches) == []
    cloud.close()
    for call in (cloud.info, cloud.count, cloud.object_ids, cloud.render, lambda: cloud.select().plan()):
        with pytest.raises(ValueError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"object_ids": [-1, 0]}, ValueError),
        ({"object_ids": [0.5, 1]}, TypeError),
        ({"object_ids": [0]}, ValueError),
        ({"groups": {"a": [-1]}}, ValueError),
        ({"bounds": ([np.nan] * 3, [1] * 3)}, ValueError),
        ({"bounds": ([0] * 3, [np.inf] * 3)}, ValueError),
        ({"bounds": ([1] * 3, [0] * 3)}, ValueError),
        ({"bounds": ([5] * 3, [9] * 3)}, ValueError),
        ({"chunk": np.nan}, ValueError),
        ({"chunk": -1.0}, ValueError),
        ({"attributes": {"a": np.full(2, None, dtype=object)}}, TypeError),
        ({"attributes": {"a": np.zeros(2, dtype="M8[as]")}}, TypeError),
        ({"attributes": {"": np.zeros(2)}}, TypeError),
        ({"attributes": {"a": np.zeros((2, 0))}}, ValueError),
        ({"codec": "lzma"}, ValueError),
    ],
)
def test_bad_words_leave_nothing(tmp_path, words, error):
    with pytest.raises(error):
        zvf.points(tmp_path / "bad", np.zeros((2, 3)), **words)
    assert os.listdir(tmp_path) == []


def test_columns_of_any_layout_are_the_same(tmp_path):
    values = np.arange(20, dtype=np.int32)
    given = {"big": values.astype(">i4"), "strided": np.repeat(values, 2)[::2], "reversed": values[::-1][::-1], "list": values.tolist()}
    answer = zvf.points(tmp_path / "a", np.random.default_rng(0).random((20, 3)), attributes=given).read()
    for name in given:
        assert np.array_equal(answer[name], answer["big"]) and sorted(answer[name]) == values.tolist()


def test_what_a_callback_raises_comes_out(cloud):
    class Enough(Exception):
        pass

    def stop(done, total):
        raise Enough

    with pytest.raises(Enough):
        zvf.validate(cloud, level=5, progress=stop)
    assert cloud.count() == 5000


def test_a_cancelled_task_ends_its_work(cloud):
    async def ask():
        task = asyncio.create_task(cloud.select(where="mass > 3").aread())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await cloud.aread(where="mass < 10")

    assert len(asyncio.run(ask())) == 10


def test_plans_and_edits_of_others(tmp_path, cloud, xyz):
    np.savetxt(tmp_path / "a.csv", xyz[:50], delimiter=",", header="x,y,z", comments="")
    plan = pickle.loads(pickle.dumps(zvf.tasks(tmp_path / "a.csv", tmp_path / "a.zarrvectors", shares=2)))
    for stage in plan.stages():
        [plan.run(task) for task in stage]
    again = [plan.run(task) for task in plan]  # doing a task twice does no harm
    assert len(again) == len(plan) and plan.finish().count() == 50
    dataset = pickle.loads(pickle.dumps(cloud))
    assert dataset.address == cloud.address and pickle.loads(pickle.dumps(dataset.select(limit=3))).read().truncated


def test_tasks_wait_for_those_that_they_need(tmp_path, xyz):
    from concurrent.futures import ThreadPoolExecutor

    np.savetxt(tmp_path / "a.csv", xyz[:50], delimiter=",", header="x,y,z", comments="")
    plan = zvf.tasks(tmp_path / "a.csv", tmp_path / "a.zarrvectors", shares=2)
    with pytest.raises(zvf.errors.BackendError, match="to be done before"):
        plan.run(len(plan) - 1, wait=0)
    with ThreadPoolExecutor(len(plan)) as pool:
        assert sorted(pool.map(plan.run, reversed(list(plan)))) == list(plan)
    assert plan.finish().count() == 50


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("at_once", [True, False], ids=["in one push", "in many"])
def test_ctrl_c_ends_a_push_that_spills(tmp_path, at_once):
    """A push that puts rows aside ends soon: no store, nothing aside, and the interpreter goes on."""
    scratch = tmp_path / "scratch"
    program = (
        "import numpy as np, signal, zvf\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"xyz = np.random.default_rng(0).random(({4_000_000 if at_once else 100_000}, 3)) * 1000\n"
        f"w = zvf.create({str(tmp_path / 'big')!r}, chunk=20.0, memory='1MiB', scratch={str(scratch)!r})\n"
        "print('go', flush=True)\n"
        "try:\n"
        "    with w:\n"
        "        while True:\n"
        "            w.push(xyz)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "try:\n"
        "    w.push(xyz[:1])\n"
        "except ValueError as error:\n"
        "    print('closed' if 'closed' in str(error) or 'stopped' in str(error) else error, flush=True)\n"
        f"print(zvf.points({str(tmp_path / 'after')!r}, xyz[:10]).count(), flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "go\n"
    while not any(scratch.glob(".zvf-scratch*/slice-*")):  # until something is put aside
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert out.split() == ["interrupted", "closed", "10"], (out, err)
    assert not (tmp_path / "big").exists() and list(scratch.iterdir()) == []
    assert sorted(os.listdir(tmp_path)) == ["after", "scratch"]


def test_handles_of_neighbours(tmp_path, xyz):
    import functools
    import http.server

    import fsspec
    import obstore.store
    import zarr

    at = zvf.points(tmp_path / "a b.zarrvectors", xyz, chunk=25.0).address

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128  # of connections at once; the usual five let most of them wait for seconds

    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/a%20b.zarrvectors"
    handles = [
        at, tmp_path / "a b.zarrvectors", os.fsencode(at), (tmp_path / "a b.zarrvectors").as_uri(), url, obstore.store.LocalStore(at),
        obstore.store.HTTPStore.from_url(url, client_options={"allow_http": True}), fsspec.get_mapper(at), zarr.storage.LocalStore(at),
        zarr.storage.ObjectStore(obstore.store.LocalStore(at)), zarr.storage.FsspecStore.from_url(f"file://{at}"), zarr.open_group(at), zvf.open(at),
    ]  # fmt: skip
    try:
        for handle in handles:
            assert zvf.open(handle).count() == 5000, handle
    finally:
        server.shutdown()
    assert zvf.points(fsspec.get_mapper(tmp_path / "b"), xyz).count() == zvf.open(tmp_path / "b").count() == 5000
    for memory in (obstore.store.MemoryStore(), zarr.storage.MemoryStore(), fsspec.get_mapper("memory://a")):
        with pytest.raises(TypeError, match="another library"):
            zvf.open(memory)
    with pytest.raises(TypeError, match="found int"):
        zvf.open(5)
    with pytest.raises(ValueError, match="storage option"):
        zvf.open("s3://bucket/store", storage_options={"no such option": 1})
