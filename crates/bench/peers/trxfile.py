"""Streamlines of 100 vertices in TRX."""

import os
import sys

import numpy as np
from trx.trx_file_memmap import TrxFile, load, save

from serve import serve

folder = sys.argv[1]
path = os.path.join(folder, "lines.trx")

if not os.path.exists(path):
    at = np.fromfile(os.path.join(folder, "positions.f32"), "<f4").reshape(-1, 3)
    trx = TrxFile(nb_vertices=len(at), nb_streamlines=len(at) // 100)
    trx.streamlines._data[:] = at
    trx.streamlines._offsets[:] = np.arange(0, len(at), 100)
    trx.streamlines._lengths[:] = 100
    trx.header["VOXEL_TO_RASMM"] = np.eye(4)
    trx.header["DIMENSIONS"] = np.array([100, 100, 100], np.uint16)
    save(trx, path)

held = load(path)


def objects(ask):
    some = held.streamlines[ask["ids"]]
    return len(np.concatenate([np.asarray(one) for one in some]))


def scan(ask):
    return len(np.array(load(path).streamlines._data))


serve({"objects": objects, "scan": scan})
