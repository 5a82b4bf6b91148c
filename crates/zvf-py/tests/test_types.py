"""Every type of NumPy, pandas, polars and Arrow through every door and every exit: what comes out is what went in.

The table of the book (docs/src/guide/python-types.md) is what these tests find; `ZVF_WRITE_TABLE=1` writes it anew.
"""

from __future__ import annotations

import datetime
import decimal
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zvf

PAGE = Path(__file__).parents[3] / "docs/src/guide/python-types.md"
DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
SPAN, HOUR = datetime.timedelta(days=2, microseconds=7), datetime.time(23, 59, 1, 5)
BIG = 2**53 + 1  # no float64

NUMPY = {
    **{name: np.array([0, 1, np.iinfo(name).max], name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: np.array([0.5, np.nan, 2.0], name) for name in ("float16", "float32", "float64")},
    "bool": np.array([True, False, True]),
    "str": np.array(["a", "", "é"]),
    "bytes": np.array([b"a", b"b", b"a"]),
    "object of str": np.array(["a", None, ""], object),
    "object of int": np.array([BIG, None, 2], object),
    "object of bool": np.array([True, None, False], object),
    "object of float": np.array([1.5, None, 2.0], object),
    "object of date": np.array([DAY, None, DAY], object),
    "object of datetime": np.array([MOMENT, None, MOMENT], object),
    "object of timedelta": np.array([SPAN, None, SPAN], object),
    "object of time": np.array([HOUR, None, HOUR], object),
    "masked int64": np.ma.masked_array([BIG, 0, 2], mask=[False, True, False]),
    "masked bool": np.ma.masked_array([True, True, False], mask=[False, True, False]),
    **{f"datetime64[{u}]": np.array(["2024-02-29T12:30", "NaT", "1969-12-31T23:59"], f"M8[{u}]") for u in ("D", "s", "ms", "us", "ns")},
    **{f"timedelta64[{u}]": np.array([5, "NaT", -7], f"m8[{u}]") for u in ("s", "ms", "us", "ns")},
}
PANDAS = {
    **{n: pd.array([1, None, 3], n) for n in ("Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64")},
    "Int64": pd.array([BIG, None, 3], "Int64"),
    "Float32": pd.array([1.5, None, 3], "Float32"),
    "Float64": pd.array([1.5, None, 3], "Float64"),
    "boolean": pd.array([True, None, False], "boolean"),
    "string": pd.array(["a", None, ""], "string"),
    "str": pd.array(["a", None, ""], "str"),
    "category of str": pd.Categorical(["b", None, "a"]),
    "category of int": pd.Categorical([20, 10, 20]),
    "category of float": pd.Categorical([0.5, None, 1.5]),
    "datetime64[ns, UTC]": pd.array(pd.to_datetime([MOMENT, None, MOMENT], utc=True)),
    "int64[pyarrow]": pd.array([BIG, None, 3], "int64[pyarrow]"),
    "Sparse[int]": pd.arrays.SparseArray([0, 0, 5]),
}
POLARS = {
    **{n: pl.Series([1, None, 3], dtype=getattr(pl, n)) for n in ("Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64")},
    "Int64": pl.Series([BIG, None, 3], dtype=pl.Int64),
    "Boolean": pl.Series([True, None, False]),
    "String": pl.Series(["a", None, ""]),
    "Categorical": pl.Series(["b", None, "a"], dtype=pl.Categorical),
    "Enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a"])),
    "Date": pl.Series([DAY, None, DAY]),
    "Datetime[ms]": pl.Series([MOMENT.replace(microsecond=0), None, MOMENT.replace(microsecond=0)], dtype=pl.Datetime("ms")),
    "Datetime[us, UTC]": pl.Series([MOMENT, None, MOMENT], dtype=pl.Datetime("us")).dt.replace_time_zone("UTC"),
    "Duration[us]": pl.Series([SPAN, None, SPAN]),
    "Time": pl.Series([HOUR, None, HOUR]),
}
ARROW = {
    **{str(t): pa.array([1, None, 3], t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32())},
    "int64": pa.array([BIG, None, 3]),
    "bool": pa.array([True, None, False]),
    "string": pa.array(["a", None, ""]),
    "large_string": pa.array(["a", None, ""], pa.large_string()),
    "string_view": pa.array(["a", None, ""], pa.string_view()),
    "dictionary of string": pa.array(["b", None, "a"]).dictionary_encode(),
    "dictionary of int64": pa.array([20, 10, 20]).dictionary_encode(),
    "date32": pa.array([DAY, None, DAY], pa.date32()),
    "date64": pa.array([DAY, None, DAY], pa.date64()),
    **{f"timestamp[{u}]": pa.array([MOMENT.replace(microsecond=0), None, None], pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
    "timestamp[us, UTC]": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
    "time32[ms]": pa.array([HOUR.replace(microsecond=0), None, None], pa.time32("ms")),
    "time64[us]": pa.array([HOUR, None, None], pa.time64("us")),
    "time64[ns]": pa.array([HOUR, None, None], pa.time64("ns")),
    "duration[ms]": pa.array([datetime.timedelta(seconds=3), None, None], pa.duration("ms")),
}
GIVEN = [(library, name) for library, types in (("NumPy", NUMPY), ("pandas", PANDAS), ("polars", POLARS), ("Arrow", ARROW)) for name in types]
TYPES = {"NumPy": NUMPY, "pandas": PANDAS, "polars": POLARS, "Arrow": ARROW}
XYZ = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])


def plain(values):
    """Values as those of Python, in one form: moments in UTC without saying so, and None where there is none."""
    found = []
    for value in values:
        if value is None or value is pd.NA or value is pd.NaT or value is np.ma.masked or value != value:
            found.append(None)
        elif isinstance(value, (np.datetime64, datetime.datetime, datetime.date)):
            moment = pd.Timestamp(value)
            found.append(moment.tz_convert(None) if moment.tz is not None else moment)
        elif isinstance(value, (np.timedelta64, datetime.timedelta)):
            found.append(pd.Timedelta(value))
        elif isinstance(value, datetime.time):
            found.append(pd.Timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond))
        elif isinstance(value, bytes):
            found.append(value.decode())
        else:
            found.append(value.item() if isinstance(value, np.generic) else value)
    return found


def doors(library, value):
    """Every way in, by its name: a call that writes to a place."""
    yield "attributes", lambda at: zvf.points(at, XYZ, attributes={"v": value}, strict=True)
    yield "mapping", lambda at: zvf.write(at, {"x": XYZ[:, 0], "y": XYZ[:, 1], "z": XYZ[:, 2], "v": value}, strict=True)
    if library == "pandas" or (library == "NumPy" and value.dtype != "M8[D]" and not isinstance(value, np.ma.MaskedArray)):
        yield "series", lambda at: zvf.points(at, XYZ, attributes={"v": pd.Series(value)}, strict=True)
    frames = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}
    if library in frames:
        yield "frame", lambda at: zvf.write(at, frames[library]({"x": XYZ[:, 0], "y": XYZ[:, 1], "z": XYZ[:, 2], "v": value}), strict=True)
    if library == "polars":
        yield "lazy frame", lambda at: zvf.write(at, pl.DataFrame({"x": XYZ[:, 0], "y": XYZ[:, 1], "z": XYZ[:, 2], "v": value}).lazy(), strict=True)

    def push(at):
        with zvf.create(at, chunk=10.0, strict=True) as writer:
            writer.push(XYZ, attributes={"v": value})
        return zvf.open(at)

    def append(at):
        far = zvf.points(at, XYZ + 100, attributes={"v": value}, bounds=([0, 0, 0], [200, 200, 200]))
        return far.append(XYZ, attributes={"v": value})

    yield "push", push
    yield "append", append


def exits(ds, name):
    """Every way out, by its name: the values in the order of x, and the type."""
    answer = ds.read(box=([0, 0, 0], [10, 10, 10]), attributes=[name])
    order = np.argsort(answer.positions[:, 0])
    yield "NumPy", answer[name][order], str(answer[name].dtype)
    frame = answer.to_pandas().sort_values("x")
    yield "pandas", frame[name], str(frame[name].dtype)
    table = answer.to_arrow().take(order)
    yield "Arrow", table[name].to_pylist() if "ns" not in str(table[name].type) else table[name].to_pandas(), str(table[name].type)
    series = answer.to_polars()[order][name]
    yield "polars", series.to_list() if "ns" not in str(series.dtype) else series.to_numpy(), str(series.dtype)
    yield "batches", next(iter(ds.select(attributes=[name]).limit(3)))[name], None


def expected(library, value):
    if library == "polars":
        return plain(value.to_list())
    return plain(value.to_pylist() if library == "Arrow" else list(value))


def row(library, name, tmp_path):
    """Tests one type, and returns its row of the table."""
    value, types = TYPES[library][name], {}
    want = expected(library, value)
    for door, write in doors(library, value):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ds = write(tmp_path / f"{library}-{name}-{door}".replace("/", " "))
        assert ds.validate(level=3).ok, door
        for exit, found, dtype in exits(ds, "v"):
            if exit != "batches":
                assert plain(found) == want, (door, exit)
                types.setdefault(exit, dtype)
                assert types[exit] == dtype or exit == "NumPy", (door, exit)
        assert ds.count(where="v is not null", box=([0, 0, 0], [10, 10, 10])) in (len(want), sum(value is not None for value in want))
    stored = [e for e in ds.level(0).info()["attributes"] if e["name"] in ("v", "v_valid")]
    kinds = [e["dtype"] if e["categories"] is None else f"categories, {e['dtype']}" for e in stored]
    units = [e["unit"] for e in stored if e["unit"]]
    cells = [f"{library} {name}", " and ".join(kinds) + "".join(f", {unit}" for unit in units), *(types[exit] for exit in ("NumPy", "pandas", "polars", "Arrow"))]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


@pytest.mark.parametrize(("library", "name"), GIVEN)
def test_a_type_comes_back_from_every_door_and_exit(library, name, tmp_path):
    found = row(library, name, tmp_path)
    page = PAGE.read_text()
    if os.environ.get("ZVF_WRITE_TABLE"):
        start = re.escape(found[: found.index("|", 2) + 1])
        page = re.sub(f"^{start}.*\n", "", page, flags=re.M)
        PAGE.write_text(page.replace("<!-- end of the table -->", found + "\n<!-- end of the table -->"))
    else:
        assert found in page


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([1 + 2j, 0, 0]), "real and .imag"),
        (np.array([(1, 2.0)] * 3, dtype=[("a", "i4"), ("b", "f8")]), "give each as a column"),
        (np.array(["2024-01", "2024-02", "2024-03"], "M8[as]"), "another unit"),
        ([decimal.Decimal("1.1")] * 3, "smallest unit"),
        (pa.array([decimal.Decimal("1.1")] * 3), "float64 where rounding is no harm"),
        (pl.Series([decimal.Decimal("1.1")] * 3), "float64 where rounding is no harm"),
        (pd.array(pd.period_range("2024", periods=3, freq="D")), "its start, and its end"),
        (pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3]), "its start, and its end"),
        (pa.array([{"a": 1}] * 3), "each of its fields"),
        (pa.array([b"a"] * 3), "numbers of uint8"),
        (pa.array([[1], [1, 2], []]), "rows of 1 values and of 2"),
        (pa.nulls(3), "Null"),
        ([None, None, None], "no type"),
        ([2**64, 1, 2], "64 bits"),
        ([1, "a", None], "at 1"),
        ([BIG, 0.5, 1], "found"),
    ],
)
def test_what_no_column_can_have_is_refused_with_advice(tmp_path, value, said):
    with pytest.raises((ValueError, TypeError), match=said):
        zvf.points(tmp_path / "a.zarrvectors", XYZ, attributes={"v": value})
    assert not (tmp_path / "a.zarrvectors").exists()


def test_what_is_changed_at_the_door_is_told_and_refused_when_strict(tmp_path):
    zone = pd.Series(pd.to_datetime([MOMENT] * 3)).dt.tz_localize("Europe/Berlin")
    losses = {
        "rows of the shape": np.zeros((3, 3, 3)),
        "the zone Europe/Berlin": zone,
        "an order": pd.Categorical(["a", "b", "a"], ordered=True),
        "intervals are stored as text": pd.Series(pd.cut([1, 2, 3], 2)).cat.as_unordered(),
    }
    for at, (said, value) in enumerate(losses.items()):
        with pytest.warns(zvf.LossWarning, match=said):
            zvf.points(tmp_path / f"{at}.zarrvectors", XYZ, attributes={"v": value})
        with pytest.raises(ValueError, match=said):
            zvf.points(tmp_path / "strict.zarrvectors", XYZ, attributes={"v": value}, strict=True)
    with pytest.warns(zvf.LossWarning, match="rounds some coordinates"):
        zvf.points(tmp_path / "big.zarrvectors", np.array([[BIG, 0, 0]]))
    read = zvf.open(tmp_path / "1.zarrvectors").read()
    assert plain(read["v"]) == plain(zone)


def test_conditions_know_which_rows_have_no_value(tmp_path):
    values = {"n": np.ma.masked_array([5, 0, 7], mask=[0, 1, 0]), "t": NUMPY["datetime64[D]"], "ok": NUMPY["masked bool"]}
    ds = zvf.points(tmp_path / "a.zarrvectors", XYZ, attributes=values)
    counts = {"n < 100": 2, "n = 0": 0, "n in (0, 5)": 1, "n is null": 1, "n is not null": 2, "t < 100": 1, "t is null": 1, "ok = true": 1, "ok = false": 1}
    assert {where: ds.count(where=where) for where in counts} == counts
    assert ds.read(attributes=["n"])["n"].tolist().count(None) == 1 and ds.level(0).attributes == ["n", "ok", "t"]
    for where in ("n = 'a'", "ok = 1", "n = true"):
        with pytest.raises(ValueError, match="has values of"):
            ds.count(where=where)


def test_a_stream_may_have_more_words_and_rows_without_a_value(tmp_path):
    with zvf.create(tmp_path / "a.zarrvectors", chunk=10.0) as writer:
        writer.push(XYZ, attributes={"gene": ["b", "a", "b"], "n": np.ma.masked_array([1, 2, 3], mask=[1, 0, 0])})
        writer.push(XYZ, attributes={"gene": ["c", None, "a"], "n": [4, 5, 6]})
    answer = zvf.open(tmp_path / "a.zarrvectors").read()
    assert sorted(map(str, answer["gene"])) == ["None", "a", "a", "b", "b", "c"]
    assert sorted(map(str, answer["n"].tolist())) == ["2", "3", "4", "5", "6", "None"]
    with pytest.raises(ValueError, match="begin with a masked array"), zvf.create(tmp_path / "b.zarrvectors", chunk=10.0) as writer:
        writer.push(XYZ, attributes={"n": [1, 2, 3]})
        writer.push(XYZ, attributes={"n": [1, None, 3]})
