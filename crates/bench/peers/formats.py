"""Files of many formats, each read into arrays by the library that people read it with."""

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


def soup(ask):
    """Corners of equal places become one vertex, as we do and as it does unless it is asked not to."""
    import trimesh

    return len(trimesh.load(ask["from"]).faces)


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
    "ply": mesh, "stl": soup, "obj": mesh, "copy": copy,
})
