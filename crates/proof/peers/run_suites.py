"""Runs the test suite of an installed package, and keeps every store that it writes.

    run_suites.py PACKAGE VERSION WORK [LIMIT]

Downloads the source distribution of PACKAGE into WORK, runs its tests with nothing removed, and writes
WORK/stores.json: a list of {"path", "facts"} of each distinct store found afterwards, where the facts are
what the installed package reads of it. With LIMIT only so many stores, evenly spread, are described. Where the variable
KEPT_SUITES names a folder, stores are kept there, and those of an earlier run are taken instead of running the tests again.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")


def download(package, version, work):
    """The unpacked source distribution."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
         "--dest", str(work), f"{package}=={version}"],
        check=True,
    )
    archive = next(path for path in work.iterdir() if path.name.endswith(".tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(work / "source", filter="data")
    return next((work / "source").iterdir())


# Loaded by pytest before any test: what tests wrote stays, and a test that hangs fails. What the packages remove is removed:
# they replace arrays and stores.
PLUGIN = '''
import os, pytest, shutil, signal, sys, tempfile, time

TESTS = os.path.join(os.getcwd(), "tests") + os.sep
removed = shutil.rmtree

def rmtree(path, *args, **kwargs):
    if not sys._getframe(1).f_code.co_filename.startswith(TESTS):
        removed(path, *args, **kwargs)

shutil.rmtree = rmtree
tempfile.TemporaryDirectory.cleanup = lambda self: self._finalizer.detach()
tempfile.TemporaryDirectory.__exit__ = lambda self, *args: self._finalizer.detach()

is_stopped = False

def stop(*_):
    global is_stopped
    is_stopped = True
    zarr = sys.modules.get("zarr.core.sync")
    if zarr:
        zarr.loop[0] = zarr.iothread[0] = None  # what waits there waits for ever: others get a loop of their own
    raise TimeoutError("a test of more than half a minute")

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    global is_stopped
    is_stopped, began = False, time.time()
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    if is_stopped:
        with open(os.path.join(os.environ["TMPDIR"], "stopped"), "a") as file:
            print(began, time.time(), item.nodeid, file=file)

@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    sys.stdout.flush()
    os._exit(0)  # threads that hang would be waited for
'''


def run(source, work):
    """Runs the tests below a folder that is kept."""
    kept = work / "kept"
    kept.mkdir()
    (work / "keep_stores.py").write_text(PLUGIN)
    environment = dict(
        os.environ, TMPDIR=str(kept), PYTHONPATH=str(work), PYTHONWARNINGS="ignore"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "keep_stores", "-p", "no:cacheprovider",
         "--continue-on-collection-errors", "--basetemp", str(kept / "pytest"),
         "-o", "tmp_path_retention_policy=all", "tests"],
        cwd=source, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    (work / "tests.log").write_text(done.stdout)
    last = done.stdout.strip().splitlines()[-1:] or ["nothing"]
    print(f"{source.name}: {last[0]}", flush=True)
    return kept


def is_store(folder):
    try:
        document = json.loads((folder / "zarr.json").read_text())
        return "zarr_vectors" in document.get("attributes", {})
    except (OSError, ValueError):
        return False


def digest(folder):
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def stopped(kept):
    """When tests ran that were stopped, and which: what they were writing is half written."""
    file = kept / "stopped"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(float(began), float(ended), name) for began, ended, name in (line.split(" ", 2) for line in lines)]


def stores(kept):
    seen, halves = set(), stopped(kept)
    for document in sorted(kept.rglob("zarr.json")):
        folder = document.parent
        if not is_store(folder):
            continue
        newest = max(path.stat().st_mtime for path in folder.rglob("*"))
        if test := next((name for began, ended, name in halves if began <= newest <= ended), None):
            print(f"left out: {folder.relative_to(kept)}: {test} was stopped after half a minute", flush=True)
        elif (mark := digest(folder)) not in seen:
            seen.add(mark)
            yield folder


def rows(values):
    """Rows in the order of their numbers, as a digest."""
    import numpy as np

    values = np.asarray(values, dtype="float64")
    values = values.reshape(len(values), -1) if len(values) else values.reshape(0, 0)
    ordered = values[np.lexsort(values.T[::-1])] if len(values) else values
    return hashlib.sha256(np.ascontiguousarray(ordered).astype("<f8").tobytes()).hexdigest()


def read(path):
    """All of level 0: positions, and edges or faces where there are any; None where no function reads it."""
    import zarr_vectors

    if hasattr(zarr_vectors, "open"):
        result = zarr_vectors.open(str(path)).read()
        named = ((name, getattr(result, name, None)) for name in ("edges", "faces"))
        return result.positions, next((value for _, value in named if value is not None), None)
    return read_by_kind(path)


def read_by_kind(path):
    """The same by the functions of releases before `zarr_vectors.open`, one for each kind."""
    import numpy as np
    from zarr_vectors.types import graphs, lines, meshes, points, polylines

    root = json.loads((path / "zarr.json").read_text())["attributes"]["zarr_vectors"]
    if not root["geometry_types"]:
        return None  # there is no function for a store without a kind
    kind, axes = root["geometry_types"][0], len(root["bounds"][0])
    if kind == "point_cloud":
        return points.read_points(str(path))["positions"], None
    if kind == "line":
        return np.asarray(lines.read_lines(str(path))["endpoints"]).reshape(-1, axes), None
    if kind in ("polyline", "streamline"):
        parts = polylines.read_polylines(str(path))["polylines"]
        runs = [np.asarray(run).reshape(-1, axes) for part in parts for run in part]
        return np.concatenate(runs) if runs else np.empty((0, axes)), None
    if kind == "mesh":
        mesh = meshes.read_mesh(str(path))
        return mesh["vertices"], mesh["faces"]
    graph = graphs.read_graph(str(path))
    return graph["positions"], graph["edges"]


def facts(path):
    """What the reference reads; of what it cannot, the class of its error."""
    from zarr_vectors.validate import validate

    found = {}
    try:
        report = validate(str(path), level=5)
        found["sound"] = bool(report.ok)
    except Exception as error:
        found["sound"] = type(error).__name__
    try:
        positions, elements = read(path) or (None, None)
        if positions is not None:
            found["vertices"], found["positions"] = len(positions), rows(positions)
        if elements is not None:
            found["elements"] = len(elements)
    except Exception as error:
        found["refused"] = f"{type(error).__name__}: {error}"[:200]
    return found


def main():
    package, version, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    limit = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    if "KEPT_SUITES" in os.environ:
        earlier = Path(os.environ["KEPT_SUITES"]).resolve() / f"{package}-{version}"
        work.mkdir(parents=True, exist_ok=True)
        list_of_stores = work / "stores.json"
        if not (earlier / "stores.json").exists():
            describe(package, version, earlier, limit)
        list_of_stores.write_text((earlier / "stores.json").read_text())
        print(f"{package} {version}: {len(json.loads(list_of_stores.read_text()))} stores", flush=True)
        return
    describe(package, version, work, limit)


def describe(package, version, work, limit):
    """Runs the tests and writes the list of stores."""
    work.mkdir(parents=True, exist_ok=True)
    kept = run(download(package, version, work), work)
    found = list(stores(kept))
    if limit and len(found) > limit:
        found = [found[at * len(found) // limit] for at in range(limit)]
    described = [{"path": str(path), "facts": facts(path)} for path in found]
    (work / "stores.json").write_text(json.dumps(described))
    print(f"{package} {version}: {len(described)} stores", flush=True)


if __name__ == "__main__":
    main()
