"""Files of many formats, each read into arrays by the library that people read it with."""

import json
import os
import sys

import numpy as np

from serve import serve

folder = sys.argv[1]


def csv(ask):
    import polars

    return len(polars.read_csv(ask["from"]))


def las(ask):
    import laspy

    found = laspy.read(ask["from"])
    at = np.stack([found.x, found.y, found.z], 1)
    for name in found.point_format.dimension_names:
        np.asarray(found[name])
    return len(at)


def streamlines(ask):
    import nibabel

    return len(nibabel.streamlines.load(ask["from"]).streamlines.get_data())


def trx(ask):
    from trx.trx_file_memmap import load

    held = load(ask["from"])
    count = len(np.array(held.streamlines._data))
    held.close()
    return count


def mesh(ask):
    import trimesh

    return len(trimesh.load(ask["from"], process=False).faces)


def precomputed(ask):
    from cloudvolume import Skeleton

    # A folder of skeletons alone: each file through the decoder of CloudVolume.
    root = ask["from"]
    with open(os.path.join(root, "info")) as file:
        info = json.load(file)
    count = 0
    for name in os.listdir(root):
        if name.isdigit():
            with open(os.path.join(root, name), "rb") as file:
                one = Skeleton.from_precomputed(file.read(), vertex_attributes=info["vertex_attributes"])
            count += len(one.vertices)
    return count


tables = {}


def copy(ask):
    """Out of a table in memory."""
    import duckdb

    if "all" not in tables:
        tables["all"] = duckdb.connect()
        tables["all"].execute(f"CREATE TABLE points AS SELECT * FROM read_csv('{ask['from']}')")
    tables["all"].execute(f"COPY points TO '{ask['to']}' (FORMAT parquet)")
    return tables["all"].execute("SELECT count(*) FROM points").fetchone()[0]


serve({
    "csv": csv, "las": las, "laz": las, "trk": streamlines, "tck": streamlines, "trx": trx,
    "ply": mesh, "stl": mesh, "obj": mesh, "precomputed": precomputed, "copy": copy,
})
