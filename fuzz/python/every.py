"""Calls every public callable of the package with random values: which there are is found by looking.

    python every.py SHARE SHARES SEED

Methods are called of handles of real stores, which are new ones now and then. Each share of the entry points has a process;
its last line is how many entry points there were and how many calls. An answer, an exception of Python, or a refusal are
all right; what ends the process, a panic, a call that never comes back, or a class that nobody can make are not.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import itertools
import os
import pathlib
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings

import numpy as np
import zvf
import zvf.compat
import zvf.compat as zv
import zvf.dask
import zvf.ray
from places import PLAIN, SCRATCH, XYZ, finished, fresh, job, places, writer
from zvf import _zvf

CALLS = 1000
#: Seconds for one entry point: one whose calls are slow gets fewer; `cargo xtask python --all-values` gives each all the time.
SECONDS = float(os.environ.get("ZVF_RANDOM_SECONDS", "1"))
#: Calls of what takes no values at all.
FEW = 20
#: Calls after which handles and their stores are new ones.
RENEWED = 250
#: Bytes of addresses that a process may have.
MEMORY = 24 << 30
#: Seconds after which a call is one that never comes back.
LIMIT = 30
DUNDERS = {"__getitem__", "__contains__", "__iter__", "__len__", "__array__", "__arrow_c_stream__", "__call__"}

#: Not called with random values, and why.
LEFT_OUT = {
    "zvf.compat.core.cells.command": "runs a command line, as _zvf.call does, which is here",
    "zvf._zvf.run_program": "a program that prints and hears signals: called with words that no command has, below",
    "zvf.dask.Tasks.run_all": "starts as many processes as it is told: called with numbers that it refuses, below",
}


def modules():
    """The public modules."""
    yield from (zvf, _zvf, zvf.errors, zvf.dask, zvf.ray, zvf.compat)
    for found in pkgutil.walk_packages(zvf.compat.__path__, "zvf.compat."):
        if not any(part.startswith("_") for part in found.name.split(".")[2:]):
            yield importlib.import_module(found.name)


def entry_points():
    """Name, class or None, and attribute or callable of every public callable, each once."""
    seen, found = set(), {}
    for module in modules():
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
            thing = getattr(module, name, None)
            home = getattr(thing, "__module__", None) or ("zvf" if module is _zvf else "")
            if not callable(thing) or id(thing) in seen or not home.startswith(("zvf", "builtins")) or home == "builtins" and module is not _zvf:
                continue
            seen.add(id(thing))
            whole = f"{module.__name__}.{name}"
            found[whole] = (None, thing)
            if inspect.isclass(thing) and not issubclass(thing, BaseException) and home != "zvf.compat.typing":
                own = [m for m in dir(thing) if not m.startswith("_") or m in DUNDERS]
                for member in own:
                    is_own = getattr(object, member, None) is not getattr(thing, member, None)
                    if is_own and callable(getattr(thing, member, None)):
                        found[f"{whole}.{member}"] = (thing, member)
    return found


def makers(at):
    """How to have an instance of each class that has methods."""
    from zvf.compat.api.groups import GroupCatalog, ObjectGroup
    from zvf.compat.api.plan import ReadPlan
    from zvf.compat.core import cell_reads, fragments, group, metadata, object_layer, stored, user_metadata, writing
    from zvf.compat.headers import HeaderRegistry
    from zvf.compat.lazy import open_zv, store, views
    from zvf.compat.lazy.writer import ZVWriter
    from zvf.compat.multiresolution.recipes import Recipes
    from zvf.compat.ops import ObjectRef, VacuumReport, VertexRef
    from zvf.compat.rechunk import DimensionMapper, RechunkSpec
    from zvf.compat.types.parametric import ParametricTypeDef
    from zvf.compat.validate import ValidationResult

    level, lazy = at.old_lines.level(0), open_zv(at.lines)[0]
    return {
        zvf.Answer: lambda: at.tracts.read(object_ids=True), zvf.Dataset: lambda: zvf.open(at.cloud), zvf.Edit: at.tracts.edit,
        zvf.Level: lambda: at.ds.level(0), zvf.Query: at.tracts.select, zvf.Sampler: lambda: zvf.Sampler(at.ds.select(), 1), zvf.Report: lambda: zvf.Report(True, []),
        zvf.Tensor: lambda: zvf.open_tensor(at.folder / "t.b2nd"), zvf.Writer: lambda: writer(at), zvf.dask.Tasks: lambda: finished(at),
        zvf.Server: lambda: zvf.serve(at.ds), zvf.View: at.ds.view, _zvf.Job: job, _zvf.Buffer: lambda: at.ds.read()._native.positions(), _zvf.Reader: lambda: at.ds._native,
        _zvf.Batches: lambda: at.ds._native.batches(_zvf.Query({})), _zvf.Answer: lambda: at.tracts.read()._native,
        _zvf.Writer: lambda: writer(at)._begin(), _zvf.Tensor: lambda: zvf.open_tensor(at.folder / "t.b2nd")._native,
        _zvf.Query: lambda: _zvf.Query({}), zv.Dataset: lambda: at.old_lines, zv.EditPlan: at.old_lines.editing, zv.Level: lambda: level,
        zv.Grid: lambda: at.old.level(0).grid, zv.CellSet: at.old.level(0).cells, zv.ObjectCatalog: lambda: level.objects,
        zv.Query: at.old_lines.select, zv.Selection: zv.Selection, zv.ReadResult: at.old_lines.read,
        zv.Attributes: lambda: at.old.read().attributes, zv.Schema: zv.Schema, zv.Layout: zv.Layout, zv.StorageOptions: zv.StorageOptions,
        zv.AttributeSpec: zv.AttributeSpec, zv.Axis: lambda: zv.Axis("x", "um"), zv.SizeHints: zv.SizeHints, zv.CellRef: lambda: zv.CellRef((0, 0, 0)),
        GroupCatalog: lambda: level.groups, ObjectGroup: lambda: level.groups["a"], user_metadata.Metadata: lambda: at.old.metadata,
        user_metadata.Namespace: lambda: at.old.metadata["app"], group.Group: lambda: at.old_lines.store["0"], group.Shared: lambda: at.old.store._shared,
        group.Attrs: lambda: at.old.store.attrs, metadata.LevelMetadata: lambda: metadata.LevelMetadata(0, 0, []), metadata.NgffAxis: lambda: metadata.NgffAxis(name="x"),
        metadata.RootMetadata: lambda: metadata.RootMetadata([], (1.0,), ([0.0], [1.0]), []),
        HeaderRegistry: lambda: HeaderRegistry(at.old.store), store.LazyStore: lambda: open_zv(at.lines), store.LazyLevel: lambda: lazy,
        views.LazyAttributes: lambda: lazy.attributes, views.LazyColumn: lambda: lazy.vertices, views.LazyPolylines: lambda: lazy.polylines,
        views.LazyView: lazy.filter, store.LazyObjectIndex: lambda: lazy.object_index, views.LazySelection: lambda: lazy.polylines.filter(object_ids=[1]),
        views.LazyPositions: lambda: lazy.filter().vertices, views.Pending: lambda: views.Pending(len, [1]), ReadPlan: lambda: at.old.select().plan(), ZVWriter: lazy.writer, VertexRef: lambda: VertexRef.from_object(at.old_lines.store, level=0, object_id=1, vertex_index=0),
        ObjectRef: lambda: ObjectRef(0, 1), VacuumReport: VacuumReport, DimensionMapper: lambda: DimensionMapper(RechunkSpec(by="object_id")),
        ParametricTypeDef: lambda: ParametricTypeDef("sphere", 2, ["r"]), ValidationResult: lambda: ValidationResult(1),
        Recipes: lambda: Recipes((), 1, "none"),
        cell_reads.CellBatch: lambda: cell_reads.CellBatch(np.zeros((1, 3)), {}, (), None), writing.Staging: lambda: writing.Staging(filled(at)),
        cell_reads.CellColumn: lambda: cell_reads.CellColumn(np.zeros(3), np.array([0, 3])), stored.StoredArray: lambda: stored.StoredArray(filled(at), "vertices"),
        fragments.ChunkFragmentIndex: lambda: fragments.ChunkFragmentIndex(np.arange(3), np.array([0, 3])), writing.ShardTransaction: lambda: writing.ShardTransaction(filled(at), (0, 0, 0), None, "replace", None),
        object_layer.ManifestCSR: lambda: object_layer.ManifestCSR(np.zeros(2, int), np.zeros((0, 3), int), np.zeros(0, int)),
        object_layer.ObjectManifestWriter: lambda: object_layer.ObjectManifestWriter(filled(at), None, None, True),
        stored.RowArray: lambda: stored.RowArray(filled(at), "object_index/manifests"),
    }  # fmt: skip


def filled(at):
    """A level of a new store that writers fill."""
    from zvf.compat import building

    words = {"bounds": ([0.0] * 3, [99.0] * 3), "chunk_shape": (50.0,) * 3, "geometry_types": ["point_cloud"], "shard_shape": 2}
    root = building.create_store(str(pathlib.Path(tempfile.mkdtemp(dir=at.folder)) / "filled.zarrvectors"), **words)
    level = building.get_resolution_level(root, 0)
    building.create_vertices_array(level, dtype="float32")
    building.defer_presence(level)
    building.reserve_object_rows(level, 2)
    return level


def takes_values(call):
    """Whether there is anything to pass."""
    try:
        return bool(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return True


def arguments(call, values, rng):
    """Random values for what a call asks for, and sometimes for more or for less."""
    pick = lambda: rng.choice(values)  # noqa: E731
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return [pick() for _ in range(rng.randint(0, 3))], {}
    given, named = [], {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [pick() for _ in range(rng.randint(0, 2))]
        elif parameter.kind is parameter.VAR_KEYWORD:
            if rng.random() < 0.3:
                named[rng.choice(["box", "where", "objects", "level", "limit", "chunk", "attributes", "bbox", "mode", "kind"])] = pick()
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty or rng.random() < 0.3:
                named[parameter.name] = pick()
        elif parameter.default is parameter.empty or rng.random() < 0.8:
            if named:
                named[parameter.name] = pick()
            else:
                given.append(pick())
        elif not named:
            named = {}
            break
    if rng.random() < 0.02:
        given.append(pick())
    return given, named


def finish(found):
    """Goes on to the end of what a call began."""
    if inspect.iscoroutine(found):
        return asyncio.run(asyncio.wait_for(found, LIMIT))
    if inspect.isasyncgen(found):
        asyncio.run(_first_of(found))
    elif inspect.isgenerator(found):
        list(itertools.islice(found, 5))
        found.close()
    elif isinstance(found, (_zvf.Job,)):
        found.wait()
    elif isinstance(found, zvf.Server):
        found.close()
    return None


async def _first_of(stream):
    async for _ in stream:
        break
    await stream.aclose()


def never_comes_back(*_):
    raise TimeoutError("a call did not come back")


def try_calls(name, make, rng):
    """One entry point, so many times; one that takes no values, a few times."""
    calls = CALLS if takes_values(make(makers(places()))) else FEW
    start = time.monotonic()
    for turn in range(calls):
        if turn % RENEWED == 0:
            clear()
            at = places()
            values, handles = at.values, makers(at)
        if turn >= FEW and time.monotonic() - start > SECONDS:
            return turn
        if turn % 20 == 0:
            call = make(handles)  # an instance serves for some calls: what the first closes, the others find closed
        given, named = arguments(call, values, rng)
        signal.alarm(LIMIT)
        try:
            finish(call(*given, **named))
        except TimeoutError as error:
            if "did not come back" in str(error):
                raise AssertionError((name, given, named)) from error
        except (MemoryError, SystemExit, RecursionError):
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            said = str(error)
            assert "report this" not in said and type(error).__name__ != "PanicException", (name, given, named, error)
        finally:
            signal.alarm(0)
    return calls


def clear():
    """Removes what calls have left, but the templates."""
    for path in SCRATCH.iterdir():
        if path.name != "templates":
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)  # what was stopped may still remove its own
            else:
                path.unlink(missing_ok=True)


def read_properties(classes):
    """Every property of every class is read."""
    handles = makers(places())
    for cls in classes:
        handle = handles[cls]()
        for name in dir(cls):
            if isinstance(inspect.getattr_static(cls, name), property) and not name.startswith("_"):
                try:
                    getattr(handle, name)
                except Exception as error:
                    assert "report this" not in str(error), (cls, name, error)


def special(rng):
    """What is left out above, with values that it can take."""
    for _ in range(CALLS):
        for call in (
            lambda: _zvf.run_program([str(rng.choice(PLAIN))[:50].replace("\0", "") + "?" for _ in range(2)]),
            lambda: finished_plan.run_all(rng.choice([v for v in PLAIN if not isinstance(v, (int, float, np.integer)) or v < 1])),
        ):
            try:
                call()
            except Exception as error:
                assert "report this" not in str(error), error


def main():
    share, shares, seed = (int(word) for word in sys.argv[1:])
    warnings.simplefilter("ignore")
    os.chdir(SCRATCH)
    signal.signal(signal.SIGALRM, never_comes_back)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # a call that would take all of it is a MemoryError
    output, sys.stdout, sys.stderr = sys.stdout, io.StringIO(), io.StringIO()
    rng, switches = random.Random(seed), dict(vars(zv.config))
    found = entry_points()
    assert set(LEFT_OUT) <= set(found), set(LEFT_OUT) - set(found)
    if share == 0:
        read_properties({cls for cls, _ in found.values() if cls is not None})
    own = [name for number, name in enumerate(sorted(set(found) - set(LEFT_OUT))) if number % shares == share]
    if share == 0:
        global finished_plan
        finished_plan = finished(places())
        special(rng)
    made = 0
    for name in own:
        cls, thing = found[name]
        if cls is None:
            make = lambda handles, thing=thing: thing  # noqa: E731
        else:
            assert cls in makers(places()), f"{name}: nobody makes a {cls}: say how"
            make = lambda handles, cls=cls, thing=thing: getattr(handles[cls](), thing)  # noqa: E731
        start = time.monotonic()
        made += (turns := try_calls(name, make, rng))
        print(f"{time.monotonic() - start:8.2f} {turns:5} {name}", file=output, flush=True)
        vars(zv.config).update(switches)
    left_out = len(LEFT_OUT) if share == 0 else 0  # they are called with other values, or by another name
    print("survived", len(own) + left_out, made, len(found), file=output, flush=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        sys.exit(1)
    finally:
        os.chdir("/")
        shutil.rmtree(SCRATCH, ignore_errors=True)
