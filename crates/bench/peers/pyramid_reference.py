"""The Python reference building levels: one run in a process of its own, whose memory can be told.

    python pyramid_reference.py STORE LEVELS [DEPTH]

Gives the store so many levels, bins doubled each time, with explicit links up to DEPTH levels (0: none). Prints
{"seconds": s, "peak": bytes, "vertices": [n, ...]}.
"""

import json
import resource
import sys
import time
import warnings

import zarr_vectors
from zarr_vectors.multiresolution.coarsen import build_pyramid

warnings.simplefilter("ignore")


def main(store, levels, depth):
    storage = "explicit" if depth else "none"
    begun = time.perf_counter()
    build_pyramid(
        store,
        factors=[(2.0, 1.0)] * levels,
        sparsity_seed=0,
        cross_level_depth=max(depth, 1),
        cross_level_storage=storage,
    )
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = zarr_vectors.open(store)
    counts = [int(found.level(number).store.attrs["zarr_vectors_level"]["vertex_count"]) for number in found.levels]
    print(json.dumps({"seconds": seconds, "peak": peak, "vertices": counts}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
