"""Stores that are written in pieces: sizes of chunks, what is left of a store that is gone, progress."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest
import zvf

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_create_chooses_chunks_as_points_does(tmp_path, scale):
    xyz = RANDOM.random((40_000, 3)) * scale
    with zvf.create(tmp_path / "a.zarrvectors") as writer:
        for part in np.array_split(xyz, 40):
            writer.push(part)
    whole = zvf.points(tmp_path / "b.zarrvectors", xyz)
    piecewise = zvf.open(tmp_path / "a.zarrvectors")
    assert piecewise.level(0).info()["chunk_shape"] == whole.level(0).info()["chunk_shape"]
    assert np.array_equal(piecewise.read().positions, whole.read().positions)


def test_a_size_in_bytes_holds_also_when_the_first_push_is_small(tmp_path):
    with zvf.create(tmp_path / "a.zarrvectors", chunk="256KiB") as writer:
        piece = np.zeros((10, 3))
        for at in range(200):
            piece[:] = RANDOM.random((10, 3)) * (0.01 if at == 0 else 100)
            writer.push(piece, attributes={"n": np.full(10, at)})
        piece[:] = -1.0  # what was pushed is what was there
    ds = zvf.open(tmp_path / "a.zarrvectors")
    assert len(ds.level(0).chunks()) <= 8 and ds.read().positions.min() >= 0 and sorted(set(ds.read()["n"])) == list(range(200))


def test_pieces_wait_for_a_million_vertices_or_the_memory_limit(tmp_path):
    with zvf.create(tmp_path / "a.zarrvectors", memory="1MiB") as writer:
        writer.push(RANDOM.random((4000, 3)))
        assert writer._begun is None
        writer.push(RANDOM.random((4000, 3)))
        assert writer._begun is not None and writer._waiting == []
    with zvf.create(tmp_path / "b.zarrvectors", bins=0.25, kind="polyline") as writer:
        writer.push(lines=[RANDOM.random((50, 3)) for _ in range(3)])
        writer.objects([0, 1, 2], {"w": [1, 2, 3]})
        writer.group("some", [1])
    ds = zvf.open(tmp_path / "b.zarrvectors")
    assert ds.object_table()["object.w"].tolist() == [1, 2, 3] and ds.groups["some"].tolist() == [1] and ds.validate(level=5).ok


def test_chunks_that_are_tiny_are_told(tmp_path):
    xyz = RANDOM.random((3000, 3)) * 1000
    with pytest.warns(UserWarning, match="chunks are tiny: .* leave chunk out"):
        zvf.points(tmp_path / "a.zarrvectors", xyz, chunk=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zvf.points(tmp_path / "b.zarrvectors", xyz)


def test_what_is_left_of_a_store_is_named_and_replaced(tmp_path):
    at = tmp_path / "a.zarrvectors"
    zvf.points(at, np.eye(3)).append(np.ones((1, 3)))
    with pytest.raises(zvf.errors.ArgumentError, match=f"its history is {at}.zvf; give another name, or move this folder away"):
        zvf.points(at, np.eye(3), overwrite=True)
    shutil.rmtree(at)
    for write in (lambda: zvf.points(at, np.eye(3)), lambda: zvf.create(at)):
        with pytest.raises(FileExistsError, match=f"{at}.zvf, the journal of a store that is gone; give another name, or overwrite=True"):
            write()
    ds = zvf.points(at, np.eye(3), overwrite=True)
    assert ds.count() == 3 and ds.log() == []


def test_progress_has_totals(tmp_path):
    seen = []
    ds = zvf.points(tmp_path / "a.zarrvectors", RANDOM.random((5000, 3)), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5000, 5000) and all(total == 5000 for _, total in seen)
    ds.select().read(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5000, 5000)
