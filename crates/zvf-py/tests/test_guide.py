"""The table of the guide "from zarr-vectors to zvf": both sides of its rows, on one store, with one result; that none is missing."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import zarr_vectors as reference
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
    tracts.build_pyramid(reference=["2,1"], full=True)
    assert len(tracts.levels) == 2
    assert tracts.build_pyramid(levels=2).validate(level=5).ok
    assert zvf.shard(tracts.address, cells=8).validate(level=5).ok and zv.sharding.is_sharded(tracts.address)
    assert zvf.unshard(tracts.address).validate(level=5).ok and not zv.sharding.is_sharded(tracts.address)
    assert rows(open_zv(tracts.address)[0].vertices.compute()) == rows(zvf.open(tracts.address).read().positions)


def names_of_the_facade():
    """The public names of zarr-vectors: of the package, of the values it has, and of the modules that its users import."""
    modules = {name: importlib.import_module(f"zarr_vectors.{name}") for name in ("api", "building", "headers", "rechunk", "sharding")}
    names = {*reference.__all__}
    for module in modules.values():
        names |= set(module.__all__)
    classes = [thing for name in (*reference.__all__, "HeaderRegistry") if inspect.isclass(thing := getattr(reference, name, modules["headers"].HeaderRegistry))]
    for cls in classes:
        if not issubclass(cls, BaseException):
            names |= {member for member in vars(cls) if not member.startswith("_")}
    for kind in ("points", "lines", "polylines", "graphs", "meshes", "parametric"):
        own = vars(importlib.import_module(f"zarr_vectors.types.{kind}"))
        names |= {name for name in own if name.startswith(("read_", "write_")) and own[name].__module__ == f"zarr_vectors.types.{kind}"}
    names |= {name for name, thing in vars(importlib.import_module("zarr_vectors.exceptions")).items() if inspect.isclass(thing)}
    return names | {"open_zv", "add_geometry", "read_composite", "validate", "build_pyramid", "coarsen_level", "vacuum"}


def test_the_table_has_every_call():
    guide = (Path(__file__).parents[3] / "docs/src/guide/from-zarr-vectors.md").read_text()
    guide = re.sub(r"```.*?```", "", guide, flags=re.S)
    head, _, missing_here = guide.partition("functions of `building` that are not there")
    spoken = {word for code in re.findall(r"`([^`]+)`", guide) for word in re.findall(r"\w+", code)}
    unspoken = sorted(names_of_the_facade() - spoken - INTERNAL)
    assert unspoken == [], "calls that the guide says nothing of"
    listed = re.search(r"There: (.+?)\.\n", head, re.S)
    for name in re.findall(r"`(\w+)`", listed.group(1)):
        assert hasattr(zv.building, name), f"{name}: the guide says that it is here"
    for row in missing_here.splitlines():
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if row.count("|") > 2 else ""):
            assert not hasattr(zv.building, name), f"{name}: the guide says that it is not here"


#: In the ``__all__`` of the reference's modules, and nothing that a program calls.
INTERNAL = {"ShardLayout"}


def test_every_call_is_here_under_its_name():
    for name in reference.__all__:
        ours, theirs = getattr(zv, name), getattr(reference, name)
        if not inspect.isclass(theirs):
            continue
        members = {m for m in vars(theirs) if not m.startswith("_")}
        lacking = {m for m in members if not hasattr(ours, m) and m not in getattr(ours, "__annotations__", {})}
        assert lacking <= NOT_HERE.get(name, set()), f"{name}: {lacking}"


#: What of its own engine the reference's values carry; the guide says so.
NOT_HERE = {"EditPlan": {"session"}}


def parameters(call):
    return {p.name for p in inspect.signature(call).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)} - {"self"}


def test_calls_take_the_same_words():
    """Every parameter of a call of the reference is one of ours, by its name."""
    for module in ("", ".building", ".lazy", ".sharding", ".rechunk", ".composite", ".core.arrays", ".core.store", ".headers", ".validate"):
        theirs, ours = importlib.import_module(f"zarr_vectors{module}"), importlib.import_module(f"zvf.compat{module}")
        for name, call in vars(theirs).items():
            own = getattr(ours, name, None) if not name.startswith("_") else None
            if own is None or not callable(call) or not str(getattr(call, "__module__", "")).startswith("zarr_vectors"):
                continue
            calls = [(name, call, own)] if not inspect.isclass(call) else []
            if inspect.isclass(call):
                members = [m for m, v in vars(call).items() if inspect.isfunction(v) and not m.startswith("_")]
                calls = [(f"{name}.{m}", getattr(call, m), getattr(own, m)) for m in members if callable(getattr(own, m, None))]
            for label, one, mine in calls:
                takes_all = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(mine).parameters.values())
                lacking = parameters(one) - parameters(mine)
                assert not lacking or takes_all, f"{module} {label}: {lacking}"

