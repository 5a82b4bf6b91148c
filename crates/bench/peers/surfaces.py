"""Levels of a surface by meshoptimizer: each level from the one below it, with as many faces as it is asked for."""

import os
import sys

import meshoptimizer
import numpy as np

from serve import serve

folder = sys.argv[1]
held = {}


def load(ask):
    name = ask["name"]
    if name not in held:
        corners = np.fromfile(os.path.join(folder, name + ".f32"), "<f4").reshape(-1, 3)
        faces = np.fromfile(os.path.join(folder, name + ".i64"), "<i8").astype(np.uint32)
        held[name] = (corners, faces)
    return held[name]


def levels(ask):
    corners, indices = load(ask)
    count = 0
    for faces in ask["faces"]:
        reduced = np.empty_like(indices)
        size = meshoptimizer.simplify(reduced, indices, corners, target_index_count=3 * faces, target_error=1.0)
        indices = np.ascontiguousarray(reduced[:size])
        count += size // 3
    return count


serve({"levels": levels})
