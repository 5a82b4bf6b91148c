"""SQL, by the program ``zvf-sql``: its engine is several times as large as the wheel, and is installed beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._arrays import named
from ._jobs import address_of, is_in_memory, storage_pairs
from ._words import byte_count, in_python
from .errors import NotFoundError, _make, shown, wrong_type, wrong_value

if TYPE_CHECKING:
    import pyarrow


def sql(statement: str, tables: Mapping[str, Any] | None = None, *, memory: int | str | None = None, storage_options: Any = None) -> pyarrow.Table:
    """Answer a statement of SQL about stores and files of Parquet, CSV, JSON and Arrow, as a ``pyarrow.Table``.

    Args:
        statement: one statement. A store is a table by its path in quotes.
        tables: datasets, or addresses of stores and files, by the names that the statement gives them. A store
            ``brain`` has the tables ``brain`` (its vertices), ``brain.objects``, ``brain.groups`` and so on.
        memory: the memory to use at most, in bytes, or text such as ``"2GB"``.
        storage_options: options of the backend, for all stores.

    Raises:
        NotFoundError: there is no program ``zvf-sql`` on ``PATH``; ``cargo install --path crates/zvf-sql`` installs it.
        ArgumentError: the statement is wrong, or has no answer, as ``CREATE VIEW`` has none.

    ``zvf.sql("SELECT count(*) AS n FROM brain WHERE fa > 0.5", {"brain": ds})`` counts the vertices of a dataset.
    """
    import pyarrow.ipc

    if not isinstance(statement, str):
        raise wrong_type("statement", "text", shown(statement))
    program = shutil.which("zvf-sql")
    if program is None:
        hint = "install it with: cargo install --path crates/zvf-sql"
        raise NotFoundError("zvf-sql is not on PATH", class_name="NotFound", op="sql", expected="the program zvf-sql", hint=hint)
    words = [program, "--json", "--quiet", "--format", "arrow"]
    storage = storage_pairs(storage_options)
    for name, source in named("tables", tables, "names to datasets and addresses").items():
        if not isinstance(name, str) or not name or "=" in name:
            raise wrong_value("tables", "names without an equals sign", shown(name))
        address, own = address_of(source)
        if is_in_memory(address):
            raise wrong_value(f"tables[{name!r}]", "a store that another program can open", "a store in memory")
        if (commit := getattr(source, "_commit", None)) is not None:
            found = f"one that stays at commit {commit}: zvf.checkout makes a store of it"
            raise wrong_value(f"tables[{name!r}]", "a dataset of the last commit", found)
        storage += own
        words += ["--table", f"{name}={address}"]
    for key, value in dict.fromkeys(storage):
        words += ["--storage-option", f"{key}={value}"]
    if (limit := byte_count("memory", memory)) is not None:
        words += ["--memory-limit", str(limit)]
    # A file, not a pipe: zvf-sql renames an answer into place only once it is whole.
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer.arrow")
        done = subprocess.run([*words, "--output", answer, "--", statement], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode != 0:
            raise _fault(done)
        if not os.path.exists(answer):
            raise wrong_value("statement", "one with an answer, such as SELECT", f"{shown(statement)}, which ran and has none", op="sql")
        with pyarrow.OSFile(answer) as file:
            return pyarrow.ipc.open_file(file).read_all()


def _fault(done: subprocess.CompletedProcess[str]) -> Exception:
    """The fault on standard error: a line of JSON, or of text where the arguments are wrong."""
    class_name, message = "Io", f"zvf-sql ended with {done.returncode}: {done.stderr.strip()}"
    for line in done.stderr.splitlines():
        word, comma, rest = line.removeprefix("zvf-sql: ").partition(", ")
        if comma and word.isalpha() and line.startswith("zvf-sql: "):
            class_name, message = word, rest
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and said.get("type") == "error":
                class_name = str(said["class"])
                message = str(said["message"]).removeprefix(f"{class_name}, ")
    return _make(class_name, "sql", None, None, None, None, None, in_python(message), None)
