"""Points in LAZ: no index, so a box is a scan. Coordinates are whole numbers of a step far below the data's."""

import os
import sys

import laspy
import numpy as np

from serve import serve

folder = sys.argv[1]
path = os.path.join(folder, "points.laz")

if not os.path.exists(path):
    at = np.fromfile(os.path.join(folder, "positions.f32"), "<f4").reshape(-1, 3).astype(np.float64)
    value = np.fromfile(os.path.join(folder, "intensity.f32"), "<f4")
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales, header.offsets = [100.0 / 2**30] * 3, [0.0] * 3
    header.add_extra_dim(laspy.ExtraBytesParams(name="value", type=np.float32))
    las = laspy.LasData(header)
    las.x, las.y, las.z = at.T
    las["value"] = value
    las.write(path + ".new.laz")
    os.rename(path + ".new.laz", path)


def points():
    las = laspy.read(path)
    return np.stack([las.x, las.y, las.z], 1), las["value"]


def boxes(ask):
    at, _ = points()
    inside = ((at >= low) & (at <= high) for low, high in map(np.asarray, ask["boxes"]))
    return sum(len(at[one.all(1)]) for one in inside)


def scan(ask):
    at, value = points()
    return len(np.asarray(value)) and len(at)


serve({"boxes": boxes, "scan": scan})
