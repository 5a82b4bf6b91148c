"""Everything that reads, of every broken store of the archives: an answer, or an exception of the package.

    python broken.py FOLDER-OF-ARCHIVES

What ends the process, a panic, an exception of a library below, or one that takes all memory is not all right. The last line
is how many stores and calls there were.
"""

from __future__ import annotations

import itertools
import pathlib
import resource
import sys
import tarfile
import tempfile
import warnings

import pyarrow
import zvf
import zvf.compat as zv
from zvf.compat.lazy import open_zv

MEMORY = 24 << 30
#: What the package raises; of the drop-in too.
REFUSALS = (zvf.Error, zv.exceptions.ZVError)


def unpacked(archive, folder):
    """The store of an archive."""
    with pyarrow.input_stream(archive, compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as archived:
        archived.extractall(folder, filter="data")
    return next(pathlib.Path(folder).iterdir())


def native_calls(ds):
    """Calls of a dataset that read."""
    yield from (ds.info, ds.__repr__, ds._repr_html_, lambda: ds.bounds, lambda: ds.groups, ds.objects, ds.object_ids, ds.read, ds.count)
    yield from (ds.statistics, lambda: ds.select().explain(), lambda: [level._repr_html_() for level in ds.levels], lambda: ds.level(0).chunks())
    yield from (lambda: list(ds.select().batches(rows=10)), lambda: ds.select().by_chunk(), lambda: ds.select().by_objects(3), ds.validate)
    yield from (lambda: ds.read().to_pandas(), lambda: ds.read()._repr_html_(), lambda: ds.scan_polars().collect(), lambda: ds.render(20, 10))


def old_calls(ds, path):
    """The same of the drop-in."""
    level, building, node = (lambda: ds.level(0)), zv.building, lambda: ds.level(0).store
    yield from (ds.read, ds.__repr__, lambda: ds.bounds, lambda: ds.select().cells(), lambda: ds.select().plan(), lambda: ds.select().explain())
    yield from (lambda: dict(ds.groups), lambda: level().objects.manifests(), lambda: list(itertools.islice(level().grid, 3)), ds.metadata.names)
    yield from (lambda: list(itertools.islice(ds.select().iter_cells(), 3)), lambda: ds.headers.available_formats, lambda: ds.validate().summary())
    yield from (lambda: building.read_all_groupings(node()), lambda: building.read_all_object_manifests(node()), lambda: repr(open_zv(path)[0]))
    yield lambda: [building.read_chunk_vertices(node(), key) for key in building.list_chunk_keys(node())[:3]]
    yield lambda: [building.read_object_vertices(node(), i) for i in level().objects.ids()[:3]]


def main():
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    made, archives = 0, sorted(pathlib.Path(sys.argv[1]).glob("*.tar.zst"))
    for archive in archives:
        print(archive.name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = unpacked(archive, folder)
            for opened, calls_of in ((zvf.open, native_calls), (zv.open, lambda ds, path=path: old_calls(ds, path))):
                try:
                    calls = calls_of(opened(path))
                except REFUSALS:
                    continue
                for number, call in enumerate(calls):
                    made += 1
                    try:
                        call()
                    except REFUSALS:
                        pass
                    except BaseException as error:
                        raise AssertionError(f"{archive.name}, call {number} of {opened.__module__}: {error!r}") from error
    print("survived", len(archives), made, flush=True)


if __name__ == "__main__":
    main()
