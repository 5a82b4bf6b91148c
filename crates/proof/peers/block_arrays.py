"""Random block arrays, written or read by the stock libraries.

    write FOLDER SEED COUNT    N.b2nd, N.dir or N.caterva with N.raw, its items; one line of JSON for each
    check FOLDER               reads what cases.jsonl there lists, compares all and one box of it, changes the
                               box, makes axis 0 longer, and leaves the items after that in PATH.after
"""

import json
import os
import pathlib
import random
import signal
import sys

import blosc2
import caterva
import numpy as np

DTYPES = ["|i1", "|u1", "|b1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", ">i4", "<i8", "<u8", "<f8",
          ">f8", "<c8", "<c16", "|S7", "<U3", "<M8[s]"]
FILTERS = [
    [],
    [blosc2.Filter.SHUFFLE],
    [blosc2.Filter.BITSHUFFLE],
    [blosc2.Filter.DELTA],
    [blosc2.Filter.DELTA, blosc2.Filter.SHUFFLE],
    [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA],
]
PATIENCE = 30  # seconds for one array
CODECS = [blosc2.Codec.BLOSCLZ, blosc2.Codec.LZ4, blosc2.Codec.LZ4HC, blosc2.Codec.ZLIB, blosc2.Codec.ZSTD]


def values(rng, dtype, shape):
    count = int(np.prod(shape))
    kind = rng.choice(["count", "noise", "few", "zeros"])
    size = np.dtype(dtype).itemsize
    if kind == "zeros":
        raw = bytes(count * size)
    elif kind == "noise":
        raw = rng.randbytes(count * size)
    else:
        step = 1 if kind == "count" else 0
        raw = b"".join((i * step % 251 + 1).to_bytes(1, "little") + bytes(size - 1) for i in range(count))
    if dtype == "|b1":
        raw = bytes(byte & 1 for byte in raw)
    if dtype == "<U3":
        raw = np.frombuffer(raw, "<u4").__mod__(1000).astype("<u4").tobytes()
    return np.frombuffer(raw, dtype).reshape(shape)


def shape_of(rng):
    rank = rng.randint(1, 8)
    most = [0, 300, 40, 14, 8, 6, 5, 4, 3][rank]
    shape = [rng.randint(1, most) for _ in range(rank)]
    chunks = [rng.randint(1, n + 2) for n in shape]
    blocks = [rng.randint(1, n) for n in chunks]
    return shape, chunks, blocks


def alone(work, *words):
    """Runs work in a process of its own, which may crash or wait for ever; says what ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        work(*words)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status


def write(folder, seed, count):
    for number in range(count):
        alone(write_one, folder, seed, number)


def write_one(folder, seed, number):
    rng = random.Random(seed * 100_003 + number)
    shape, chunks, blocks = shape_of(rng)
    dtype = rng.choice(DTYPES)
    array = values(rng, dtype, shape)
    form = rng.choice(["b2nd", "dir", "caterva"])
    path = folder / f"{number}.{form}"
    if form == "caterva":
        codec = rng.choice([caterva.Codec.BLOSCLZ, caterva.Codec.LZ4, caterva.Codec.ZLIB, caterva.Codec.ZSTD])
        filters = [rng.choice([caterva.Filter.SHUFFLE, caterva.Filter.BITSHUFFLE, caterva.Filter.NOFILTER])]
        blob = np.frombuffer(array.tobytes(), f"V{array.itemsize}").reshape(shape)
        caterva.asarray(blob, chunks=tuple(chunks), blocks=tuple(blocks), urlpath=str(path),
                        contiguous=True, codec=codec, filters=filters, clevel=rng.randint(0, 9))
    else:
        filters = rng.choice(FILTERS)
        if array.itemsize > 16:
            filters = [blosc2.Filter.SHUFFLE]
        cparams = {"codec": rng.choice(CODECS), "clevel": rng.randint(0, 9), "filters": filters,
                   "filters_meta": [0] * len(filters), "nthreads": 1}
        blosc2.asarray(array, chunks=tuple(chunks), blocks=tuple(blocks), urlpath=str(path),
                       contiguous=form == "b2nd", cparams=cparams)
    (folder / f"{number}.raw").write_bytes(array.tobytes())
    known = None if form == "caterva" else dtype
    print(json.dumps({"path": path.name, "raw": f"{number}.raw", "shape": shape, "dtype": known,
                      "item": array.itemsize}), flush=True)


def box(case):
    return tuple(slice(a, b) for a, b in zip(case["start"], case["stop"]))


def check_b2nd(path, case, array):
    found = blosc2.open(str(path), mode="a")
    assert found.shape == array.shape and found.dtype == array.dtype, f"{found.shape} {found.dtype}"
    assert found[...].tobytes() == array.tobytes(), "all of it differs"
    assert found[box(case)].tobytes() == array[box(case)].tobytes(), "a box differs"
    changed = np.frombuffer(bytes(255 - byte for byte in array[box(case)].tobytes()), array.dtype)
    changed = changed.reshape(array[box(case)].shape)
    after = array.copy()
    if case["modify"]:
        if changed.size:
            found[box(case)] = changed
            after[box(case)] = changed
        layer = np.frombuffer(b"\1" * (after[:1].nbytes), array.dtype).reshape(after[:1].shape)
        found.resize((after.shape[0] + 1,) + after.shape[1:])
        found[after.shape[0]:] = layer
        after = np.concatenate([after, layer]).astype(array.dtype)  # which had lost its byte order
        assert found[...].tobytes() == after.tobytes(), "what was changed differs"
    return after


def check_caterva(path, case, array):
    found = caterva.open(str(path))
    assert tuple(found.shape) == array.shape and found.itemsize == array.itemsize, f"{found.shape}"
    assert bytes(found.to_buffer()) == array.tobytes(), "all of it differs"
    part = found[box(case)]
    assert array[box(case)].size == 0 or np.asarray(part).tobytes() == array[box(case)].tobytes(), "a box differs"
    return array


def check(folder):
    for line in (folder / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        ended = alone(check_one, folder, case)
        if ended:
            error = f"ended with {ended}"
            print(json.dumps({"path": case["path"], "error": error, "shape": None}), flush=True)


def check_one(folder, case):
    path = folder / case["path"]
    dtype = case["dtype"] or f"|S{case['item']}"
    array = np.frombuffer((folder / case["raw"]).read_bytes(), dtype).reshape(case["shape"])
    verdict = {"path": case["path"], "error": None, "shape": None}
    try:
        reader = check_b2nd if case["dtype"] else check_caterva
        after = reader(path, case, array)
        (folder / f"{case['path']}.after").write_bytes(after.tobytes())
        verdict["shape"] = list(after.shape)
    except Exception as error:
        verdict["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        check(pathlib.Path(sys.argv[2]))
