"""Missing values of objects and edges, and objects of Python: read as they were given, or refused with advice at the door."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pandas as pd
import pytest
import zvf

XYZ = np.arange(9.0).reshape(3, 3)
LINES = [XYZ[:2], XYZ[2:]]
DAY = np.datetime64("2024-02-29")
COLUMNS = {
    "ints": (np.array([2**53 + 1, None], dtype=object), [2**53 + 1, None]),
    "bools": (np.array([True, None], dtype=object), [True, None]),
    "text": (np.array(["a", None], dtype=object), ["a", None]),
    "floats": (np.array([1.5, None], dtype=object), [1.5, None]),
    "days": (np.array([datetime.date(2024, 2, 29), None], dtype=object), [DAY, None]),
    "frame": (pd.Series([7, pd.NA], dtype=object), [7, None]),
}


def plain(values):
    return [None if value is None or value is np.ma.masked or value != value else value for value in values]


@pytest.mark.parametrize("name", COLUMNS)
def test_missing_values_of_objects_and_edges_come_back(tmp_path, name):
    value, want = COLUMNS[name]
    ds = zvf.polylines(tmp_path / "lines.zarrvectors", LINES, object_attributes={"o": value})
    assert ds.validate(level=5).ok
    answer = ds.read(attributes=["object.o"], order="objects")
    assert plain(answer["object.o"][[0, 2]]) == want and list(answer) == ["object.o"]
    assert plain(ds.object_table()["object.o"]) == want and not [n for n in ds.object_table() if n.endswith("_valid")]
    batch = next(iter(ds.select(attributes=["object.o"], objects=[1])))
    assert plain(batch["object.o"]) == [None]
    assert len(ds.read(where="object.o is null")) == 1 or name == "floats"
    assert answer.to_arrow()["object.o"].null_count == (0 if name == "floats" else 1)
    assert plain(answer[[0, 2]]["object.o"]) == want and plain(pickle.loads(pickle.dumps(answer))["object.o"][[0, 2]]) == want
    copy = zvf.write(tmp_path / "copy.zarrvectors", ds)
    assert plain(copy.read(attributes=["object.o"], order="objects")["object.o"][[0, 2]]) == want
    graph = zvf.graph(tmp_path / "graph.zarrvectors", XYZ, [[0, 1], [1, 2]], edge_attributes={"e": value})
    answer = graph.read()
    assert plain(answer["e"][np.argsort(answer.edges[:, 0])]) == want and list(answer.element_keys()) == ["e"]


def test_pieces_that_are_added_fit_columns_with_missing_values(tmp_path):
    ds = zvf.points(tmp_path / "a.zarrvectors", XYZ, attributes={"c": [1, None, 3]})
    ds.append(XYZ, attributes={"c": [4, 5, 6]})
    assert sorted(plain(ds.read()["c"]), key=str) == [1, 3, 4, 5, 6, None]
    whole = zvf.points(tmp_path / "b.zarrvectors", XYZ, attributes={"c": [1, 2, 3]})
    with pytest.raises(ValueError, match="column 'c': rows without a value, and none were among those before"):
        whole.append(XYZ, attributes={"c": [4, None, 6]})


def test_lines_keep_missing_values_of_their_columns(tmp_path):
    for at, value in enumerate(([pd.Series([2**53 + 1, None], dtype="Int64"), pd.Series([3], dtype="Int64")], [np.ma.masked_array([2**53 + 1, 0], [0, 1]), np.array([3])])):
        ds = zvf.polylines(tmp_path / f"{at}.zarrvectors", LINES, attributes={"c": value})
        assert plain(ds.read(order="objects")["c"]) == [2**53 + 1, None, 3]


def test_numbers_in_arrays_of_objects_are_numbers(tmp_path):
    frame = pd.DataFrame({"x": pd.Series([1, 2, 3], dtype=object), "y": [0.5, 1, 2], "z": 0.0, "object": pd.Series([1, 1, 2], dtype=object)})
    assert zvf.write(tmp_path / "a.zarrvectors", frame).object_ids().tolist() == [1, 2]
    for name, said in (("x", "column 'x': .*no value at 1"), ("object", "object_ids: .*no value at 1")):
        with pytest.raises(TypeError, match=said):
            zvf.write(tmp_path / "b.zarrvectors", frame.assign(**{name: pd.Series([1, None, 2], dtype=object)}))


def test_empty_text_of_objects_is_no_value_and_that_is_told(tmp_path):
    with pytest.warns(zvf.LossWarning, match="column 'o': empty text of an object is stored as no value"):
        ds = zvf.polylines(tmp_path / "a.zarrvectors", LINES, object_attributes={"o": ["a", ""]})
    assert ds.object_table()["object.o"].tolist() == ["a", None]
    with pytest.raises(ValueError, match="empty text"):
        zvf.polylines(tmp_path / "b.zarrvectors", LINES, object_attributes={"o": ["a", ""]}, strict=True)
