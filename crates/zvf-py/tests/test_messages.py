"""What people are told: names of keywords, of stores, and of what they meant; indices as NumPy has them."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import zvf
from hypothesis import given, settings
from hypothesis import strategies as st


TESTDATA = Path(__file__).parents[3] / "testdata" / "zvf"


@pytest.fixture
def cloud(tmp_path):
    return zvf.points(tmp_path / "cloud.zarrvectors", np.eye(3), attributes={"mass": np.arange(3.0)})


def test_a_store_that_is_not_there_is_named(tmp_path):
    at = tmp_path / "nothing.zarrvectors"
    with pytest.raises(zvf.errors.NotFoundError, match=f"cannot open {at}: no such file or folder") as caught:
        zvf.open(at)
    assert caught.value.hint and caught.value.args == (str(caught.value),)
    with pytest.raises(zvf.errors.NotFoundError, match=f"cannot open {at}"):
        asyncio.run(zvf.aopen(at))


def test_a_name_that_is_taken_says_how_to_replace_it(cloud, tmp_path):
    with pytest.raises(FileExistsError, match=f"cannot write {cloud.address}: .*overwrite=True") as caught:
        zvf.points(cloud.address, np.eye(3))
    assert "overwrite=True" in caught.value.hint
    zvf.pack(cloud, tmp_path / "a.tet")
    with pytest.raises(FileExistsError, match="overwrite=True to replace it"):
        zvf.pack(cloud, tmp_path / "a.tet")
    assert zvf.points(cloud.address, np.ones((2, 3)), overwrite=True).count() == 2


def test_options_of_commands_are_keywords(cloud):
    with pytest.raises(ValueError, match="unexpected argument 'levls' found.*'levels'"):
        cloud.build_pyramid(levls=2)
    with pytest.raises(ValueError, match="for 'cell_size': "):
        cloud.build_pyramid(cell_size="large")


def test_words_of_other_libraries_are_known(cloud):
    for word, meant in (("bbox", "box"), ("atributes", "attributes"), ("filter", "where")):
        with pytest.raises(TypeError, match=f"no '{word}'; did you mean '{meant}'") as caught:
            cloud.select(**{word: None})
        assert caught.value.hint == f"did you mean {meant!r}?"
    with pytest.raises(TypeError, match="no 'xyzzy'; it has box"):
        cloud.select(xyzzy=1)


def test_tables_name_the_axis_that_they_lack(tmp_path):
    at = tmp_path / "table.zarrvectors"
    for names, lacking in ((["y", "mass"], "x"), (["x", "z"], "y")):
        with pytest.raises(ValueError, match=f"needs one called {lacking}"):
            zvf.write(at, {name: np.arange(2.0) for name in names})
    with pytest.raises(TypeError, match=r"column 'wave': .*complex128.*give .real and .imag"):
        zvf.write(at, {"x": np.arange(2.0), "wave": np.array([1j, 2j])})
    assert not at.exists()


def test_what_is_added_is_not_called_by_a_file_nobody_knows(cloud):
    with pytest.raises(ValueError, match='what is added: vertices of point_cloud have no column "size"') as caught:
        cloud.append(np.ones((1, 3)), attributes={"size": [1.0]})
    assert "zvf-append" not in str(caught.value)


def test_what_a_conversion_loses_is_a_warning(tmp_path):
    both = zvf.points(tmp_path / "a.zarrvectors", np.eye(3), attributes={"mass": [1.0, 2.0, 3.0], "word": ["a", "b", "a"]})
    with pytest.warns(zvf.LossWarning, match=r'a\.xyz: vertex attribute "mass" is dropped') as caught:
        zvf.convert(both, tmp_path / "a.xyz")
    assert all(entry.filename == __file__ for entry in caught)
    with pytest.warns(zvf.LossWarning) as caught:
        zvf.convert(both, tmp_path / "b.xyz", dry_run=True)
    assert [str(entry.message).partition(" is dropped")[0].rpartition(" ")[2] for entry in caught] == ['"mass"', '"word"']
    with pytest.raises(ValueError, match="XYZ cannot hold everything"):
        zvf.convert(both, tmp_path / "b.xyz", strict=True)
    assert not (tmp_path / "b.xyz").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zvf.convert(both, tmp_path / "a.csv")
        assert zvf.ingest(tmp_path / "a.csv", tmp_path / "b.zarrvectors").count() == 3
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl red\nf 1 2 3\n")
    with pytest.warns(zvf.LossWarning, match="not read: 1 material reference"):
        zvf.ingest(tmp_path / "a.obj", tmp_path / "c.zarrvectors")


def test_a_report_shows_what_is_wrong(cloud, tmp_path):
    assert repr(cloud.validate()) == "<zvf.Report: ok, 0 findings>"
    cell = next(p for p in (tmp_path / "cloud.zarrvectors/0/vertex_attributes/mass/c").rglob("*") if p.is_file())
    cell.write_bytes(cell.read_bytes()[:-4])
    report = zvf.validate(cloud)
    lines = repr(report).splitlines()
    assert lines[0] == f"<zvf.Report: not ok, {len(report.findings)} findings" and "expected" in lines[1]


def test_the_datasets_of_a_file_are_named(cloud, tmp_path):
    packed = zvf.pack(cloud, tmp_path / "a.tet")
    with pytest.raises(ValueError, match="no name, where there is "):
        zvf.open_tensor(packed.address)


def test_a_loop_that_is_closed_hears_nothing(cloud, capfd):
    async def leave():
        task = asyncio.create_task(cloud.aread())
        await asyncio.sleep(0)
        task.cancel()

    for _ in range(20):
        asyncio.run(leave())
    assert cloud.count() == 3
    assert "closed" not in capfd.readouterr().err


SHAPE = (3, 4, 2)
ROWS = st.sampled_from([0, -1, slice(None), slice(None, None, -1), slice(2, 0, -1), slice(1, 1), [0, 1], [-1, 0, 0], [], None, ..., np.array([[0, 1], [1, 0]])])


@pytest.fixture(scope="module")
def tensor(tmp_path_factory):
    array = np.arange(24).reshape(SHAPE)
    return array, zvf.save_tensor(tmp_path_factory.mktemp("tensor") / "a.tet", array)


@settings(max_examples=300, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4).filter(lambda key: sum(k is ... for k in key) < 2))
def test_an_index_is_that_of_numpy(tensor, key):
    array, stored = tensor
    try:
        expected = array[tuple(key)]
    except IndexError:
        with pytest.raises(IndexError):
            stored[tuple(key)]
    else:
        found = stored[tuple(key)]
        assert np.shape(found) == np.shape(expected) and np.array_equal(found, expected)


def test_truth_values_over_several_axes(tensor):
    array, stored = tensor
    for key in (array > 5, array[:, :, 0] > 9, (slice(None), array[0] > 3), (array[:, :, 0] > 9, 1), (..., array[0] > 3), (1, array[0] > 2), np.zeros(SHAPE[:2], bool)):
        assert np.array_equal(stored[key], array[key]), key
    with pytest.raises(IndexError, match=r"axis 1: expected truth values of the shape \(4, 2\), found \(3, 2\)"):
        stored[:, np.ones((3, 2), bool)]
    with pytest.raises(IndexError, match="expected a number, a slice"):
        stored["first"]


def golden(name, folder):
    """A store of the archives of the workspace."""
    with pyarrow.input_stream(TESTDATA / f"{name}.tar.zst", compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"{name}.zarrvectors"


def test_rows_without_an_order_are_neither_linked_nor_lost_unseen(tmp_path):
    mesh = zvf.open(golden("ms3_draco", tmp_path))
    assert not mesh.read().complete
    for words in ({"reference": "1.5,1"}, {"reference": "1.5,1", "full": True}, {"levels": 1}):
        with pytest.raises(NotImplementedError, match="the order that links between chunks mean.*zvf convert"):
            mesh.build_pyramid(**words)
    assert len(mesh.levels) == 1 and mesh.validate(level=5).ok
    new = tmp_path / "new.zarrvectors"
    said = subprocess.run([sys.executable, "-m", "zvf", "convert", mesh.address, new], capture_output=True, text=True, check=True)
    assert "faces between chunks, cannot be read and are left out" in said.stderr
    with pytest.warns(zvf.LossWarning, match="Draco streams with an order of their own"):
        zvf.convert(mesh, tmp_path / "mesh.ply")
    again = zvf.open(new).build_pyramid(reference="1.5,1")
    assert len(again.levels) == 2 and again.validate(level=5).ok


def call_of(name, thing):
    """How the page writes a call: its words, with ``=`` where they may be left out."""
    if not callable(thing):
        return name
    code = thing.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    more = [inspect.Parameter("more", inspect.Parameter.VAR_KEYWORD)] if code.co_flags & inspect.CO_VARKEYWORDS else []
    words = [p for p in inspect.signature(thing).parameters.values() if p.name in own and p.name != "self"] + more
    shown = ["..." if p.kind is p.VAR_KEYWORD else p.name + ("" if p.default is p.empty else "=") for p in words]
    return f"{name}({', '.join(shown)})"


def test_the_page_has_every_call():
    page = (Path(__file__).parents[3] / "docs/src/guide/python-calls.md").read_text()
    calls = {title.strip("`s"): re.findall(r"^\| `(.+?)` \|", rows, re.M) for title, rows in re.findall(r"^## (?:An? |The )?(\S+).*?\n(.*?)(?=^## |\Z)", page, re.M | re.S)}
    functions = [name for name in zvf.__all__ if inspect.isfunction(getattr(zvf, name))]
    listed = [call for calls_of in calls.values() for call in calls_of]
    for name in functions:
        assert call_of(f"zvf.{name}", getattr(zvf, name)) in listed, name
    for one in (zvf.Dataset, zvf.Level, zvf.Query, zvf.Answer, zvf.Writer, zvf.Edit, zvf.Tensor, zvf.tools.Tasks, zvf.tools.Work):
        for name, member in vars(one).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                assert call_of(name, member) in calls[one.__name__.removesuffix("s")], f"{one.__name__}.{name}"
    for name in zvf.errors.__all__:
        assert (f"zvf.errors.{name}" if name != "Error" else "zvf.Error") in calls["Error"], name
