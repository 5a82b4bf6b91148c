"""Values that an argument does not take: each is refused by the name of the argument, with what was expected and found."""

from __future__ import annotations

import inspect
import os
import pickle

import numpy as np
import pytest
import zvf
from zvf import errors

XYZ = np.random.default_rng(4).random((20, 3))
LINES = [XYZ[:5], XYZ[5:9]]


@pytest.fixture
def tracts(tmp_path):
    words = {"attributes": {"fa": np.arange(9.0), "word": ["a", None] * 4 + ["b"]}, "object_attributes": {"n": [1, 2]}}
    return zvf.polylines(tmp_path / "tracts.zarrvectors", LINES, chunk=1.0, **words)


def refused(call, builtin, *said):
    """Calls what must be refused: the exception is one of zvf and the builtin, and says all of it."""
    with pytest.raises(zvf.Error) as caught:
        call()
    error = caught.value
    assert isinstance(error, builtin), repr(error)
    for words in said:
        assert words in str(error), str(error)
    assert error.class_name == "InvalidArgument" and "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and (str(again), again.expected, again.found) == (str(error), error.expected, error.found)
    return error


def test_the_hierarchy_has_the_builtins_that_one_expects():
    of = {FileNotFoundError, FileExistsError, ValueError, KeyError, IndexError, PermissionError, OSError, TypeError, TimeoutError}
    classes = [getattr(errors, name) for name in errors.__all__]
    assert all(issubclass(cls, zvf.Error) for cls in classes)
    assert {builtin for builtin in of if any(issubclass(cls, builtin) for cls in classes)} == of
    for cls in classes:
        assert cls("said", op="read").class_name and inspect.getdoc(cls)


@pytest.mark.parametrize("name", ["attributes", "object_attributes", "groups"])
@pytest.mark.parametrize("value", [[1, 2], "fa", 3, np.zeros(20)])
def test_columns_and_groups_are_mappings(tmp_path, name, value):
    calls = [
        lambda: zvf.points(tmp_path / "a", XYZ, object_ids=np.arange(20), **{name: value}),
        lambda: zvf.polylines(tmp_path / "a", LINES, **{name: value}),
        lambda: zvf.lines(tmp_path / "a", XYZ.reshape(10, 2, 3), **{name: value}),
        lambda: zvf.graph(tmp_path / "a", XYZ, [[0, 1]], **{name: value}),
        lambda: zvf.mesh(tmp_path / "a", XYZ, [[0, 1, 2]], **{name: value}),
        lambda: zvf.write(tmp_path / "a", XYZ, **{name: value}),
    ]
    for call in calls:
        error = refused(call, TypeError, f"{name}: expected a mapping of names to")
        assert error.expected.startswith("a mapping") and error.found
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "builtin", "said"),
    [
        ({"chunk": 0}, ValueError, "chunk: expected a size above 0, or one for each of 3 axes, found 0"),
        ({"chunk": "0"}, ValueError, "chunk: expected at least 1 byte, found '0'"),
        ({"chunk": "large"}, ValueError, "chunk: expected a number of bytes"),
        ({"chunk": [1.0, 2.0]}, ValueError, "chunk: expected a size above 0, or one for each of 3 axes, found [1.0, 2.0]"),
        ({"chunk": [1.0, np.nan, 2.0]}, ValueError, "chunk: "),
        ({"chunk": -1}, ValueError, "chunk: "),
        ({"chunk": {"x": 1}}, TypeError, "chunk: "),
        ({"bins": 0}, ValueError, "bins: expected a size above 0"),
        ({"bounds": 5}, TypeError, "bounds: expected the lowest and the highest corner"),
        ({"bounds": ([0, 0, 0], [1, 1, "a"])}, TypeError, "bounds: expected a list of coordinates"),
        ({"axes": ["x"]}, TypeError, "axes: expected 3 axes"),
        ({"axes": [1, 2, 3]}, TypeError, "axes: expected a name"),
        ({"shard": 2}, TypeError, "shard: expected how many chunks"),
        ({"shard": [0, 1, 1]}, ValueError, "shard: expected how many chunks"),
        ({"codec": 5}, TypeError, "codec: expected a name, or steps"),
        ({"codec": "zstd:much"}, ValueError, "codec: expected none, zstd"),
        ({"outside": 1}, TypeError, "outside: expected text"),
        ({"outside": "ask"}, ValueError, "outside: expected raise, ignore or expand"),
        ({"metadata": [1]}, TypeError, "metadata: expected a mapping"),
        ({"metadata": {"a": object}}, TypeError, "metadata['a']: expected what JSON has"),
        ({"memory": "2 parsec"}, ValueError, "memory: expected a number of bytes"),
        ({"memory": -1}, ValueError, "memory: expected a number of bytes"),
        ({"scratch": 5}, TypeError, "scratch: expected a folder"),
        ({"declared": {"vertex": ["fa"]}}, TypeError, "declared['vertex']: expected a mapping"),
        ({"name": 5}, TypeError, "name: expected text"),
        ({"storage_options": 5}, TypeError, "storage_options: expected a mapping"),
        ({"object_ids": [0.5] * 20}, TypeError, "object_ids: expected whole numbers"),
        ({"object_ids": [[1], [2, 3]]}, ValueError, "object_ids: expected an array"),
        ({"object_attributes": {"n": [1]}}, ValueError, "object_attributes: expected the objects that they are of"),
        ({"groups": {"left": ["a"]}}, TypeError, "members of the group 'left': expected whole numbers"),
        ({"attributes": {"m": [None] * 20}}, TypeError, "column 'm': expected numbers of one type"),
        ({"attributes": {"m": [1.0, "a"] * 10}}, TypeError, "found 'a' at 1"),
        ({"attributes": {"m": [["a"], 1]}}, ValueError, "column 'm': expected an array, or lists whose rows have one length"),
        ({"attributes": {"m": 5}}, ValueError, "column 'm': expected one row for each, found a single value, 5"),
        ({"attributes": {5: np.zeros(20)}}, TypeError, "the name of a column: expected text, found 5"),
    ],
)
def test_words_of_create_are_refused_by_their_name(tmp_path, words, builtin, said):
    refused(lambda: zvf.points(tmp_path / "a", XYZ, **words), builtin, said)
    assert os.listdir(tmp_path) == []


def test_values_that_are_masked_are_missing(tmp_path):
    masked = np.ma.masked_array(np.arange(4.0), mask=[False, True, False, False])
    values = zvf.points(tmp_path / "a.zarrvectors", np.zeros((4, 3)), attributes={"m": masked}).read()["m"]
    assert np.isnan(values).sum() == 1 and sorted(values[~np.isnan(values)]) == [0.0, 2.0, 3.0]
    said = "object_ids: expected no masked values but of floats, where NaN stands for one, found 1 of int64"
    refused(lambda: zvf.points(tmp_path / "b", np.zeros((4, 3)), object_ids=masked.astype(np.int64)), ValueError, said)
    refused(lambda: zvf.points(tmp_path / "b", np.ma.masked_array(np.zeros((1, 3)), mask=[[0, 1, 0]])), ValueError, "positions: expected finite coordinates")
    assert not (tmp_path / "b").exists()


def test_text_may_lack_words(tracts, tmp_path):
    assert tracts.read()["word"].tolist() == ["a", None] * 4 + ["b"]
    assert tracts.count(where="word is null") == 4
    import pandas as pd

    words = ["a", None, "b", "a"]
    columns = {"list": words, "objects": np.array(words, dtype=object), "pandas": pd.Series(words), "string": pd.array(words, dtype="string")}
    columns["category"] = pd.Categorical(words)
    ds = zvf.points(tmp_path / "a.zarrvectors", XYZ[:4], attributes={**columns, "n": np.arange(4), "bytes": np.array([b"x", b"y", b"x", b"y"])})
    answer = ds.read()
    order = np.argsort(answer["n"])
    assert all(answer[name][order].tolist() == words for name in columns) and answer["bytes"][order].tolist() == ["x", "y", "x", "y"]
    frame = zvf.write(tmp_path / "b.zarrvectors", pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": 0.0, "w": words}))
    assert sorted(map(str, frame.read()["w"])) == ["None", "a", "a", "b"]
    refused(lambda: zvf.points(tmp_path / "c", XYZ[:1], attributes={"w": np.array([b"\xff"])}), ValueError, "column 'w': expected text of UTF-8")


@pytest.mark.parametrize("size", [(-1, 10), (10, 0), (16_385, 10), (2**40, 10)])
def test_the_size_of_a_picture_has_limits(tracts, size):
    for thing in (tracts, tracts.select(), tracts.read()):
        refused(lambda thing=thing: thing.render(*size), ValueError, "expected 1 to 16384 pixels, found")
    refused(lambda: tracts.render(2.5), TypeError, "width: expected a whole number, found 2.5")
    refused(lambda: tracts.render(8, "a"), TypeError, "height: expected a whole number, found 'a'")
    refused(lambda: tracts.render(8, 8, colour=3), TypeError, "colour: expected text, found 3")


def test_edits_are_refused_by_the_name_of_the_argument(tracts):
    edit = tracts.edit()
    for to in ([np.nan, 0, 0], [0, np.inf, 0], [0, 0], [0, 0, 0, 0]):
        refused(lambda to=to: edit.move(object=0, vertex=0, to=to), ValueError, "to: expected 3 finite coordinates, found [")
    refused(lambda: edit.move(object=0, vertex=0, to="here"), TypeError, "to: expected a list of coordinates, found 'here'")
    refused(lambda: edit.move(object="a", vertex=0, to=[0, 0, 0]), TypeError, "object: expected a whole number, found 'a'")
    refused(lambda: edit.move(object=0, vertex=1.5, to=[0, 0, 0]), TypeError, "vertex: expected a whole number, found 1.5")
    refused(lambda: edit.remove(), TypeError, "object: expected a whole number, found None")
    refused(lambda: edit.set("n", object=0, value=object()), TypeError, "object.set, values: expected what JSON has, found")
    refused(lambda: edit.set(3, object=0, value=1), TypeError, "name: expected text, found 3")
    refused(lambda: edit.add([[0, 0, np.nan]]), ValueError, "positions: expected finite coordinates, found [0.0, 0.0, nan] in row 0")
    refused(lambda: edit.add([[0, 0]]), ValueError, "positions: expected 3 coordinates a row, found 2")
    refused(lambda: edit.add(XYZ[:2], attributes=[1]), TypeError, "attributes: expected a mapping")
    refused(lambda: edit.add(XYZ[:2], attributes={"fa": [1.0]}), ValueError, "column 'fa': expected 2 rows, found the shape (1,)")
    assert edit.operations == []
    with edit:
        edit.set("fa", object=0, vertex=1, value=np.nan)  # a float that is missing is a value
    assert np.isnan(tracts.read(objects=[0])["fa"][1])


@pytest.mark.parametrize(
    ("call", "builtin", "said"),
    [
        (lambda ds: ds.read(level=7), IndexError, "there is no level 7: there is 0"),
        (lambda ds: ds.level(-1), IndexError, "there is no level -1"),
        (lambda ds: ds.level("a"), TypeError, "level: expected a whole number, found 'a'"),
        (lambda ds: ds.object_ids(level=3), IndexError, "there is no level 3"),
        (lambda ds: ds.objects([0.5]), TypeError, "objects: expected whole numbers"),
        (lambda ds: ds.statistics(level=-2), IndexError, "there is no level -2"),
        (lambda ds: ds.select(limit=2**70), ValueError, "limit: expected a number of 63 bits"),
        (lambda ds: ds.select(groups=2.5), TypeError, "groups: expected numbers or names of groups"),
        (lambda ds: ds.select(level=("largest", 5)), TypeError, "level: expected a number, or zvf.max_vertices(n)"),
        (lambda ds: ds.select(where="fa > 1").select(where=5), TypeError, "where: expected text"),
        (lambda ds: ds.select(objects=[[1], [2, 3]]), ValueError, "objects: expected an array"),
        (lambda ds: ds.select(box=([0, 0, 0], [1, 1, 1]), colour="red"), TypeError, "a query has no 'colour'"),
        (lambda ds: ds.read(mode="sideways"), ValueError, "mode: expected one of inside, touch"),
        (lambda ds: ds.read(order="any"), ValueError, "order: expected one of storage"),
        (lambda ds: ds.read(objects=[99], unknown_objects="guess"), ValueError, "unknown_objects: expected one of report"),
        (lambda ds: next(ds.select().batches(rows=0)), ValueError, "rows: expected at least 1, found 0"),
        (lambda ds: ds.read()["nothing"], KeyError, "there is no column 'nothing'"),
        (lambda ds: zvf.max_vertices("many"), TypeError, "count: expected a number, found 'many'"),
        (lambda ds: zvf.max_error(-1), ValueError, "distance: expected a number from 0 on, found -1.0"),
        (lambda ds: zvf.validate(ds, level=9), ValueError, "level: expected 1 to 5, found 9"),
        (lambda ds: zvf.validate(ds, level="all"), TypeError, "level: expected a whole number, found 'all'"),
        (lambda ds: zvf.validate(ds, progress=5), TypeError, "progress: expected a callable or True, found 5"),
        (lambda ds: ds.build_pyramid(levels=-1), ValueError, "levels: expected no negative number, found -1"),
        (lambda ds: zvf.ingest(5, "at"), TypeError, "files: expected a path, or a list of paths, found 5"),
        (lambda ds: zvf.open(5), TypeError, "an address: expected a path, a URL or a store, found int"),
        (lambda ds: zvf.open(""), ValueError, "an address: expected a path or a URL, found nothing"),
        (lambda ds: zvf.write("at", 5), TypeError, "write: expected a table, a mesh, a graph, a mapping or an array, found 5"),
        (lambda ds: zvf.graph("at", XYZ, [[0, 1, 2], [3, 4, 5]]), ValueError, "edges: expected two rows of vertices each, found the shape (2, 3)"),
        (lambda ds: zvf.polylines("at", "abc"), TypeError, "lines: expected arrays of positions"),
        (lambda ds: zvf.polylines("at", []), ValueError, "lines: expected at least one, found none"),
        (lambda ds: ds.append(ds.read(), attributes={"fa": [1.0]}), TypeError, "has its own attributes"),
    ],
)
def test_questions_and_work_are_refused_by_the_name_of_the_argument(tracts, tmp_path, monkeypatch, call, builtin, said):
    monkeypatch.chdir(tmp_path)
    refused(lambda: call(tracts), builtin, said)
    assert os.listdir(tmp_path) == ["tracts.zarrvectors"] and tracts.count() == 9


def test_what_is_long_is_shown_short(tracts):
    error = refused(lambda: tracts.select(level="x" * 5000), TypeError, "level: ")
    assert len(str(error)) < 300 and error.found.endswith("... (str)")
    refused(lambda: tracts.select(box=np.zeros((4, 4))), TypeError, "box: expected the lowest and the highest corner", "an array of float64 of the shape (4, 4)")


def test_lines_that_are_added_keep_the_attributes_of_their_ids(tracts):
    tracts.append([XYZ[:2], XYZ[2:5]], attributes={"fa": np.zeros(5), "word": ["a"] * 5}, part_ids=[9, 4], object_attributes={"n": [90, 40]})
    assert [view["attributes"]["n"] for view in tracts.objects([4, 9])] == [40, 90]


def test_any_format_becomes_any_other(tmp_path, tracts):
    assert zvf.convert(tracts, tmp_path / "some.csv", objects=[1], attributes=["fa"]) is None
    assert (tmp_path / "some.csv").read_text().count("\n") == 5
    again = zvf.convert(tmp_path / "some.csv", tmp_path / "again.zarrvectors")
    assert again.count() == 4 and zvf.convert(tracts, tmp_path / "copy.zarrvectors", objects=[0]).count() == 5
    with pytest.raises(FileExistsError):
        zvf.convert(tracts, tmp_path / "some.csv")
    assert zvf.convert(tracts, tmp_path / "some.csv", overwrite=True) is None
