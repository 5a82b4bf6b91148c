"""Reads precomputed layers with CloudVolume and compares with what the store holds. Started by neuroglancer.mjs."""

import json
import sys
import urllib.request

import numpy as np
from cloudvolume import CloudVolume
from cloudvolume.datasource.precomputed.annotation import PrecomputedAnnotationSource


def read_points(layer):
    """Points of all grids of the index, and their ids; each grid has points of its own. What is related to an object comes by it."""
    with urllib.request.urlopen(f"{layer['url']}/info") as answer:
        info = json.load(answer)
    found = PrecomputedAnnotationSource(f"precomputed://{layer['url']}")
    ids, places = [], []
    for mip in range(len(info["spatial"])):
        part = found.get_all(mip=mip)
        ids.append(np.asarray(part.ids))
        places.append(np.asarray(part.geometry))
    ids, places = np.concatenate(ids), np.concatenate(places)
    low, high = np.array(info["lower_bound"]), np.array(info["upper_bound"])
    if not ((places >= low - 1e-3).all() and (places <= high + 1e-3).all()):
        raise ValueError("a point lies outside of the bounds")
    got = {"vertices": len(places), "ids": len(np.unique(ids))}
    for relation in (one["id"] for one in info["relationships"]):
        for label in (0, 1, 2):
            related = np.asarray(found.get_by_relationship(relation, label).ids)
            if not np.isin(related, ids).all():
                raise ValueError(f"{relation} {label} names points that no cell has")
            got[relation] = got.get(relation, 0) + len(related)
    return got


def open_volume(url):
    """The volume without images that stands beside a layer: CloudVolume finds meshes and skeletons through it."""
    return CloudVolume(f"precomputed://{url.rsplit('/', 1)[0]}", progress=False)


def read_objects(layer):
    """Vertices, edges or faces of all objects together."""
    found = open_volume(layer["url"])
    vertices = elements = 0
    for name in layer["objects"] or ["0"]:
        if layer["kind"] == "mesh":
            mesh = found.mesh.get(int(name), lod=0)
            mesh = mesh[int(name)] if isinstance(mesh, dict) else mesh
            vertices += len(mesh.vertices)
            elements += len(mesh.faces)
        else:
            skeleton = found.skeleton.get(int(name))
            vertices += len(skeleton.vertices)
            elements += len(skeleton.edges)
    return {"vertices": vertices, "elements": elements}


def measure_area(mesh):
    """The area of all faces."""
    corners = np.asarray(mesh.vertices, dtype=np.float64)[np.asarray(mesh.faces)]
    return np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2


def compare_octree(layer):
    """The meshes of an octree have the area of the same meshes that are not cut, in each lod; and they have more fragments."""
    cut, whole = (open_volume(layer[at]).mesh for at in ("url", "whole"))
    worst = fragments = uncut = 0
    for name in map(int, layer["objects"] or ["0"]):
        manifest = cut.get_manifest(name)
        fragments += int(np.sum(manifest.num_fragments_per_lod))
        uncut += int(np.sum(whole.get_manifest(name).num_fragments_per_lod))
        for lod in range(int(manifest.num_lods)):
            one, other = (measure_area(mesh[name] if isinstance(mesh, dict) else mesh) for mesh in (cut.get(name, lod=lod), whole.get(name, lod=lod)))
            worst = max(worst, abs(one - other) / other)
    return {"fragments": fragments, "fragments_uncut": uncut, "area": f"within {worst:.2e}", "good": bool(worst < 2e-3 and fragments > uncut)}


def main():
    failures = 0
    for layer in json.loads(sys.argv[1]):
        try:
            if layer["kind"] == "octree":
                got = compare_octree(layer)
                good = got.pop("good")
            elif layer["kind"] in ("point_cloud", "line"):
                if layer["kind"] == "line":
                    continue  # CloudVolume cannot decode lines
                got = read_points(layer)
                good = got["vertices"] == got["ids"] == layer["vertices"]
            else:
                got = read_objects(layer)
                good = got["vertices"] == layer["vertices"] and (layer["kind"] in ("polyline", "streamline") or got["elements"] == layer["elements"])
            print(f"{'ok    ' if good else 'FAILED'} {layer['kind']}: CloudVolume reads {got}; stored are {layer['vertices']} vertices, {layer['elements']} elements", flush=True)
            failures += not good
        except Exception as error:
            failures += 1
            print(f"FAILED {layer['kind']}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failures else 0)


main()
