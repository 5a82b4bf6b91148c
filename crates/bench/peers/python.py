"""The Python package and the reference in one process, asked one request at a time.

    python python.py FOLDER

A request says who does the work; the answer has the seconds of one turn, clocked as the other side does, and what was counted.
"""

import functools
import itertools
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import zvf
from serve import ENOUGH, serve
from zarr_vectors.types.points import read_points, write_points

warnings.simplefilter("ignore")
CHUNK = 12.5


@functools.cache
def dataset(store):
    """Each store is opened once."""
    return zvf.open(store)


def repeated(work):
    """The mean over as many runs as fill the time, and what the last one counted."""
    start = time.perf_counter()
    for times in itertools.count(1):
        count = work()
        taken = time.perf_counter() - start
        if taken >= ENOUGH:
            return taken / times, count


def read(ask):
    store = ask["store"]
    if ask["who"] != "zvf":

        def run():
            return sum(len(read_points(store, bbox=box)["positions"]) for box in wanted(ask))
    else:
        ds = dataset(store)

        def run():
            return sum(len(one(ds, box)) for box in wanted(ask))

        if not ask["boxes"]:
            check_addresses(ds)
    return repeated(run)


def wanted(ask):
    return ask["boxes"] or [None]


def one(ds, box):
    words = {} if box is None else {"box": box}
    return ds.select(attributes=[], **words).read().positions


def check_addresses(ds):
    """The array is what the library holds, and so is what another array of the same answer is."""
    answer = ds.select(attributes=[]).read()
    positions = answer.positions
    native = answer._native.positions().__array_interface__["data"][0]
    assert positions.nbytes >= 1e6 or len(ds) < 1e5, "the store is too small to show it"
    assert positions.__array_interface__["data"][0] == native, "the positions were copied"
    assert not positions.flags.owndata and not positions.flags.writeable


def two_threads(ask):
    ds = dataset(ask["store"])
    halves = ask["boxes"][::2], ask["boxes"][1::2]
    with ThreadPoolExecutor(2) as pool:

        def run():
            return sum(pool.map(lambda half: sum(len(one(ds, box)) for box in half), halves))

        return repeated(run)


def create(ask):
    xyz = np.fromfile(ask["positions"], "<f4").reshape(-1, 3)
    start = time.perf_counter()
    if ask["who"] == "zvf":
        zvf.points(ask["to"], xyz, chunk=CHUNK)
    else:
        write_points(ask["to"], xyz, chunk_shape=(CHUNK,) * 3)
    taken = time.perf_counter() - start
    return taken, len(xyz)


serve({"read": read, "two threads": two_threads, "create": create})
