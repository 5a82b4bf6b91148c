"""Skeletons and meshes in Neuroglancer's precomputed layout, one file each, asked through CloudVolume.

Shapes are those of the folder: chains of 100 nodes, rings of 16 x 16 corners. Ids there begin with 1: 0 is nothing.
"""

import json
import os
import sys

import numpy as np
from cloudvolume import CloudVolume

from serve import serve

NODES, AROUND = 100, 16
folder = sys.argv[1]
root = os.path.join(os.path.abspath(folder), "precomputed")


def save(name, data):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else json.dumps(data).encode())


def make():
    scale = {
        "key": "1_1_1", "size": [100, 100, 100], "resolution": [1, 1, 1], "voxel_offset": [0, 0, 0],
        "chunk_sizes": [[64, 64, 64]], "encoding": "raw",
    }
    skeletons = np.fromfile(os.path.join(folder, "skeletons.f32"), "<f4").reshape(-1, NODES, 3)
    edges = np.stack([np.arange(1, NODES), np.arange(NODES - 1)], 1).astype("<u4").tobytes()
    for number, nodes in enumerate(skeletons, 1):
        head = np.array([NODES, NODES - 1], "<u4").tobytes()
        save(f"skeletons/{number}", head + nodes.tobytes() + edges)
    identity = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]
    save("skeletons/info", {"@type": "neuroglancer_skeletons", "transform": identity, "vertex_attributes": []})
    u, v = np.divmod(np.arange(AROUND * AROUND), AROUND)

    def corner(du, dv):
        return (u + du) % AROUND * AROUND + (v + dv) % AROUND

    faces = np.stack([corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 0), corner(1, 1), corner(0, 1)], 1)
    faces = faces.astype("<u4").tobytes()
    rings = np.fromfile(os.path.join(folder, "meshes.f32"), "<f4").reshape(-1, AROUND * AROUND, 3)
    for number, corners in enumerate(rings, 1):
        save(f"meshes/{number}:0", {"fragments": [f"{number}:0:all"]})
        save(f"meshes/{number}:0:all", np.array([AROUND * AROUND], "<u4").tobytes() + corners.tobytes() + faces)
    save("meshes/info", {"@type": "neuroglancer_legacy_mesh"})
    about = {"type": "segmentation", "data_type": "uint64", "num_channels": 1, "scales": [scale]}
    save("info", {**about, "mesh": "meshes", "skeletons": "skeletons"})


if not os.path.exists(os.path.join(root, "info")):
    make()
# Files of this disk: more processes only add their start, and a cache would copy the same files.
volume = CloudVolume("file://" + root, progress=False, use_https=False, parallel=1, cache=False)


def skeletons(ask):
    found = volume.skeleton.get([number + 1 for number in ask["ids"]])
    return sum(len(one.vertices) + len(one.edges) for one in found)


def meshes(ask):
    found = volume.mesh.get([number + 1 for number in ask["ids"]], fuse=False)
    return sum(len(one.vertices) + len(one.faces) for one in found.values())


serve({"skeletons": skeletons, "meshes": meshes})
