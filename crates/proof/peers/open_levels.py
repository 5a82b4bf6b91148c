"""Opens stores with levels that zvf built, with the reference library.

    open_levels.py FOLDER

FOLDER holds pairs NAME.zarrvectors and NAME.json: {"levels": [vertices of level 0, of level 1, ...]}. Each store is
validated at level 5 and each level read whole. With "points" in it, the positions of the vertices of each level, levels
add to each other: then level 5 may complain of levels with more vertices than the finer one, and of nothing else. Prints one line of JSON for each: {"store": NAME, "passed": N,
"faults": [TEXT, ...]}.
"""

import json
import re
import sys
import warnings
from pathlib import Path

import zarr_vectors
from zarr_vectors.validate import validate

warnings.filterwarnings("ignore")

# What level 5 says of a level with more vertices than the finer one.
MORE = re.compile(r"resolution_\d+: \d+ > resolution_\d+ \(\d+\)")


def check(folder, name):
    path, faults, passed = str(folder / f"{name}.zarrvectors"), [], 0
    about = json.loads((folder / f"{name}.json").read_text())
    wanted, points = about["levels"], about.get("points")
    try:
        errors = validate(path, level=5).errors
        if points is not None:
            errors = [error for error in errors if not MORE.fullmatch(str(error))]
        passed += not errors
        faults += [f"validation: {error}" for error in errors[:3]]
        store = zarr_vectors.open(path)
        passed += store.levels == tuple(range(len(wanted)))
        if store.levels != tuple(range(len(wanted))):
            faults.append(f"levels {store.levels} instead of {len(wanted)}")
        for number, vertices in enumerate(wanted):
            positions = store.level(number).read().positions
            found = len(positions)
            passed += found == vertices
            if points is not None:
                same = sorted(map(tuple, positions.astype("float64").tolist())) == sorted(map(tuple, points[number]))
                passed += same
                if not same:
                    faults.append(f"level {number}: other positions than those it adds")
            if found != vertices:
                faults.append(f"level {number}: {found} vertices instead of {vertices}")
    except Exception as error:  # whatever the reference says of a store it should read
        faults.append(f"{type(error).__name__}: {error}")
    return {"store": name, "passed": passed, "faults": faults}


def main():
    folder = Path(sys.argv[1])
    for name in sorted(path.stem for path in folder.glob("*.json")):
        print(json.dumps(check(folder, name)), flush=True)


if __name__ == "__main__":
    main()
