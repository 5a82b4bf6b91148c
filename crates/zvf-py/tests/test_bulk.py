"""Edits by arrays and masks, random orders, and work on commits and several stores."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zvf

LINES = [np.arange(15.0).reshape(5, 3) + 100 * i for i in range(6)]


@pytest.fixture
def tracts(tmp_path):
    return zvf.polylines(
        tmp_path / "tracts.zarrvectors", LINES, attributes={"fa": np.arange(30.0), "word": ["a"] * 30},
        object_attributes={"code": list("abcdef"), "size": np.arange(6)}, groups={"left": [0, 1]},
    )


def test_values_are_set_by_arrays_and_masks(tracts):
    mask = np.array([True, False, False, False, True])
    with tracts.edit() as e:
        e.set("fa", object=3, vertex=np.array([0, 2]), value=np.array([7.0, np.nan]))
        e.set("fa", object=4, vertex=mask, value=-1.0)
        e.set("word", object=4, vertex=mask, value=["much longer", "b"])
        e.set("size", object=np.array([0, 5]), value=[10, 50])
        e.set("size", object=np.arange(6) == 2, value=20)
        e.set("fa", where="fa >= 25", value=0.0)
        e.move(object=5, vertex=[1, 0], to=[[1, 1, 1], [0, 0, 0]])
    answer = tracts.read(objects=[3, 4, 5])
    assert answer["fa"].astype(str).tolist() == ["7.0", "16.0", "nan", "18.0", "19.0", "-1.0", "21.0", "22.0", "23.0", "-1.0", *["0.0"] * 5]
    assert answer["word"][5:10].tolist() == ["much longer", "a", "a", "a", "b"]
    assert answer.positions[10:12].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert tracts.object_table()["object.size"].tolist() == [10, 1, 20, 3, 4, 50]
    with tracts.edit() as e:
        e.remove(object=3, vertex=mask)
        e.remove(object=np.isin(tracts.object_ids(), [0, 1]))
        e.remove(object=np.zeros(0, dtype=int))
    assert tracts.object_ids().tolist() == [2, 3, 4, 5] and tracts.count(objects=[3]) == 3


def test_what_does_not_fit_is_refused(tracts):
    head = tracts.head
    for call, said in (
        (lambda e: e.set("fa", object=3, vertex=[1, 2], value=[1.0, 2.0, 3.0]), "value: expected one, or 2, one for each, found 3"),
        (lambda e: e.set("fa", object=3, vertex=np.ones(4, bool), value=1.0), "5 vertices, expected 4"),
        (lambda e: e.set("size", object=np.ones(4, bool), value=1), "object: expected 6 truth values"),
        (lambda e: e.set("size", object=1, where="fa > 1", value=1), "either a condition or an object"),
        (lambda e: e.move(object=3, vertex=[0, 1], to=[[0, 0, 0]]), "to: expected 2 rows"),
        (lambda e: e.move(object=3, vertex=[0], to=[[0, 0]]), "to: expected 3 finite coordinates"),
    ):
        with pytest.raises(ValueError, match=said), tracts.edit() as e:
            call(e)
    assert tracts.head == head


def test_text_of_objects_of_any_length_can_be_set(tracts):
    with tracts.edit() as e:
        e.set("code", object=1, value="renamed")
        e.set("code", object=[2, 3], value=["longer than that", "x"])
        new = e.add(np.ones((2, 3)), attributes={"fa": [0.0, 0.0], "word": ["a", "a"]}, values={"code": "the longest text of all", "size": 1})
    assert tracts.object_table()["object.code"].tolist() == ["a", "renamed", "longer than that", "x", "e", "f", "the longest text of all"]
    assert new == 6 and tracts.validate(level=5).ok and len(tracts.log()) == 1


def test_wider_text_keeps_that_of_other_objects(tmp_path):
    lines = [np.zeros((rows, 3)) for rows in (2, 2, 0)]
    for last, text in ((None, "longer"), ("c", "b")):
        ds = zvf.polylines(tmp_path / text, lines, object_attributes={"name": [None, "b", last]})
        with nullcontext() if last is None else pytest.raises(ValueError, match="loses that of object 2"), ds.edit() as e:
            e.set("name", object=1, value="longer")
        assert ds.object_table()["object.name"].tolist() == [None, text]


def test_groups_are_made_and_changed(tracts):
    with tracts.edit() as e:
        e.group("left", [1, 2])
        e.group("long", np.array([5]))
        e.group("long", [4])
    assert {name: sorted(members.tolist()) for name, members in tracts.groups.items()} == {"left": [0, 1, 2], "long": [4, 5]}
    with tracts.edit() as e:
        e.group("left", [0], remove=True)
        e.remove_group("long")
    assert tracts.groups["left"].tolist() == [1, 2] and "long" not in tracts.groups


def test_a_sampler_gives_everything_once_in_an_order_of_its_seed(tracts, tmp_path):
    def order(sampler):
        return [int(item["object"]) for item in sampler]

    sampler = zvf.Sampler(tracts.select(), 3)
    first = order(sampler)
    assert sorted(first) == list(range(6)) and order(zvf.Sampler(tracts.select(), 3)) == first
    assert any(order(sampler) != first for _ in range(5)) and any(order(zvf.Sampler(tracts.select(), seed)) != first for seed in range(5))
    item = next(iter(sampler))
    assert item["positions"].shape == (5, 3) and item["offsets"].tolist() == [0, 5] and set(item["word"]) == {"a"}
    cloud = zvf.points(tmp_path / "cloud.zarrvectors", np.random.default_rng(0).random((1000, 3)), attributes={"n": np.arange(1000)}, chunk=0.25)
    query = cloud.select(box=([0, 0, 0], [1, 1, 0.5]))
    want = sorted(query.read()["n"].tolist())
    for memory in ("1KiB", "1MiB"):
        items = list(zvf.Sampler(query, 1, rows=64, memory=memory))
        assert sorted(np.concatenate([item["n"] for item in items]).tolist()) == want and all(len(item["n"]) <= 64 for item in items)
        found = np.concatenate([item["positions"] for item in items])
        assert len(found) == len(want) and len(np.unique(np.floor(items[0]["positions"] / 0.25), axis=0)) > (1 if memory == "1MiB" else 0)
    shares = [np.concatenate([item["n"] for item in zvf.Sampler(query, 1, share=(at, 3))]) for at in range(3)]
    assert sorted(np.concatenate(shares).tolist()) == want
    for words, said in (({"seed": -1}, "seed"), ({"seed": 1, "rows": 0}, "rows"), ({"seed": 1, "share": (3, 3)}, "share")):
        with pytest.raises(ValueError, match=said):
            zvf.Sampler(query, **words)


def test_commits_are_checked_out_compared_and_collected(tracts, tmp_path):
    with tracts.edit("one fewer") as e:
        e.remove(object=2)
    old = zvf.checkout(tracts, 0, tmp_path / "old.zarrvectors")
    assert len(old.object_ids()) == 6 and zvf.checkout(tracts, tracts.log()[0]["txid"], tmp_path / "new.zarrvectors").count() == 25
    assert zvf.diff(tracts, 0)["objects"]["removed"] == [2] == zvf.diff(old, tracts)["objects"]["removed"]
    assert zvf.diff(tracts, 1, 1)["same"] and zvf.diff(tracts, 0, 1) == {**zvf.diff(tracts, 0)}
    with pytest.raises(FileNotFoundError):
        zvf.checkout(tracts, "no such", tmp_path / "none.zarrvectors")
    with pytest.raises(ValueError, match="two commits of one store, or two stores"):
        zvf.diff(tracts, old, 1)
    assert zvf.vacuum(tracts)["dry_run"] is False and zvf.gc(tracts, keep=0, grace="0s")["removed"]["files"] > 0


def test_stores_are_joined_and_divided(tracts, tmp_path):
    other = zvf.polylines(tmp_path / "other.zarrvectors", LINES[:1], attributes={"fa": np.zeros(5), "word": ["b"] * 5}, object_attributes={"code": ["z"], "size": [9]})
    assert zvf.join(tracts, other, group_by_source=True, message="more").object_ids().tolist() == list(range(7))
    assert tracts.groups["other"].tolist() == [6] and tracts.log()[0]["message"] == "more"
    parts = zvf.divide(tracts, tmp_path / "parts", by="group")
    assert {name: part.count() for name, part in parts.items()} == {"left": 10, "other": 5}
    halves = zvf.divide(tracts, tmp_path / "halves", by="box", boxes=[([0, 0, 0], [50, 50, 50])])
    assert [half.count() for half in halves.values()] == [10]
    with pytest.raises(ValueError, match="stores: expected at least one"):
        zvf.join(tracts)


def test_columns_are_attached_from_a_table_of_any_library(tracts, tmp_path):
    table = {"id": [5, 0, 99], "kind": ["long", None, "none"], "score": [1.5, 2.5, 0.0], "count": [7, 8, 9]}
    (tmp_path / "t.csv").write_text("id,flag\n" + "".join(f"{i},{i}\n" for i in range(6)))
    for prefix, given in (("a_", table), ("b_", pd.DataFrame(table)), ("c_", pa.table(table))):
        zvf.attach(tracts, given, key="id", prefix=prefix, columns=["kind", "count"])
        found = tracts.object_table()
        assert found[f"object.{prefix}kind"].tolist()[5] == "long" and found[f"object.{prefix}count"][[0, 5]].tolist() == [8, 7]
    zvf.attach(tracts, tmp_path / "t.csv", key="id")
    zvf.attach(tracts, {"letter": ["f", "a"], "size": [60, 61]}, key="letter", on="object.code", replace=True)
    assert tracts.object_table()["object.size"][[0, 5]].tolist() == [61, 60]
    for words, said in (({"key": "no"}, "no column 'no'"), ({"key": "id", "unmatched": "error"}, "no object has the id 99"), ({"key": "id", "on": "object.no"}, "object.no")):
        with pytest.raises((ValueError, KeyError), match=said):
            zvf.attach(tracts, table, **words)
