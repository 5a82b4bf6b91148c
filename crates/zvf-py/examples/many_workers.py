"""A store that is built by processes: plan, run each task anywhere, finish."""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import zvf


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    xyz = np.random.default_rng(3).random((30_000, 3)) * 100
    np.savetxt(folder / "points.csv", xyz, delimiter=",", header="x,y,z", comments="")
    plan = zvf.tasks(folder / "points.csv", folder / "points.zarrvectors", shares=4)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for stage in plan.stages():
            print("tasks", list(pool.map(plan.run, stage)))
    assert plan.finish().count() == 30_000


if __name__ == "__main__":
    main()
