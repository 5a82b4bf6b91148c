"""The Python reference building levels: one run in a process of its own, whose memory can be told.

    python pyramid_reference.py STORE LEVELS DEPTH reference|tools

Gives the store so many levels, bins doubled each time, with explicit links up to DEPTH levels (0: none), through the
reference itself or the tools on top of it. Prints {"seconds": s, "peak": bytes, "processor": s}.
"""

import json
import resource
import sys
import time
import warnings

if sys.argv[4] == "tools":
    from zarr_vectors_tools.multiresolution.coarsen import build_pyramid
else:
    from zarr_vectors.multiresolution.coarsen import build_pyramid

warnings.simplefilter("ignore")


def main(store, levels, depth):
    storage = "explicit" if depth else "none"
    begun, busy = time.perf_counter(), time.process_time()
    build_pyramid(
        store,
        factors=[(2.0, 1.0)] * levels,
        sparsity_seed=0,
        cross_level_depth=max(depth, 1),
        cross_level_storage=storage,
    )
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak, "processor": busy}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
