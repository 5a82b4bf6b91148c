"""Work on whole stores: check, repair, migrate, shard, pack, convert, ingest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._html import table_html
from ._jobs import address_of, command, reporter, storage_pairs
from ._keywords import ConvertWords, FileWords, PackWords, RewriteWords, UnpackWords, ValidateWords, keywords
from ._words import corners, count_of, number_of, options, whole_of
from .datasets import Dataset
from .errors import BackendError, Error, LossWarning, shown, wrong_type, wrong_value

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong in a store."""

    rule: str
    severity: str
    message: str
    key: str | None = None
    details: dict[str, Any] = field(default_factory=dict, compare=False)


_SHOWN = 10  # findings that a report shows


@dataclass(frozen=True, repr=False)
class Report:
    """What a validation found."""

    ok: bool
    findings: list[Finding]
    summary: dict[str, Any] = field(default_factory=dict, compare=False)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        head = "ok" if self.ok else "not ok"
        shown_ones = [f"\n  {f.severity} {f.rule} {f.key or ''}: {f.message}" for f in self.findings[:_SHOWN]]
        more = len(self.findings) - len(shown_ones)
        return f"<zvf.Report: {head}, {len(self.findings)} findings{''.join(shown_ones)}{f'{chr(10)}  and {more} more' if more else ''}>"

    def _repr_html_(self) -> str:
        head = "nothing is wrong" if not self.findings else f"{len(self.findings)} findings"
        rows = ((f"{f.severity} {f.rule}", f"{f.key or ''} {f.message}") for f in self.findings)
        return f"<div><b>zvf.Report</b> {head}{table_html(rows)}</div>"


def _address(source: Any, storage_options: Any) -> tuple[str, list[tuple[str, str]]]:
    address, own = address_of(source)
    return address, [*own, *storage_pairs(storage_options)]


@keywords(ValidateWords)
def validate(store: Any, *, level: int = 3, storage_options: Any = None, progress: Any = None, **words: Unpack[ValidateWords]) -> Report:
    """Check a store against the rules of the format, 1 (its documents) to 5 (every value).

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3))
    >>> zvf.validate(ds, level=5).ok
    True
    """
    level = _depth(level)
    address, storage = _address(store, storage_options)
    said, _ = command("validate", address, "--depth", level, "--limit", 0, *options(words), storage=storage, progress=progress)
    return _report(said)


def _depth(level: Any) -> int:
    depth = whole_of("level", level)
    if not 1 <= depth <= 5:
        raise wrong_value("level", "1 to 5", str(depth))
    return depth


def _report(said: Any) -> Report:
    """The report that ``zvf validate --json`` prints."""
    lines = said if isinstance(said, list) else [said]
    findings: list[Finding] = []
    summary: dict[str, Any] = {}
    for line in lines:
        found = line.get("findings") if isinstance(line.get("findings"), list) else None
        if found is None and "rule" in line:
            found = [line]
        else:
            summary.update({k: v for k, v in line.items() if k != "findings"})
        for entry in found or []:
            details = {k: v for k, v in entry.items() if k not in ("rule", "severity")}
            findings.append(Finding(str(entry["rule"]), str(entry["severity"]), _message(entry), key=entry.get("path"), details=details))
    return Report(all(f.severity != "error" for f in findings), findings, summary)


def _message(entry: dict[str, Any]) -> str:
    """What is wrong, what should be there and what is, as ``zvf validate`` says it."""
    subject = f"{entry['subject']}: " if entry.get("subject") else ""
    return f"{subject}expected {entry['expected']}, found {entry['found']}"


def _open_out(out: Any, storage_options: Any) -> Dataset:
    address, storage = _address(out, storage_options)
    return Dataset(address, storage)


def _rewrite(store: Any, out: Any, words: dict[str, Any], storage_options: Any, progress: Any) -> Dataset:
    address, storage = _address(store, storage_options)
    target = ["--in-place"] if out is None else [address_of(out)[0]]
    command("rewrite", address, *target, *options(words), storage=storage, progress=progress)
    return _open_out(store if out is None else out, storage_options)


@keywords(RewriteWords)
def shard(store: Any, out: Any = None, *, cells: Any = None, storage_options: Any = None, progress: Any = None, **words: Unpack[RewriteWords]) -> Dataset:
    """Rewrite a store with its cells in shards, in place or as ``out``."""
    return _rewrite(store, out, {"shard": 8 if cells is None else cells, **words}, storage_options, progress)


@keywords(RewriteWords)
def unshard(store: Any, out: Any = None, *, storage_options: Any = None, progress: Any = None, **words: Unpack[RewriteWords]) -> Dataset:
    """Rewrite a store with one object for each cell, in place or as ``out``."""
    return _rewrite(store, out, {"shard": "none", **words}, storage_options, progress)


@keywords(RewriteWords)
def recompress(store: Any, out: Any = None, *, storage_options: Any = None, progress: Any = None, **words: Unpack[RewriteWords]) -> Dataset:
    """Rewrite a store under another codec, zstd unless ``codec`` is given, in place or as ``out``."""
    return _rewrite(store, out, {"codec": "zstd", **words}, storage_options, progress)


@keywords(RewriteWords)
def migrate(store: Any, out: Any = None, *, storage_options: Any = None, progress: Any = None, **words: Unpack[RewriteWords]) -> Dataset:
    """Rewrite a store of an older format as one of this one, with the same answers."""
    return _rewrite(store, out, {"format_version": "0.9.2", **words}, storage_options, progress)


def repair(store: Any, *, apply: bool = True, storage_options: Any = None, progress: Any = None) -> Any:
    """Set right what follows from the rest of the store; without ``apply``, only say what would be done."""
    address, storage = _address(store, storage_options)
    args = ["repair", address, *(["--in-place"] if apply else ["--dry-run"])]
    return command(*args, storage=storage, progress=progress)[0]


@keywords(PackWords)
def pack(store: Any, out: Any, *, storage_options: Any = None, progress: Any = None, **words: Unpack[PackWords]) -> Dataset:
    """Pack a store into one ``.tet`` file, which opens like the store."""
    address, storage = _address(store, storage_options)
    target = address_of(out)[0]
    command("pack", address, target, *options(words), storage=storage, progress=progress)
    return Dataset(target, [])


@keywords(UnpackWords)
def unpack(file: Any, out: Any, *, progress: Any = None, **words: Unpack[UnpackWords]) -> Dataset:
    """Unpack a ``.tet`` file into a store."""
    target = address_of(out)[0]
    command("unpack", address_of(file)[0], target, *options(words), progress=progress)
    return Dataset(target, [])


@keywords(FileWords)
def ingest(
    files: Any,
    at: Any,
    *,
    storage_options: Any = None,
    progress: Any = None,
    workers: int | None = None,
    **words: Unpack[FileWords],
) -> Dataset:
    """Create a store from files (npy, CSV, PLY, OBJ, SWC, TRK, ...); words are options of ``zvf create``.

    ``workers`` is how many processes work on it, each on tasks of a plan (see :func:`tasks`); without, or with one,
    it is this process with all its threads. ``progress`` then counts tasks.
    """
    if workers is not None and _worker_count(workers) > 1:
        plan = tasks(files, at, shares=_worker_count(workers), storage_options=storage_options, **words)
        return plan.run_all(workers, progress=progress)
    address, storage = _address(at, storage_options)
    said, _ = command("create", *_paths(files), address, *options(words), storage=storage, progress=progress)
    _warn_of_losses(said, address)
    return Dataset(address, storage)


@keywords(ConvertWords)
def convert(
    source: Any,
    out: Any,
    *,
    overwrite: bool = False,
    storage_options: Any = None,
    progress: Any = None,
    **words: Unpack[ConvertWords],
) -> Dataset | None:
    """Write a store, a file or several files in another format: any to any other; words are options of ``zvf convert``.

    ``box`` is the lowest and the highest corner, as in a query. The ending of ``out`` says which, or ``to="trx"``. A name that ends with ``.zarrvectors``, ``.zarr`` or ``.zv``, and every
    URL, is a store, whose dataset is returned. What the output cannot hold is a :class:`zvf.LossWarning`, and refused with
    ``strict=True``; ``dry_run=True`` writes nothing, and warns of what is known before.

    >>> import numpy as np, tempfile, zvf
    >>> folder = tempfile.mkdtemp()
    >>> ds = zvf.points(folder + "/a.zarrvectors", np.eye(3), attributes={"mass": np.arange(3.0)})
    >>> zvf.convert(ds, folder + "/a.csv", where="mass > 1")
    >>> zvf.convert(folder + "/a.csv", folder + "/b.zarrvectors").count()
    1
    """
    if isinstance(source, (list, tuple)):
        inputs, storage = _paths(source), storage_pairs(storage_options)
    else:
        address, storage = _address(source, storage_options)
        inputs = [address]
    target, own = address_of(out)
    storage = [*storage, *own]
    if words.get("box") is not None:
        low, high = corners("box", words.pop("box"))
        words["bbox"] = ":".join(",".join(map(repr, corner)) for corner in (low, high))
    said, _ = command("convert", *inputs, target, *options({"overwrite": overwrite, **words}), storage=storage, progress=progress)
    _warn_of_losses(said, target)
    is_store = words.get("to", "store") == "store" and (target.endswith(_STORES) or "://" in target or "to" in words)
    return Dataset(target, storage) if is_store and not words.get("dry_run") else None


def _warn_of_losses(said: Any, target: str) -> None:
    """Warns the caller of the caller of what a conversion says that it left out or changed."""
    found: list[str] = []
    for part in said if isinstance(said, list) else [said]:
        found += part.get("losses") or []
        layout = part.get("layout") or []  # of each kind, where there are several
        for layout in layout if isinstance(layout, list) else [layout]:
            found += [f"not read: {entry}" for entry in layout.get("left_out") or []]
            found += layout.get("notes") or []
    for loss in dict.fromkeys(found):
        warnings.warn(f"{target}: {loss}", LossWarning, stacklevel=3)


_STORES = (".zarrvectors", ".zarr", ".zv")  # what names of stores end with


def _paths(files: Any) -> list[str]:
    """The paths of files, one or many."""
    many = [files] if isinstance(files, (str, os.PathLike)) or not hasattr(files, "__iter__") else list(files)
    try:
        return [os.fsdecode(os.fspath(path)) for path in many]
    except TypeError:
        raise wrong_type("files", "a path, or a list of paths", shown(files)) from None


def _worker_count(workers: Any) -> int:
    count = whole_of("workers", workers)
    if count < 1:
        raise wrong_value("workers", "at least 1", str(workers))
    return count


class Tasks:
    """A store that is built by many processes: plan, run, finish. It pickles, and its journal outlives a killed worker.

    >>> import tempfile, zvf
    >>> folder = tempfile.mkdtemp()
    >>> _ = open(folder + "/a.csv", "w").write("x,y\\n1,2\\n3,4\\n")
    >>> plan = zvf.tasks(folder + "/a.csv", folder + "/a.zarrvectors")
    >>> for stage in plan.stages():
    ...     for task in stage:
    ...         _ = plan.run(task)
    >>> plan.finish().count()
    2
    """

    _work: tuple[str, ...] = ("ingest",)  # the command that plans, runs and finishes

    def __init__(self, address: str, storage: list[tuple[str, str]], plan: list[dict[str, Any]]) -> None:
        self.address = address
        self.storage = storage
        self.plan = plan

    def __len__(self) -> int:
        return len(self.plan)

    def __repr__(self) -> str:
        return f"<zvf.Tasks {self.address!r}: {len(self)} tasks>"

    def __iter__(self) -> Iterator[int]:
        return iter(task["task"] for task in self.plan)

    def stages(self) -> list[list[int]]:
        """The tasks by stage: those of one may run at once, and need those of the stages before."""
        names = list(dict.fromkeys(task["stage"] for task in self.plan))
        return [[task["task"] for task in self.plan if task["stage"] == name] for name in names]

    def run(self, task: int, *, wait: float = 600.0) -> int:
        """Do one task; doing it twice does no harm.

        Where tasks that it needs are not done yet, it waits for them, at most so many seconds: ``client.map(plan.run, plan)``
        of a cluster may start all at once, in this order.
        """
        number = count_of("task", task)
        if not number_of("wait", wait) >= 0:  # neither is NaN
            raise wrong_value("wait", "seconds", shown(wait))
        end = time.monotonic() + wait
        while True:
            try:
                command(*self._work, "run", self.address, "--task", number, storage=self.storage)
            except Error as error:
                if "to be done" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return number

    def run_all(self, workers: int = 2, *, progress: Any = None) -> Any:
        """Do every task in this many processes of this machine, and finish.

        The processes run the command ``zvf`` and nothing of the program that calls, so that it needs no
        ``if __name__ == "__main__"``. Ctrl-C ends them; what they have done stays done.
        """
        workers = _worker_count(workers)
        advance, end = reporter(progress, self._work[0])
        done = 0
        try:
            for stage in self.stages():
                for _ in _run_commands([self._command(task) for task in stage], workers):
                    done += 1
                    if advance is not None:
                        advance(done, len(self))
        finally:
            end()
        return self.finish()

    def _command(self, task: int) -> list[str]:
        options = [word for key, value in self.storage for word in ("--storage-option", f"{key}={value}")]
        return [sys.executable, "-m", "zvf", "--quiet", *options, *self._work, "run", self.address, "--task", str(task)]

    def finish(self) -> Dataset:
        """Make the store visible, when every task is done."""
        command(*self._work, "finish", self.address, storage=self.storage)
        return Dataset(self.address, self.storage)


class Work(Tasks):
    """Work on a store that many processes do: plan, run, finish. It pickles; what tasks leave for each other is in a folder.

    Made by :func:`plan_work`. ``address`` is the folder of the plan, ``kind`` the work, ``target`` the store or what is written.
    """

    _work = ("task",)

    def __init__(self, address: str, storage: list[tuple[str, str]], plan: list[dict[str, Any]], kind: str, target: str) -> None:
        super().__init__(address, storage, plan)
        self.kind = kind
        self.target = target

    def __repr__(self) -> str:
        return f"<zvf.Work {self.kind} of {self.target!r}: {len(self)} tasks>"

    def finish(self) -> Any:
        """Put together what tasks made: a `Report`, the parts of a conversion, or the store. It may be repeated."""
        said, _ = command(*self._work, "finish", self.address, storage=self.storage)
        if self.kind == "validate":
            return _report(said)
        if self.kind == "convert":
            return [f"{said['output'].rstrip('/')}/{part}" for part in said["parts"]]
        return Dataset(self.target, self.storage)

    def remove(self) -> None:
        """Remove the plan, and what tasks left for each other."""
        command(*self._work, "remove", self.address, storage=self.storage)


def _run_commands(commands: list[list[str]], workers: int) -> Iterator[None]:
    """Runs programs, so many at a time, and yields as each ends; the first that fails ends all."""
    waiting, running = list(reversed(commands)), list[subprocess.Popen[str]]()
    # What is imported here is imported there, wherever it lies.
    path = os.pathsep.join([os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path[1:]])
    environment = {**os.environ, "PYTHONPATH": path}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(subprocess.Popen(waiting.pop(), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            ended = [process for process in running if process.poll() is not None]
            for process in ended:
                running.remove(process)
                said = process.communicate()[1]
                if process.returncode != 0:
                    raise BackendError(f"a process of a task ended with {process.returncode}: {said.strip()}", op="run")
                yield
            if not ended:
                time.sleep(0.01)
    finally:
        for process in running:
            process.kill()
            process.communicate()


@keywords(FileWords)
def tasks(files: Any, at: Any, *, shares: int | None = None, storage_options: Any = None, **words: Unpack[FileWords]) -> Tasks:
    """Plan a store that many processes build; words are options of ``zvf create``."""
    address, storage = _address(at, storage_options)
    args = ["ingest", "plan", *_paths(files), address, *options(words)]
    if shares is not None:
        args += ["--shares", str(count_of("shares", shares))]
    said, _ = command(*args, storage=storage)
    return Tasks(address, storage, list(said["tasks"]))


_WORKS = ("validate", "convert", "pyramid", "vacuum")


def plan_work(
    work: str,
    store: Any,
    out: Any = None,
    *,
    folder: Any,
    shares: int | None = None,
    storage_options: Any = None,
    **words: Any,
) -> Work:
    """Plan work on a store that many processes do: ``"validate"``, ``"convert"``, ``"pyramid"`` or ``"vacuum"``.

    ``folder`` is where the plan is, and what tasks leave for each other: a folder that all workers see, or a URL. A conversion
    writes a folder of parts, ``out``. Words are options of the command that is divided.

    >>> import numpy as np, tempfile, zvf
    >>> at = tempfile.mkdtemp()
    >>> ds = zvf.points(at + "/a.zarrvectors", np.eye(3))
    >>> plan = zvf.plan_work("validate", ds, folder=at + "/plan", shares=2)
    >>> for stage in plan.stages():
    ...     for task in stage:
    ...         _ = plan.run(task)
    >>> plan.finish().ok
    True
    >>> plan.remove()
    """
    if work not in _WORKS:
        raise wrong_value("work", " or ".join(f"'{name}'" for name in _WORKS), shown(work))
    if (out is None) == (work == "convert"):
        raise wrong_value("out", "a folder for the parts" if out is None else f"nothing for '{work}'", shown(out))
    address, storage = _address(store, storage_options)
    place = address_of(folder)[0]
    if work == "validate":
        words = {"depth": _depth(words.pop("level", 3)), "limit": 0, **words}
    args = ["task", "plan", work, address, *([] if out is None else [address_of(out)[0]]), f"--work-dir={place}", *options(words)]
    if shares is not None:
        args += ["--shares", str(count_of("shares", shares))]
    said, _ = command(*args, storage=storage)
    return Work(place, storage, list(said["tasks"]), work, address if out is None else address_of(out)[0])
