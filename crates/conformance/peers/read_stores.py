"""Reads stores that zvf wrote with the reference library, and compares with what went in.

    read_stores.py FOLDER

FOLDER holds pairs NAME.zarrvectors and NAME.json, as `every_kind` writes them. Prints one line for each
store that is not as it must be, then the counts; ends with 1 if there was one. What the reference cannot
do is not asked of it: whole reads of chains whose ids are not 0, 1, 2, …, attributes on narrowed reads
of graphs and meshes.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import zarr
import zarr_vectors
from zarr_vectors.validate import validate

warnings.filterwarnings("ignore")

CHAINS = ("line", "polyline", "streamline")


def rows_by_number(result):
    """The running number of each vertex that was read."""
    return np.asarray(result.attributes["n"]).astype(np.int64).reshape(-1)


def check_vertices(given, result, wrong):
    positions = np.asarray(given["positions"])
    numbers = rows_by_number(result)
    if sorted(numbers.tolist()) != list(range(len(positions))):
        wrong(f"vertices {sorted(numbers.tolist())[:8]}… of {len(positions)}")
        return
    read = np.asarray(result.positions)
    dtype = "float64" if "float64" in given["options"] else "float32"
    if str(read.dtype) != dtype or not np.array_equal(read, positions[numbers].astype(dtype)):
        wrong("positions")
    vectors = np.arange(2 * len(positions), dtype="float32").reshape(-1, 2)
    if not np.array_equal(np.asarray(result.attributes["v"]), vectors[numbers]):
        wrong("the vector attribute")
    if "binned" not in given["options"]:
        labels = np.asarray(given["label"])[numbers]
        read = np.asarray(result.attributes["label"])
        if read.dtype.kind in "iu":
            # Only loose points are given as texts; the others as codes of the sorted texts.
            read = np.asarray(sorted(set(given["label"])))[read]
        if [str(text) for text in read] != labels.tolist():
            wrong("the attribute of categories")


def check_chains(given, store, result, wrong):
    owners = np.asarray(given["objects"])
    sparse = given["ids"] != list(range(len(given["ids"])))
    if not sparse:
        numbers = rows_by_number(result)
        # Lines come without ids, in their order.
        owned = given["ids"] if result.part_objects is None else result.part_objects
        for part, owner in zip(result.parts, owned):
            if numbers[part].tolist() != np.flatnonzero(owners == owner).tolist():
                wrong(f"object {owner} of the whole")
    for owner in given["ids"]:
        wanted = np.flatnonzero(owners == owner)
        if len(wanted) == 0:
            continue
        part = store.read(objects=[owner])
        if not np.array_equal(np.asarray(part.positions), np.asarray(result_positions(given, wanted))):
            wrong(f"object {owner}")


def result_positions(given, rows):
    dtype = "float64" if "float64" in given["options"] else "float32"
    return np.asarray(given["positions"])[rows].astype(dtype)


def check_points(given, store, wrong):
    positions = result_positions(given, slice(None)).astype("float64")
    low, high = positions.min(axis=0), positions.max(axis=0)
    for share in (0.25, 0.6):
        box = (low + (high - low) * (0.5 - share / 2), low + (high - low) * (0.5 + share / 2))
        inside = np.flatnonzero(((positions >= box[0]) & (positions <= box[1])).all(axis=1))
        found = store.read(bbox=box)
        found = sorted(rows_by_number(found).tolist()) if len(found.positions) else []
        if found != inside.tolist():
            wrong(f"a box: {found} instead of {inside.tolist()}")
    if given["objects"] is None:
        return
    owners = np.asarray(given["objects"])
    for owner in given["ids"]:
        found = sorted(rows_by_number(store.read(objects=[owner])).tolist())
        if found != np.flatnonzero(owners == owner).tolist():
            wrong(f"object {owner}: {found}")
    members = [given["ids"][2], given["ids"][0]]
    found = sorted(rows_by_number(store.read(groups=[0])).tolist())
    if found != np.flatnonzero(np.isin(owners, members)).tolist():
        wrong(f"group 0: {found}")


def check_elements(given, result, wrong):
    numbers = rows_by_number(result)
    rows = result.faces if given["kind"] == "mesh" else result.edges
    found = [tuple(numbers[row].tolist()) for row in np.asarray(rows)]
    wanted = [tuple(row) for row in given["elements"]]
    if "duplicate" in given["options"]:
        found, wanted = set(found), set(wanted)
    if sorted(found) != sorted(wanted):
        missing, extra = set(wanted) - set(found), set(found) - set(wanted)
        wrong(f"elements: {len(found)} instead of {len(wanted)}, missing {missing}, extra {extra}")


def check_arrays(given, path, wrong):
    """Every array opens in zarr-python, and object attributes are by row."""
    arrays = 0
    for document in path.rglob("zarr.json"):
        if json.loads(document.read_text())["node_type"] == "array":
            array = zarr.open_array(str(document.parent), mode="r")
            if "nonempty_chunks" not in array.attrs:
                array[...]
            arrays += 1
    if given["ids"] is not None:
        ids = zarr.open_array(str(path / "0/object_index/object_ids"), mode="r")[...]
        mass = zarr.open_array(str(path / "0/object_attributes/mass"), mode="r")[...]
        if ids.tolist() != sorted(given["ids"]) or not np.array_equal(mass, ids + np.float32(0.5)):
            wrong("object attributes")
    return arrays


def check(folder, name):
    path = folder / f"{name}.zarrvectors"
    given = json.loads((folder / f"{name}.json").read_text())
    faults = []
    wrong = faults.append
    try:
        verdict = validate(str(path), level=5)
        if not verdict.ok:
            wrong(f"validation: {verdict.errors[:3]}")
        check_arrays(given, path, wrong)
        store = zarr_vectors.open(str(path))
        sparse = given["ids"] is not None and given["ids"] != list(range(len(given["ids"])))
        result = store.read()
        if not (given["kind"] in CHAINS and sparse):
            check_vertices(given, result, wrong)
        if given["kind"] in CHAINS:
            check_chains(given, store, result, wrong)
        elif given["kind"] == "point_cloud":
            check_points(given, store, wrong)
        else:
            check_elements(given, result, wrong)
    except Exception as error:  # whatever the reference says of a store it should read
        wrong(f"{type(error).__name__}: {error}")
    return faults


def main():
    folder = Path(sys.argv[1])
    names = sorted(path.stem for path in folder.glob("*.json"))
    failed = 0
    for name in names:
        faults = check(folder, name)
        failed += bool(faults)
        for fault in faults:
            print(f"{name}: {fault}")
    print(f"{len(names)} stores, {failed} not as they must be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
