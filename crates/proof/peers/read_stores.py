"""Reads stores that zvf wrote with the reference library, and compares with what went in.

    read_stores.py FOLDER

FOLDER holds pairs NAME.zarrvectors and NAME.json, as the part `written` writes them. Prints one line of
JSON for each store: {"store": NAME, "passed": N, "faults": [TEXT, ...]}. What the reference cannot do is
not asked of it: whole reads of chains whose ids are not 0, 1, 2, ..., attributes on narrowed reads of graphs
and meshes.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import zarr
import zarr_vectors
from zarr_vectors.composite import read_composite
from zarr_vectors.validate import validate

warnings.filterwarnings("ignore")

CHAINS = ("line", "polyline", "streamline")


class Verdict:
    """What was compared: how much of it is as it must be, and what is not."""

    def __init__(self):
        self.passed, self.faults = 0, []

    def holds(self, holds, fault):
        if holds:
            self.passed += 1
        else:
            self.faults.append(fault)
        return holds


def rows_by_number(result):
    """The running number of each vertex that was read."""
    return np.asarray(result.attributes["n"]).astype(np.int64).reshape(-1)


def check_vertices(given, result, verdict):
    positions = np.asarray(given["positions"])
    numbers = rows_by_number(result)
    whole = sorted(numbers.tolist()) == list(range(len(positions)))
    if not verdict.holds(whole, f"vertices {sorted(numbers.tolist())[:8]} of {len(positions)}"):
        return
    read = np.asarray(result.positions)
    dtype = "float64" if "float64" in given["options"] else "float32"
    same = str(read.dtype) == dtype and np.array_equal(read, positions[numbers].astype(dtype))
    verdict.holds(same, "positions")
    vectors = np.arange(2 * len(positions), dtype="float32").reshape(-1, 2)
    same = np.array_equal(np.asarray(result.attributes["v"]), vectors[numbers])
    verdict.holds(same, "the vector attribute")
    if "binned" not in given["options"]:
        labels = np.asarray(given["label"])[numbers]
        read = np.asarray(result.attributes["label"])
        if read.dtype.kind in "iu":
            # Only loose points are given as texts; the others as codes of the sorted texts.
            read = np.asarray(sorted(set(given["label"])))[read]
        verdict.holds([str(text) for text in read] == labels.tolist(), "the attribute of categories")


def check_chains(given, store, result, verdict):
    owners = np.asarray(given["objects"])
    sparse = given["ids"] != list(range(len(given["ids"])))
    if not sparse:
        numbers = rows_by_number(result)
        # Lines come without ids, in their order.
        owned = given["ids"] if result.part_objects is None else result.part_objects
        for part, owner in zip(result.parts, owned):
            same = numbers[part].tolist() == np.flatnonzero(owners == owner).tolist()
            verdict.holds(same, f"object {owner} of the whole")
    for owner in given["ids"]:
        wanted = np.flatnonzero(owners == owner)
        if len(wanted) == 0:
            continue
        part = store.read(objects=[owner])
        same = np.array_equal(np.asarray(part.positions), np.asarray(result_positions(given, wanted)))
        verdict.holds(same, f"object {owner}")


def result_positions(given, rows):
    dtype = "float64" if "float64" in given["options"] else "float32"
    return np.asarray(given["positions"])[rows].astype(dtype)


def check_points(given, store, verdict):
    positions = result_positions(given, slice(None)).astype("float64")
    low, high = positions.min(axis=0), positions.max(axis=0)
    for share in (0.25, 0.6):
        box = (low + (high - low) * (0.5 - share / 2), low + (high - low) * (0.5 + share / 2))
        inside = np.flatnonzero(((positions >= box[0]) & (positions <= box[1])).all(axis=1))
        found = store.read(bbox=box)
        found = sorted(rows_by_number(found).tolist()) if len(found.positions) else []
        verdict.holds(found == inside.tolist(), f"a box: {found} instead of {inside.tolist()}")
    if given["objects"] is None:
        return
    owners = np.asarray(given["objects"])
    for owner in given["ids"]:
        found = sorted(rows_by_number(store.read(objects=[owner])).tolist())
        verdict.holds(found == np.flatnonzero(owners == owner).tolist(), f"object {owner}: {found}")
    members = [given["ids"][2], given["ids"][0]]
    found = sorted(rows_by_number(store.read(groups=[0])).tolist())
    verdict.holds(found == np.flatnonzero(np.isin(owners, members)).tolist(), f"group 0: {found}")


def check_elements(given, result, verdict):
    numbers = rows_by_number(result)
    rows = result.faces if given["kind"] == "mesh" else result.edges
    found = [tuple(numbers[row].tolist()) for row in np.asarray(rows)]
    wanted = [tuple(row) for row in given["elements"]]
    if "duplicate" in given["options"]:
        found, wanted = set(found), set(wanted)
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    fault = f"elements: {len(found)} instead of {len(wanted)}, missing {missing}, extra {extra}"
    verdict.holds(sorted(found) == sorted(wanted), fault)


def check_arrays(given, path, verdict):
    """Every array opens in zarr-python, each cell that is listed too, and object attributes are by row."""
    for document in path.rglob("zarr.json"):
        if json.loads(document.read_text())["node_type"] != "array":
            continue
        array = zarr.open_array(str(document.parent), mode="r")
        if "nonempty_chunks" not in array.attrs:
            array[...]
            verdict.holds(True, "")
            continue
        origin = array.attrs.get("chunk_grid_origin", [0] * array.ndim)
        cells = 0
        for key in array.attrs["nonempty_chunks"]:
            at = tuple(int(part) - low for part, low in zip(key.split("."), origin))
            cells += len(bytes(array[at].item())) > 0
        listed = len(array.attrs["nonempty_chunks"])
        verdict.holds(cells == listed, f"{document.parent}: {cells} of {listed} cells")
    if given["ids"] is not None:
        ids = zarr.open_array(str(path / "0/object_index/object_ids"), mode="r")[...]
        mass = zarr.open_array(str(path / "0/object_attributes/mass"), mode="r")[...]
        same = ids.tolist() == sorted(given["ids"]) and np.array_equal(mass, ids + np.float32(0.5))
        verdict.holds(same, "object attributes")


def check_beside(given, path, verdict):
    """Kinds beside the first: the reader of several kinds finds their vertices, and knows of each kind."""
    if not given["beside"]:
        return
    found = read_composite(str(path))
    kinds = [given["kind"]] + [other["kind"] for other in given["beside"]]
    verdict.holds(sorted(found) == sorted(kinds), f"kinds {sorted(found)}")
    for other in given["beside"]:
        wanted = np.asarray(other["positions"], dtype="float32")
        read = np.asarray(found.get(other["kind"], {}).get("positions", []))
        same = read.shape == wanted.shape
        same = same and sorted(map(tuple, read.tolist())) == sorted(map(tuple, wanted.tolist()))
        verdict.holds(same, f"the vertices of {other['kind']}: {read.shape}")
    first = np.asarray(found.get(given["kind"], {}).get("positions", []))
    verdict.holds(len(first) == len(given["positions"]), f"the first kind: {first.shape}")


def check(folder, name):
    path = folder / f"{name}.zarrvectors"
    given = json.loads((folder / f"{name}.json").read_text())
    verdict = Verdict()
    try:
        said = validate(str(path), level=5)
        verdict.holds(said.ok, f"validation: {said.errors[:3]}")
        check_arrays(given, path, verdict)
        check_beside(given, path, verdict)
        store = zarr_vectors.open(str(path))
        sparse = given["ids"] is not None and given["ids"] != list(range(len(given["ids"])))
        result = store.read()
        if not (given["kind"] in CHAINS and sparse):
            check_vertices(given, result, verdict)
        if given["kind"] in CHAINS:
            check_chains(given, store, result, verdict)
        elif given["kind"] == "point_cloud":
            check_points(given, store, verdict)
        else:
            check_elements(given, result, verdict)
    except Exception as error:  # whatever the reference says of a store it should read
        verdict.holds(False, f"{type(error).__name__}: {error}")
    return verdict


def main():
    folder = Path(sys.argv[1])
    for name in sorted(path.stem for path in folder.glob("*.json")):
        verdict = check(folder, name)
        print(json.dumps({"store": name, "passed": verdict.passed, "faults": verdict.faults}), flush=True)


if __name__ == "__main__":
    main()
