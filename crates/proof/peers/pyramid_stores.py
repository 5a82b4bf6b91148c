"""Writes random stores with the reference library, and gives a copy of each the levels that it builds.

    pyramid_stores.py OUT SEED COUNT

OUT/<id>/store.zarrvectors has one level, OUT/<id>/levels.zarrvectors is the same with levels, or is not there
where the reference refuses. OUT/pyramids.json lists them with what build_pyramid was given, and says why it
refused. The same seed gives the same stores.
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
from write_stores import KINDS, WRITERS, Case
from zarr_vectors.multiresolution.coarsen import build_pyramid

# Chunks by the values of an attribute are not coarsened here; zarr-vectors cannot read its own Draco streams.
OURS = [kind for kind in KINDS if kind not in ("by_attribute", "draco")]


def asked(rng):
    """What build_pyramid is given."""
    count = int(rng.integers(1, 4))
    bins = rng.choice([1.0, 1.5, 2.0, 2.0, 3.0], count)
    objects = rng.choice([1.0, 1.0, 1.5, 2.0, 3.0], count)
    scales = rng.choice([1, 1, 2, 3], count) if rng.random() < 0.6 else np.ones(count)
    return {
        "factors": [[float(a), float(b)] for a, b in zip(bins, objects)],
        "chunk_scale_factors": [int(scale) for scale in scales],
        "sparsity_seed": int(rng.choice([0, 7, 123456, 2**40 + 5])),
        "cross_level_depth": int(rng.choice([1, 1, 2, -1])),
        "cross_level_storage": str(rng.choice(["explicit", "explicit", "implicit", "none"])),
    }


def columns_of_objects(case, rng):
    """Attributes of objects, of each type that has a value for absence."""
    types = ["float32", "int32", "uint8", "float64"]
    count = {"point_objects": 30}.get(case.kind)
    if count is not None:
        case.kwargs["object_attributes"] = {
            name: rng.integers(0, 100, count).astype(name) for name in types[: int(rng.integers(1, 5))]
        }


def main(out, seed, count):
    warnings.simplefilter("ignore")
    listed = []
    for turn in range(count):
        rng = np.random.default_rng([seed, turn, 1])
        case = Case(np.random.default_rng([seed, turn]), out, OURS[turn % len(OURS)], turn)
        columns_of_objects(case, rng)
        WRITERS[case.kind](case)
        levels, given = case.folder / "levels.zarrvectors", asked(rng)
        shutil.copytree(case.store, levels)
        about = {"id": case.folder.name, "kind": case.kind, "dtype": case.dtype, "given": given}
        factors = [tuple(pair) for pair in given["factors"]]
        try:
            build_pyramid(str(levels), **(given | {"factors": factors}))
        except Exception as error:  # whatever it says
            about["refused"] = f"{type(error).__name__}: {error}"
            shutil.rmtree(levels)
        listed.append(about)
    (out / "pyramids.json").write_text(json.dumps(listed))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
