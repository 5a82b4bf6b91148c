"""Answers slices of block arrays through python-blosc2, one request at a time.

    blocks.py THREADS

A line asks {"work": "make", "file", "side"} or {"work": "slice", "file", "start", "stop", "enough"}; a slice is
done again until `enough` seconds are full. A line answers {"seconds", "count"}: the mean, and the items.
"""

import json
import os
import sys
import time

import blosc2
import numpy as np


def make(ask):
    side = ask["side"]
    if os.path.exists(ask["file"]):
        return {"seconds": 0.0, "count": side**3}
    axis = np.linspace(0, 20, side, dtype="float32")
    field = np.sin(axis)[:, None, None] * np.cos(axis)[None, :, None] + axis[None, None, :]
    blosc2.asarray(np.ascontiguousarray(field, dtype="float32"), urlpath=ask["file"] + ".new", contiguous=True)
    os.rename(ask["file"] + ".new", ask["file"])
    return {"seconds": 0.0, "count": field.size}


def part(array, ask):
    box = tuple(slice(a, b) for a, b in zip(ask["start"], ask["stop"]))
    start, times = time.perf_counter(), 0
    while times == 0 or time.perf_counter() - start < ask["enough"]:
        found = array[box]
        times += 1
    return {"seconds": (time.perf_counter() - start) / times, "count": int(found.size)}


if __name__ == "__main__":
    blosc2.set_nthreads(int(sys.argv[1]))
    arrays = {}
    for line in sys.stdin:
        ask = json.loads(line)
        if ask["work"] == "make":
            answer = make(ask)
        else:
            if ask["file"] not in arrays:
                arrays[ask["file"]] = blosc2.open(ask["file"])
            answer = part(arrays[ask["file"]], ask)
        print(json.dumps(answer), flush=True)
