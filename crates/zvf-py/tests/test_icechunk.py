"""Stores in repositories of icechunk: opened, asked, edited and listed from Python.

The feature is no part of the wheel as it is published; ``cargo xtask python --icechunk`` builds it in. Without it each
address of a repository is refused, which is tested instead: what the package that is here can do, ``zvf.FEATURES`` says.
"""

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
import zvf

ADDRESSES = ("icechunk+file:///nowhere/brain", "icechunk+s3://bucket/brain?branch=review", "icechunk+https://host/brain?tag=v1")


def test_what_a_build_can_do_is_listed():
    assert isinstance(zvf.FEATURES, tuple) and list(zvf.FEATURES) == sorted(zvf.FEATURES)
    assert {"draco", "h5ad", "http", "s3", "serve"} <= set(zvf.FEATURES)


if "icechunk" in zvf.FEATURES:

    @pytest.fixture
    def repository(tmp_path):
        rng = np.random.default_rng(5)
        lines = [rng.random((6, 3)) * 50 for _ in range(9)]
        zvf.polylines(tmp_path / "plain.zarrvectors", lines, attributes={"fa": np.arange(54.0)}, object_attributes={"length": np.arange(9.0)})
        address = f"icechunk+file://{tmp_path}/repository"
        assert zvf.convert(tmp_path / "plain.zarrvectors", address).count() == 54
        return zvf.open(tmp_path / "plain.zarrvectors"), address

    def test_a_repository_is_opened_and_asked(repository):
        plain, address = repository
        ds = zvf.open(address)
        assert ds.info()["kinds"] == plain.info()["kinds"] and len(ds) == 54 and "icechunk" in repr(ds)
        words = {"where": "object.length > 3", "attributes": ["fa"]}
        ours, theirs = ds.read(**words), plain.read(**words)
        assert np.array_equal(ours.positions, theirs.positions) and np.array_equal(ours["fa"], theirs["fa"])
        assert sum(len(batch) for batch in ds.select().batches(rows=10)) == 54
        assert asyncio.run(ds.select(objects=[2]).acount()) == 6
        assert pickle.loads(pickle.dumps(ds)).count() == 54
        assert ds.validate(level=5).ok and len(ds.render(40, 30)) > 0

    def test_edits_are_commits_of_the_branch(repository):
        plain, address = repository
        before, ds = zvf.open(address), zvf.open(address)
        with ds.edit("one goes") as edit:
            edit.remove(object=3)
        assert 3 not in ds.object_ids() and 3 in before.object_ids(), "a handle keeps the version that it opened"
        assert ds.log()[0]["message"] == "one goes" or ds.log()[-1]["message"] == "one goes"
        with pytest.raises(RuntimeError), ds.edit() as edit:
            edit.remove(object=4)
            raise RuntimeError
        assert 4 in zvf.open(address).object_ids()
        ds.undo()
        assert np.array_equal(ds.object_ids(), plain.object_ids())

    def test_names_that_are_not_there(repository, tmp_path):
        _, address = repository
        assert zvf.open(f"{address}?branch=main").count() == 54
        for query in ("?branch=other", "?tag=v1", "?snapshot=VY76P925PRY57WFEK410"):
            with pytest.raises((FileNotFoundError, ValueError)):
                zvf.open(address + query)
        with pytest.raises(FileNotFoundError):
            zvf.open(f"icechunk+file://{tmp_path}/nothing")

else:

    @pytest.mark.parametrize("address", ADDRESSES)
    def test_a_build_without_the_feature_says_which_is_missing(address, tmp_path):
        for call in (lambda: zvf.open(address), lambda: asyncio.run(zvf.aopen(address))):
            with pytest.raises(zvf.errors.UnsupportedError, match='needs the feature icechunk') as caught:
                call()
            assert isinstance(caught.value, NotImplementedError) and caught.value.class_name == "Unsupported"
            assert isinstance(pickle.loads(pickle.dumps(caught.value)), zvf.errors.UnsupportedError)
        report = zvf.validate(address)  # what cannot be read is a finding
        assert not report.ok and report.findings[0].details["found"] == "Unsupported"
        store = zvf.points(tmp_path / "a.zarrvectors", np.eye(3))
        with pytest.raises(zvf.errors.UnsupportedError):
            zvf.convert(store, f"icechunk+file://{tmp_path}/repository")
        assert not (tmp_path / "repository").exists()
