"""Answers slices of block arrays through python-blosc2: {"work": "make", "file", "side"} or
{"work": "slice", "file", "start", "stop", "threads"}."""

import os

import blosc2
import numpy as np

from serve import serve

arrays = {}


def make(ask):
    side = ask["side"]
    if not os.path.exists(ask["file"]):
        axis = np.linspace(0, 20, side, dtype="float32")
        field = np.sin(axis)[:, None, None] * np.cos(axis)[None, :, None] + axis[None, None, :]
        blosc2.asarray(np.ascontiguousarray(field, dtype="float32"), urlpath=ask["file"] + ".new", contiguous=True)
        os.rename(ask["file"] + ".new", ask["file"])
    return side**3


def part(ask):
    if ask["file"] not in arrays:
        blosc2.set_nthreads(ask["threads"])
        arrays[ask["file"]] = blosc2.open(ask["file"])
    return arrays[ask["file"]][tuple(slice(a, b) for a, b in zip(ask["start"], ask["stop"]))].size


serve({"make": make, "slice": part})
