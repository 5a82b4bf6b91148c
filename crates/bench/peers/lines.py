"""Streamlines of 100 vertices in FlatGeobuf: its index is of boxes in two axes; the third is tested after."""

import os
import sys
import warnings

import numpy as np
import pyogrio.raw
import shapely

from serve import serve

warnings.simplefilter("ignore")  # no coordinate system is meant
folder = sys.argv[1]
path = os.path.join(folder, "lines.fgb")

if not os.path.exists(path):
    at = np.fromfile(os.path.join(folder, "positions.f32"), "<f4").reshape(-1, 3).astype(np.float64)
    lines = shapely.linestrings(at, indices=np.repeat(np.arange(len(at) // 100), 100))
    pyogrio.raw.write(
        path + ".new.fgb", shapely.to_wkb(lines, output_dimension=3), [], [], geometry_type="LineString Z",
        driver="FlatGeobuf", SPATIAL_INDEX="YES",
    )
    os.rename(path + ".new.fgb", path)


def read(**where):
    _, _, shapes, _ = pyogrio.raw.read(path, **where)
    return shapely.get_coordinates(shapely.from_wkb(shapes), include_z=True).reshape(-1, 100, 3)


def touch(lines, low, high):
    """Lines of which a segment meets the box: by slabs."""
    a, b = lines[:, :-1], lines[:, 1:]
    step = b - a
    with np.errstate(divide="ignore", invalid="ignore"):
        first, last = (low - a) / step, (high - a) / step
    still = step == 0
    inside = (a >= low) & (a <= high)
    enter = np.where(still, np.where(inside, -np.inf, np.inf), np.minimum(first, last)).max(2)
    leave = np.where(still, np.where(inside, np.inf, -np.inf), np.maximum(first, last)).min(2)
    return lines[(np.maximum(enter, 0) <= np.minimum(leave, 1)).any(1)]


def boxes(ask):
    count = 0
    for low, high in map(np.asarray, ask["boxes"]):
        near = read(bbox=(low[0], low[1], high[0], high[1]))
        count += touch(near, low, high).size // 3
    return count


def scan(ask):
    return read().size // 3


serve({"boxes": boxes, "scan": scan})
