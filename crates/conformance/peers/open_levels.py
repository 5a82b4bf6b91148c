"""Opens stores with levels that zvf built, with the reference library.

    open_levels.py FOLDER

FOLDER holds pairs NAME.zarrvectors and NAME.json: {"levels": [vertices of level 0, of level 1, ...]}. Each store is
validated at level 5 and each level read whole. Prints one line of JSON for each: {"store": NAME, "passed": N,
"faults": [TEXT, ...]}.
"""

import json
import sys
import warnings
from pathlib import Path

import zarr_vectors
from zarr_vectors.validate import validate

warnings.filterwarnings("ignore")


def check(folder, name):
    path, faults, passed = str(folder / f"{name}.zarrvectors"), [], 0
    wanted = json.loads((folder / f"{name}.json").read_text())["levels"]
    try:
        said = validate(path, level=5)
        passed += said.ok
        faults += [f"validation: {error}" for error in said.errors[:3]]
        store = zarr_vectors.open(path)
        passed += store.levels == tuple(range(len(wanted)))
        if store.levels != tuple(range(len(wanted))):
            faults.append(f"levels {store.levels} instead of {len(wanted)}")
        for number, vertices in enumerate(wanted):
            found = len(store.level(number).read().positions)
            passed += found == vertices
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
