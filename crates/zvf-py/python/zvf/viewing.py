"""The viewer in a notebook: a server of this process on this machine, and the page in a cell."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._html import escaped
from ._jobs import start_command
from ._words import count_of
from .errors import TimedOutError, wrong_value
from .history import _of

if TYPE_CHECKING:
    from typing_extensions import Self


class Server:
    """Stores over HTTP, until :meth:`close` or until nothing refers to the server: see :func:`serve`."""

    def __init__(self, addresses: list[str], words: list[str], storage: list[tuple[str, str]], port: int | None = None) -> None:
        self._port = _free_port() if port is None else count_of("port", port)
        self._job = start_command("serve", *addresses, "--bind", f"127.0.0.1:{self._port}", *words, storage=storage)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The page with the stores that are served."""
        return f"http://127.0.0.1:{self._port}/"

    def _wait(self) -> None:
        """Returns when the server answers; raises what it failed with."""
        from urllib.error import URLError
        from urllib.request import urlopen

        end = time.monotonic() + 10
        while True:
            try:
                urlopen(f"{self.url}healthz", timeout=1).close()
                return
            except (URLError, OSError):
                if self._job.is_done():
                    self._job.wait()  # raises
                if time.monotonic() > end:
                    raise TimedOutError(f"the server at {self.url} did not answer within 10 s", op="serve") from None
                time.sleep(0.02)

    def close(self) -> None:
        """Stop the server."""
        self._job.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_job"):
            self.close()

    def __repr__(self) -> str:
        return f"<zvf.{type(self).__name__} {self.url}>"


class View(Server):
    """A store that is looked at: the server runs until :meth:`close`, or until nothing refers to it.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.random.default_rng(0).random((100, 3)))
    >>> with ds.view() as view:
    ...     view.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, address: str, storage: list[tuple[str, str]], height: int = 480) -> None:
        self.height = count_of("height", height)
        super().__init__([address], [], storage)

    @property
    def page(self) -> str:
        """The viewer of the store."""
        from urllib.parse import quote
        from urllib.request import urlopen

        with urlopen(f"{self.url}api/stores", timeout=5) as reply:
            name = json.load(reply)[0]["name"]
        state = json.dumps({"store": f"../data/{name}/"}, separators=(",", ":"))
        return f"{self.url}view/#!{quote(state, safe='{}:,./')}"

    def _repr_html_(self) -> str:
        return f'<iframe src="{escaped(self.page)}" width="100%" height="{self.height}" style="border:0"></iframe>'


def serve(
    *stores: Any, port: int | None = None, precomputed: bool = False, cors: Iterable[str] = (), storage_options: Any = None
) -> Server:
    """Serve stores, or folders with stores, to programs of this machine: chunks, queries, and the viewer.

    ``port`` is a free one unless it is given. With ``precomputed`` the stores are also there in the formats of
    Neuroglancer. Pages of the origins in ``cors`` may read what is served. For other machines, tokens and limits there
    is the command ``zvf serve``.

    >>> import json, tempfile, urllib.request, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", [[1.0, 2, 3]])
    >>> with zvf.serve(ds) as server:
    ...     json.load(urllib.request.urlopen(server.url + "api/stores"))[0]["name"]
    'a'
    """
    if not stores:
        raise wrong_value("stores", "one store or more", "none")
    found = [_of(store, storage_options) for store in stores]
    words = ["--precomputed"] if precomputed else []
    for origin in [cors] if isinstance(cors, str) else cors:
        words += ["--cors", origin]
    storage = dict.fromkeys(pair for _, pairs in found for pair in pairs)
    return Server([address for address, _ in found], words, list(storage), port)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


__all__ = ["Server", "View", "serve"]
