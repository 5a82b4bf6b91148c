"""Waiting for the native half: blocking, with progress, and in asyncio."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

from . import _zvf
from ._words import in_python
from .errors import ArgumentTypeError, Error, shown, wrong_type, wrong_value

atexit.register(_zvf.settle, 10.0)  # what was interrupted still removes what it had begun

Progress = Callable[[int, "int | None"], Any]


def reporter(progress: bool | Progress | None, title: str) -> tuple[Progress | None, Callable[[], None]]:
    """The callback for ``progress``, and what ends it: ``True`` is a bar of tqdm, where it is installed."""
    if progress is None or progress is False:
        return None, lambda: None
    if callable(progress):
        return progress, lambda: None
    if progress is not True:
        raise wrong_type("progress", "a callable or True", shown(progress))
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None, lambda: None
    bar = tqdm(desc=title, unit="")

    def advance(done: int, total: int | None) -> None:
        bar.total = total
        bar.n = done
        bar.refresh()

    return advance, bar.close


async def awaited(job: Any) -> Any:
    """The outcome of a job, in asyncio; a cancelled task stops the job."""
    import asyncio  # a fifth of the time of ``import zvf``, and most programs never wait

    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish)

    job.on_done(tell)
    try:
        await done
    except asyncio.CancelledError:
        job.cancel()
        raise
    return job.result()


def storage_pairs(options: Any) -> list[tuple[str, str]]:
    """Storage options as the native half takes them."""
    if options is None:
        return []
    pairs = options.items() if hasattr(options, "items") else options
    try:
        return [(str(key), _word(value)) for key, value in pairs]
    except (TypeError, ValueError):
        raise wrong_type("storage_options", "a mapping of names to values", shown(options)) from None


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_memory: list[tuple[str, int]] = []  # the folder of this process and whose it is


def memory_folder(name: str) -> str:
    """Where ``memory://NAME`` is: a folder that goes with the process, in memory where the machine has such folders."""
    path = [part for part in name.split("/") if part]
    if not path or ".." in path:
        raise wrong_value("an address in memory", "memory://NAME", f"memory://{name}")
    if not _memory:
        import tempfile

        place = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
        _memory.append((tempfile.mkdtemp(prefix="zvf-memory-", dir=place), os.getpid()))
        atexit.register(_forget_memory)
    folder = os.path.join(_memory[0][0], *path)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    return folder


def is_in_memory(address: str) -> bool:
    """Whether an address is one of this process alone."""
    return bool(_memory) and address.startswith(_memory[0][0] + os.sep)


def _forget_memory() -> None:
    import shutil

    folder, owner = _memory[0]
    if owner == os.getpid():  # a forked child leaves it to its parent
        shutil.rmtree(folder, ignore_errors=True)


def address_of(source: Any) -> tuple[str, list[tuple[str, str]]]:
    """The address of whatever names a store, and the options it carries.

    Paths, URLs, ``pathlib``, stores of obstore and of zarr, and file systems of fsspec (``fs.get_mapper(path)``).
    """
    if isinstance(source, bytes):
        source = os.fsdecode(source)
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if isinstance(text, bytes):
            text = os.fsdecode(text)
        if not text:
            raise wrong_value("an address", "a path or a URL", "nothing")
        if "\0" in text:
            raise wrong_value("an address", "no zero byte", shown(text))
        if text.startswith("memory://"):
            return memory_folder(text[9:]), []
        if not text.startswith("file:///"):
            return text, []
        from urllib.parse import unquote

        return unquote(text[7:]), []
    inner = getattr(source, "address", None)
    if isinstance(inner, str):
        return inner, list(getattr(source, "_storage", []))
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    root = getattr(source, "root", None)
    if kind.startswith("zarr.") and kind.endswith("LocalStore") and root is not None:
        return os.fspath(root), []
    if kind.startswith("zarr.") and hasattr(source, "store"):
        return address_of(source.store)
    if kind.startswith("zarr.") and hasattr(source, "_store"):  # one that wraps another
        return address_of(source._store)
    if kind.startswith("zarr.") and hasattr(source, "fs"):  # FsspecStore
        return _fsspec(source.fs, str(source.path))
    if kind.startswith("obstore"):
        return _obstore(source)
    if hasattr(source, "fs") and root is not None:  # a mapper of fsspec
        return _fsspec(source.fs, str(root))
    if hasattr(source, "fs") and isinstance(getattr(source, "path", None), str):  # a path of universal_pathlib, a file of fsspec
        return _fsspec(source.fs, source.path)
    if kind.startswith("zarr."):
        raise ArgumentTypeError(f"a {type(source).__name__} of zarr cannot be shared with zvf, only with zvf.compat: its bytes belong to another library")
    if hasattr(source, "get_mapper"):
        raise ArgumentTypeError("a file system of fsspec says nothing of a folder: give fs.get_mapper(path)")
    raise wrong_type("an address", "a path, a URL or a store", type(source).__name__)


_FSSPEC_NAMES = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "endpoint_url": "aws_endpoint",
    "anon": "skip_signature",
}


def _fsspec(fs: Any, root: str) -> tuple[str, list[tuple[str, str]]]:
    protocol = getattr(fs, "protocol", "file")
    while hasattr(fs, "fs"):  # an asynchronous view of another
        fs, protocol = fs.fs, getattr(fs.fs, "protocol", "file")
    protocol = protocol if isinstance(protocol, str) else protocol[0]
    if protocol in ("file", "local", "http", "https"):
        return root, []
    if protocol not in ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl"):
        raise ArgumentTypeError(
            f"a file system of fsspec: expected files, S3, GCS, Azure or HTTP, found {protocol!r}: its bytes belong to another library"
        )
    options = getattr(fs, "storage_options", {}) or {}
    scheme = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "adl": "az"}.get(protocol, protocol)
    pairs = [(_FSSPEC_NAMES.get(k) or k, _word(v)) for k, v in options.items() if isinstance(v, (str, bool, int))]
    return f"{scheme}://{root}", pairs


def _obstore(store: Any) -> tuple[str, list[tuple[str, str]]]:
    name = type(store).__name__
    prefix = str(getattr(store, "prefix", None) or "").strip("/")
    if name == "LocalStore":
        return str(getattr(store, "prefix", "")), []
    if name == "MemoryStore":
        raise ArgumentTypeError("a MemoryStore of obstore cannot be shared with zvf: its bytes belong to another library")
    config = dict(getattr(store, "config", {}) or {})
    client = dict(getattr(store, "client_options", None) or {})
    pairs = [(k, _word(v)) for k, v in {**config, **client}.items() if v is not None]
    scheme = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az"}.get(name)
    if scheme is not None:
        bucket = config.get("bucket") or config.get("container_name") or ""
        return f"{scheme}://{bucket}/{prefix}".rstrip("/"), pairs
    if name == "HTTPStore":
        return str(getattr(store, "url", "")), pairs
    raise wrong_type("a store of obstore", "one of S3, GCS, Azure, HTTP or local", name)


def command(*args: Any, storage: list[tuple[str, str]] | None = None, progress: Any = None) -> Any:
    """Run a command line of ``zvf`` in this process and return what it says as JSON, and whether it found problems."""
    advance, end = reporter(progress, str(args[0]))
    try:
        output, findings = start_command(*args, storage=storage).wait(advance)
    except Error as error:
        error._reword(in_python(error.message), error.hint and in_python(error.hint))
        raise
    finally:
        end()
    text = bytes(output).decode()
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    return (lines[0] if len(lines) == 1 else lines), findings


def start_command(*args: Any, storage: list[tuple[str, str]] | None = None) -> Any:
    """Start a command line of ``zvf`` with JSON output."""
    words = ["--json", "--quiet"]
    for key, value in storage or []:
        words += ["--storage-option", f"{key}={value}"]
    return _zvf.call([*words, *(str(arg) for arg in args)])
